"""Compare mrcc with ONNX Runtime, and with OpenVINO where it is installed (--peers installs it), side by side.

    python bench.py --mrcc build/bin/mrcc --work DIR [--rounds 15] [--threads 1] [--only LABEL,...] [model ...]

Each engine runs in a process of its own, pinned to the same cores. In every round each engine runs
each variant in turn, in an order that rotates from round to round, and a ratio is always taken
between two times of the same round: what slows the machine down slows both. The rival in the last
column is the fastest other engine of the case, picked in rounds of their own before the counted ones.
"""
import argparse
import importlib.util
import json
import math
import pathlib
import statistics
import subprocess
import sys
import time

import numpy as np

import engines
import inputs
import models

OPENVINO = "openvino==2026.4.1"
PICKING_ROUNDS = 3
SECONDS_A_TURN = 0.15  # an engine repeats a fast model within its turn for about so long


class Engine:
    """An engine's process, driven by one JSON line at a time."""

    def __init__(self, name, cpus):
        self.name = name
        self.process = subprocess.Popen(
            ["taskset", "--cpu-list", ",".join(map(str, cpus)), sys.executable, engines.__file__, name],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def ask(self, **request):
        self.process.stdin.write(json.dumps(request) + "\n")
        self.process.stdin.flush()
        answer = self.process.stdout.readline()
        if not answer:
            raise SystemExit(f"bench: {self.name} died")
        return json.loads(answer)

    def outputs(self, variant, file):
        """What the engine answers for a variant, by way of a file."""
        self.ask(do="output", variant=variant, file=str(file))
        with np.load(file) as arrays:
            return [arrays[k] for k in arrays.files]

    def close(self):
        self.process.stdin.close()
        self.process.wait()


def interval(values):
    """A distribution-free interval of about 95 % for the median."""
    values = sorted(values)
    n = len(values)
    k = max(0, math.floor(n / 2 - 0.98 * math.sqrt(n)))
    return values[k], values[n - 1 - k]


def mean(values):
    return math.exp(statistics.fmean(map(math.log, values)))


def measure(started, variants, rounds, calls):
    """times[engine][variant]: a median per round."""
    times = {e.name: {v: [] for v in variants} for e in started}
    for r in range(rounds):
        for v in variants:
            for k in range(len(started)):
                engine = started[(r + k) % len(started)]
                got = engine.ask(do="run", variant=v, calls=calls[engine.name][v])["times"]
                times[engine.name][v].append(statistics.median(got))
    return times


def bench(name, options, scratch):
    """One model: prints its table, returns one dict a variant."""
    wanted = [i for i in range(len(models.MODELS[name].variants))
              if not options.only or inputs.label(name, i) in options.only]
    if not wanted:
        return []
    path = models.locate(name, options.work)
    bundle = scratch / f"{name}.mrcb"
    start = time.perf_counter()
    if subprocess.run([options.mrcc, "compile", "--quiet", path, *models.compile_options(name, wanted),
                       *options.compile_flag, "-o", bundle]).returncode:
        raise SystemExit(f"bench: {name} does not compile")
    print(f"\n{name}: {len(wanted)} variants compiled in {time.perf_counter() - start:.1f} s", flush=True)

    started = [Engine(e, options.cpus) for e in options.engines]
    job = {"model": name, "path": str(path), "bundle": str(bundle), "library": str(options.library), "variants": wanted,
           "threads": options.threads}
    for e in started:
        e.ask(do="load", **job)

    # Same answers first; this is also the warm-up.
    reference = next(e for e in started if e.name == "ort-dynamic")
    for v in wanted:
        expected = reference.outputs(v, scratch / "ort.npz")
        for e in started:
            for a, b in zip(e.outputs(v, scratch / "out.npz"), expected, strict=True):
                error = np.abs(a.astype(np.float64) - b).max() / np.abs(b).max()
                if not error < 1e-3:
                    print(f"  {e.name} differs from ONNX Runtime at {inputs.label(name, v)}: {error:.1e}")

    once = {e.name: {v: 1 for v in wanted} for e in started}
    first = measure(started, wanted, PICKING_ROUNDS, once)
    calls = {e: {v: max(1, round(SECONDS_A_TURN / min(t))) for v, t in per.items()} for e, per in first.items()}
    others = [e for e in options.engines if e != "mrcc"]
    rival = {v: min(others, key=lambda e: min(first[e][v])) for v in wanted}
    times = measure(started, wanted, options.rounds, calls)
    memory = {e.name: e.ask(do="memory") for e in started}
    for e in started:
        e.close()

    print(f"  {'ms, median':16}" + "".join(f"{e:>18}" for e in options.engines) +
          "".join(f"{'mrcc/' + e:>24}" for e in others) + "  rival")
    rows = []
    for v in wanted:
        ratios = {e: [a / b for a, b in zip(times["mrcc"][v], times[e][v])] for e in others}
        row = {"model": name, "variant": inputs.label(name, v), "rival": rival[v],
               "ms": {e: 1e3 * statistics.median(times[e][v]) for e in options.engines},
               "ratio": {e: statistics.median(r) for e, r in ratios.items()},
               "interval": {e: interval(r) for e, r in ratios.items()}, "memory": memory}
        rows.append(row)
        print(f"  {row['variant']:16}" + "".join(f"{row['ms'][e]:18.2f}" for e in options.engines) +
              "".join("{:>24}".format("{:.2f} [{:.2f}, {:.2f}]".format(row["ratio"][e], *row["interval"][e])) for e in others) +
              f"  {rival[v]} {row['ratio'][rival[v]]:.2f}", flush=True)
    print(f"  {'geometric mean':16}" + " " * 18 * len(options.engines) +
          "".join(f"{mean([r['ratio'][e] for r in rows]):>9.2f}{'':15}" for e in others) +
          f"  rival {mean([r['ratio'][r['rival']] for r in rows]):.2f}")
    print(f"  {'memory, MiB':16}" + "".join(f"{memory[e]['peak_growth'] / 2**20:18.1f}" for e in options.engines) +
          "  (resident set's growth at its peak, model and all variants)")
    return rows


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("models", nargs="*", metavar="model", help=f"of {', '.join(models.MODELS)}; all but cls by default")
    parser.add_argument("--mrcc", default="build/bin/mrcc", type=pathlib.Path)
    parser.add_argument("--work", default="build/models", type=pathlib.Path, help="folder that the models are put into")
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--cpu", type=int, default=0, help="the first core to pin to (0)")
    parser.add_argument("--only", metavar="LABEL,...", type=lambda s: s.split(","), help="these variants")
    parser.add_argument("--engines", type=lambda s: s.split(","), help=f"of {', '.join(engines.ENGINES)}")
    parser.add_argument("--peers", action="store_true", help=f"install {OPENVINO} from PyPI first, if it is missing")
    parser.add_argument("--compile-flag", action="append", default=[], metavar="FLAG", help="for mrcc compile, e.g. --target=native")
    parser.add_argument("--json", type=pathlib.Path, help="write the figures here too")
    options = parser.parse_args()
    if unknown := [n for n in options.models if n not in models.MODELS]:
        parser.error(f"no such model: {', '.join(unknown)}")
    if options.peers and not importlib.util.find_spec("openvino"):
        subprocess.run([sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", OPENVINO], check=True)
        importlib.invalidate_caches()
    options.engines = options.engines or [e for e in engines.ENGINES if "openvino" not in e or importlib.util.find_spec("openvino")]
    for needed in ("ort-dynamic", "mrcc"):
        if needed not in options.engines:
            options.engines.insert(0, needed)
    if unknown := [e for e in options.engines if e not in engines.ENGINES]:
        parser.error(f"no such engine: {', '.join(unknown)}")
    options.cpus = range(options.cpu, options.cpu + options.threads)
    options.library = options.mrcc.resolve().parent.parent / "lib" / "libmrcc-runtime.so"

    scratch = options.work / "bench"
    scratch.mkdir(parents=True, exist_ok=True)
    rows = []
    for name in options.models or [m for m in models.MODELS if m != "cls"]:
        rows += bench(name, options, scratch)
    if rows:
        print(f"\nover all {len(rows)} cases: {mean([r['ratio'][r['rival']] for r in rows]):.3f} of the rival's time, "
              f"worst {max(r['ratio'][r['rival']] for r in rows):.2f}")
    if options.json:
        options.json.write_text(json.dumps(rows, indent=1))


if __name__ == "__main__":
    main()
