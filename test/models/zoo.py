"""Compile, run and compare models of many architectures that need no download.

    python zoo.py MRCC --work DIR [name ...] [--tolerance 1e-4]

The graphs of models/graphs/zoo at three resolutions or batches each, against ONNX Runtime; and the light models inside
the `onnx` package, whose weights are one repeated value: their output is one value too, so what counts there is that no
weight becomes bytes in the bundle. Exit 1 if one fails; a model that does not compile does not stop the others.
"""
import argparse
import pathlib
import shutil

import numpy as np
import onnx

from common import Mrcc
from compare import difference, run
import inputs
import models
import reference

LIGHT = pathlib.Path(onnx.__file__).parent / "backend" / "test" / "data" / "light"
MAX_LIGHT_BYTES = 100_000  # of constants; vgg19 has 575 MB of weights

SIZES = ((1, 64, 96), (1, 112, 80), (3, 70, 65))
# name -> (channels, (N, H, W) of each variant)
ZOO = {
    "mobilenet-v3": (3, SIZES),
    "efficientnet": (3, SIZES),
    "convnext": (3, SIZES),
    "vit": (3, SIZES),
    "swin": (3, SIZES),
    "deeplab": (3, ((1, 64, 96), (1, 112, 80), (1, 70, 65))),
    "detr": (3, SIZES),
    "espcn": (3, ((1, 40, 40), (1, 33, 50), (2, 24, 61))),
    "edsr": (3, ((1, 40, 40), (1, 33, 50), (2, 24, 61))),
    "crnn": (1, ((1, 32, 96), (1, 32, 131), (1, 32, 320))),
}


def light_names():
    return [p.stem for p in sorted(LIGHT.glob("*.onnx"))]


def compare(mrcc, path, name, variants, scratch, tolerance):
    """Compiles all variants into one bundle and compares each; returns the bundle's facts and how many failed."""
    words = [w for v in variants for w in ("--shape", models.shape_option(v))]
    seconds, _ = mrcc("compile", path, *words, "-o", scratch / "m.mrcb")
    facts = mrcc.dump(scratch / "m.mrcb")
    ort = reference.session(path)
    failures = 0
    worst = 0.0
    for i, variant in enumerate(variants):
        rng = np.random.default_rng(i)
        feeds = {n: inputs.clouds(rng, dims) for n, dims in variant.items()}
        expected = ort.run(None, feeds)
        if name in ZOO and (constant := reference.constant(expected)):
            raise SystemExit(f"reference outputs {constant} are constant, the comparison would say nothing")
        _, got = run(mrcc, scratch / "m.mrcb", feeds, scratch / str(i))
        errors = [difference(a, b) for a, b in zip(got, expected)]
        for error in errors if len(got) == len(expected) else [f"{len(got)} outputs, expected {len(expected)}"]:
            if isinstance(error, str) or not error < tolerance:
                failures += 1
                print(f"{name}: {models.shape_option(variant)}: {error}  FAILED")
            else:
                worst = max(worst, error)
    print(f"{name:24} {len(variants)} variants compiled in {seconds:5.1f} s, {facts['constants']['blob_bytes']:9} bytes "
          f"of constants, worst {worst:.1e}", flush=True)
    return facts, failures


def zoo(mrcc, name, scratch, tolerance):
    channels, sizes = ZOO[name]
    path = scratch / "m.onnx"
    path.write_bytes(models.filled(f"zoo/{name}"))
    return compare(mrcc, path, name, [{"x": (n, channels, h, w)} for n, h, w in sizes], scratch, tolerance)[1]


def light(mrcc, name, scratch, tolerance):
    path = LIGHT / f"{name}.onnx"
    graph = onnx.load(path).graph
    filled = {t.name for t in graph.initializer}
    variant = {v.name: tuple(d.dim_value for d in v.type.tensor_type.shape.dim) for v in graph.input if v.name not in filled}
    facts, failures = compare(mrcc, path, name, [variant], scratch, tolerance)
    stored = facts["constants"]["blob_bytes"]
    if stored > MAX_LIGHT_BYTES:
        failures += 1
        print(f"{name}: {stored} bytes of constants, at most {MAX_LIGHT_BYTES} expected  FAILED")
    return failures


def main():
    names = [*ZOO, *light_names()]
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("mrcc", type=pathlib.Path)
    parser.add_argument("names", nargs="*", metavar="name", help=", ".join(names))
    parser.add_argument("--work", required=True, type=pathlib.Path, help="folder for the results")
    parser.add_argument("--tolerance", type=float, default=1e-4)
    options = parser.parse_args()
    if unknown := [n for n in options.names if n not in names]:
        parser.error(f"no such model: {', '.join(unknown)}")
    if len(light_names()) != 9:
        raise SystemExit(f"expected nine light models in {LIGHT}, found {len(light_names())}")
    failures = 0
    for name in options.names or names:
        scratch = options.work / "zoo" / name
        shutil.rmtree(scratch, ignore_errors=True)
        scratch.mkdir(parents=True)
        try:
            failures += (zoo if name in ZOO else light)(Mrcc(options.mrcc), name, scratch, options.tolerance)
        except SystemExit as error:
            failures += 1
            print(f"{name}: {error}  FAILED", flush=True)
    raise SystemExit(1 if failures else 0)


if __name__ == "__main__":
    main()
