"""Check what a bundle of many resolutions may cost: constants once, code once, tight arenas.

    python budget.py MRCC MODEL --work DIR

Compiles the model for its first resolution alone and for all of them, and compares what
`mrcc dump --json` says of the two bundles. Exit 1 if a budget is exceeded.
"""
import argparse
import pathlib
import shutil

import onnx

from common import Mrcc
import models

MAX_CONSTANT_GROWTH = 1.02   # constants of all resolutions, over those of one
MAX_CONSTANTS = 1.1          # the same over the bytes of the model's own weights
MAX_CODE_GROWTH = 1.2        # code of all resolutions, over that of one
MAX_CODE_BYTES = 1_500_000
MAX_ARENA = 1.1              # arena of a variant, over its lower bound


def weight_bytes(path):
    """Bytes of the model's own weights: initialisers, and the constants that Paddle's exporter writes as nodes."""
    graph = onnx.load(path).graph
    constants = [a.t for n in graph.node if n.op_type == "Constant" for a in n.attribute if a.HasField("t")]
    return sum(onnx.numpy_helper.to_array(t).nbytes for t in [*graph.initializer, *constants])


def code_bytes(facts):
    return sum(f["bytes"] for f in facts["files"] if f["name"].startswith("code-"))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("mrcc", type=pathlib.Path)
    parser.add_argument("model", choices=models.MODELS)
    parser.add_argument("--work", required=True, type=pathlib.Path, help="folder for the models and the results")
    options = parser.parse_args()

    scratch = options.work / "budget" / options.model
    shutil.rmtree(scratch, ignore_errors=True)
    scratch.mkdir(parents=True)
    mrcc = Mrcc(options.mrcc)
    model = models.locate(options.model, options.work)

    def compiled(indices, name):
        mrcc("compile", model, *models.compile_options(options.model, indices), "-o", scratch / name)
        return mrcc.dump(scratch / name)

    one = compiled([0], "one.mrcb")
    many = compiled(range(len(models.MODELS[options.model].variants)), "many.mrcb")
    blob = many["constants"]["blob_bytes"]
    checks = [
        ("constants, of those of one resolution", blob / one["constants"]["blob_bytes"], MAX_CONSTANT_GROWTH),
        ("constants, of the model's weights", blob / weight_bytes(model), MAX_CONSTANTS),
        ("code, of that of one resolution", code_bytes(many) / code_bytes(one), MAX_CODE_GROWTH),
        ("code bytes", code_bytes(many), MAX_CODE_BYTES),
        ("kernels that no variant calls", sum(not k["variants"] for k in many["kernels"]), 0),
    ]
    checks += [(f"arena, of its lower bound, {v['key']}", v["arena_bytes"] / v["arena_lower_bound_bytes"], MAX_ARENA)
               for v in many["variants"]]
    for what, value, limit in checks:
        print(f"{what:56} {value:12.4g}  limit {limit:<10.4g}{'FAILED' if value > limit else ''}")
    raise SystemExit(any(value > limit for _, value, limit in checks))


if __name__ == "__main__":
    main()
