"""Compile, run and compare models of many architectures that need no download.

    python zoo.py MRCC --work DIR [name ...] [--tolerance 1e-4]

The graphs of models/graphs/zoo at three resolutions or batches each, against ONNX Runtime; and the light models inside
the `onnx` package, whose weights are one repeated value: their output is one value too, so what counts there is that no
weight becomes bytes in the bundle. Six of them again with drawn weights (NAME-drawn), whose output does differ from place to place.
Exit 1 if one fails; a model that does not compile does not stop the others.
"""
import argparse
import math
import pathlib
import shutil

import numpy as np
import onnx
from onnx import numpy_helper

from common import Mrcc
from compare import difference, run
import inputs
import models
import reference

LIGHT = pathlib.Path(onnx.__file__).parent / "backend" / "test" / "data" / "light"
MAX_LIGHT_BYTES = 100_000  # of constants; vgg19 has 575 MB of weights
MAX_DRAWN_BYTES = 128_000_000

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


def weights_of(model):
    """Name -> dims of what a light model makes by ConstantOfShape."""
    held = {t.name: numpy_helper.to_array(t) for t in model.graph.initializer}
    return {n.output[0]: tuple(map(int, held[n.input[0]])) for n in model.graph.node
            if n.op_type == "ConstantOfShape" and n.input[0] in held}


def is_drawn_size(path):
    return 4 * sum(map(math.prod, weights_of(onnx.load(path)).values())) <= MAX_DRAWN_BYTES


def drawn_names():
    return [f"{p.stem}-drawn" for p in sorted(LIGHT.glob("*.onnx")) if is_drawn_size(p)]


def drawn(name):
    """A light model whose weights are initialisers of values that keep the data's size from layer to layer, as bytes."""
    model = onnx.load(LIGHT / f"{name}.onnx")
    wide = {n.output[0]: n.input[0] for n in model.graph.node if n.op_type == "Unsqueeze"}
    uses = {wide.get(v, v): (n.op_type, i) for n in model.graph.node for i, v in enumerate(n.input)}
    rng = np.random.default_rng(0)
    for weight, dims in weights_of(model).items():
        op, place = uses.get(weight, ("", 0))
        if len(dims) > 1:
            values = rng.standard_normal(dims) * math.sqrt(2 / math.prod(dims[1:]))
        elif op == "Mul" or op == "BatchNormalization" and place in (1, 4):
            values = rng.uniform(0.5, 1.5, dims)
        else:
            values = rng.standard_normal(dims) * 0.1
        model.graph.initializer.append(numpy_helper.from_array(values.astype(np.float32), weight))
    made = set(weights_of(model))
    kept = [n for n in model.graph.node if n.output[0] not in made]
    del model.graph.node[:]
    model.graph.node.extend(kept)
    return model.SerializeToString()


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
        if name not in light_names() and (constant := reference.constant(expected)):
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


def own_variant(path):
    """The inputs of a model as the file declares them."""
    graph = onnx.load(path).graph
    filled = {t.name for t in graph.initializer}
    return {v.name: tuple(d.dim_value for d in v.type.tensor_type.shape.dim) for v in graph.input if v.name not in filled}


def light_drawn(mrcc, name, scratch, tolerance):
    path = scratch / "m.onnx"
    path.write_bytes(drawn(name.removesuffix("-drawn")))
    return compare(mrcc, path, name, [own_variant(path)], scratch, tolerance)[1]


def light(mrcc, name, scratch, tolerance):
    path = LIGHT / f"{name}.onnx"
    facts, failures = compare(mrcc, path, name, [own_variant(path)], scratch, tolerance)
    stored = facts["constants"]["blob_bytes"]
    if stored > MAX_LIGHT_BYTES:
        failures += 1
        print(f"{name}: {stored} bytes of constants, at most {MAX_LIGHT_BYTES} expected  FAILED")
    return failures


def main():
    names = [*ZOO, *light_names(), *drawn_names()]
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("mrcc", type=pathlib.Path)
    parser.add_argument("names", nargs="*", metavar="name", help=", ".join(names))
    parser.add_argument("--work", required=True, type=pathlib.Path, help="folder for the results")
    parser.add_argument("--tolerance", type=float, default=1e-4)
    options = parser.parse_args()
    if unknown := [n for n in options.names if n not in names]:
        parser.error(f"no such model: {', '.join(unknown)}")
    if len(light_names()) != 9 or len(drawn_names()) != 6:
        raise SystemExit(f"expected nine light models in {LIGHT}, six of them small, found {light_names()} and {drawn_names()}")
    failures = 0
    for name in options.names or names:
        scratch = options.work / "zoo" / name
        shutil.rmtree(scratch, ignore_errors=True)
        scratch.mkdir(parents=True)
        try:
            kind = zoo if name in ZOO else light_drawn if name.endswith("-drawn") else light
            failures += kind(Mrcc(options.mrcc), name, scratch, options.tolerance)
        except SystemExit as error:
            failures += 1
            print(f"{name}: {error}  FAILED", flush=True)
    raise SystemExit(1 if failures else 0)


if __name__ == "__main__":
    main()
