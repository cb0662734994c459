"""Compile a model for its resolutions in one bundle, run each and compare with ONNX Runtime.

    python compare.py MRCC MODEL --work DIR [--quick | --only LABEL[,LABEL...]] [--tolerance 1e-4]

Every output of every variant must have ONNX Runtime's type and shape and max|a-b| / max|b| below
the tolerance. The first variant must give the same bits with 1, 2 and 5 threads. LABEL is the dims of the first input, as in the table printed. Exit 1 on failure.
"""
import argparse
import pathlib
import shutil

import numpy as np

from common import Mrcc
import inputs
import models
import reference


def indices(options):
    """The variants to compare, as indices into the model's list."""
    model = models.MODELS[options.model]
    if options.quick:
        return model.quick
    labels = {inputs.label(options.model, i): i for i in range(len(model.variants))}
    wanted = options.only.split(",") if options.only else labels
    if unknown := [w for w in wanted if w not in labels]:
        raise SystemExit(f"{options.model} has no variant {', '.join(unknown)}; it has {', '.join(labels)}")
    return [labels[w] for w in wanted]


def difference(got, expected):
    """max|a-b| / max|b|, or what makes the arrays incomparable, as text."""
    if got.dtype != expected.dtype or got.shape != expected.shape:
        return f"is {got.dtype} {list(got.shape)}, expected {expected.dtype} {list(expected.shape)}"
    if got.dtype.kind != "f":
        return 0.0 if np.array_equal(got, expected) else "differs"
    if not np.isfinite(got).all():
        return f"{np.count_nonzero(~np.isfinite(got))} of {got.size} values are not finite"
    return float(np.abs(got.astype(np.float64) - expected).max() / np.abs(expected).max())


def run(mrcc, bundle, feeds, folder, *options):
    """Runs one variant through `mrcc run`; returns the seconds and the outputs in the model's order."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    words = []
    for k, (name, array) in enumerate(feeds.items()):
        np.save(folder / f"in{k}.npy", array)
        words += ["--input", f"{models.quoted(name)}={folder / f'in{k}.npy'}"]
    seconds, _ = mrcc("run", bundle, *words, *options, "--output-dir", folder / "out")
    files = sorted((folder / "out").glob("*.npy"), key=lambda p: int(p.name.split("-")[0]))
    return seconds, [np.load(f) for f in files]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("mrcc", type=pathlib.Path)
    parser.add_argument("model", choices=models.MODELS)
    parser.add_argument("--work", required=True, type=pathlib.Path, help="folder for the models and the results")
    parser.add_argument("--quick", action="store_true", help="a few of the variants")
    parser.add_argument("--only", metavar="LABEL,...", help="these variants")
    parser.add_argument("--tolerance", type=float, default=1e-4)
    options = parser.parse_args()

    scratch = options.work / "compare" / options.model
    shutil.rmtree(scratch, ignore_errors=True)
    scratch.mkdir(parents=True)
    mrcc = Mrcc(options.mrcc)
    model = models.locate(options.model, options.work)
    bundle = scratch / f"{options.model}.mrcb"
    wanted = indices(options)
    seconds, _ = mrcc("compile", model, *models.compile_options(options.model, wanted), "-o", bundle)
    facts = mrcc.dump(bundle)
    print(f"{options.model}: {len(facts['variants'])} variants compiled in {seconds:.1f} s, "
          f"{sum(f['bytes'] for f in facts['files']) / 1e6:.2f} MB")
    failures = 0
    if len(facts["variants"]) != len(wanted):
        failures += 1
        print(f"  expected {len(wanted)} variants: {[v['key'] for v in facts['variants']]}")

    ort = reference.session(model)
    for i in wanted:
        label = inputs.label(options.model, i)
        feeds = inputs.feeds(options.model, i)
        expected = ort.run(None, feeds)
        if constant := reference.constant(expected):
            raise SystemExit(f"{label}: reference outputs {constant} are constant, the comparison would say nothing")
        seconds, got = run(mrcc, bundle, feeds, scratch / label)
        if len(got) != len(expected):
            failures += 1
            print(f"  {label:16} {len(got)} outputs, expected {len(expected)}  FAILED")
            continue
        for k, (a, b) in enumerate(zip(got, expected)):
            error = difference(a, b)
            bad = isinstance(error, str) or not error < options.tolerance
            failures += bad
            text = error if isinstance(error, str) else f"{error:.2e}"
            print(f"  {label:16} output {k} {'x'.join(map(str, b.shape)):16} {seconds:6.2f} s  {text}{'  FAILED' if bad else ''}")
    feeds = inputs.feeds(options.model, wanted[0])
    one, *others = [run(mrcc, bundle, feeds, scratch / f"threads-{n}", "--threads", n)[1] for n in (1, 2, 5)]
    for n, got in zip((2, 5), others):
        if any(a.tobytes() != b.tobytes() for a, b in zip(one, got, strict=True)):
            failures += 1
            print(f"  {inputs.label(options.model, wanted[0])}: {n} threads give other bits than one  FAILED")
    raise SystemExit(1 if failures else 0)


if __name__ == "__main__":
    main()
