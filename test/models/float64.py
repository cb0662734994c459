"""Hold a model's error against float64 to limits: float64.py MRCC MODEL --work DIR

The model with every float widened to double runs through onnx's reference evaluator on 15 drawn inputs of one small size.
The error of an input is max |a - b| / max |b|, and the median over the inputs counts: a near tie (of two characters, say)
multiplies any rounding, whoever made it. mrcc's is at most 1e-4 and, of ONNX Runtime's own on the same inputs, at most 12
times (--math=fast) or 1.5 times (--math=strict), or below four units in the last place of a float, where the ratio of two
roundings says nothing. Exit 1 on failure.
"""
import argparse
import pathlib
import statistics
import sys

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, numpy_helper
from onnx.reference import ReferenceEvaluator
from onnx.reference.op_run import OpRun

from common import Mrcc
from compare import run
import inputs
import models

SIZES = {
    "cls": {"x": (3, 3, 48, 192)},
    "det": {"x": (1, 3, 96, 160)},
    "det-v6": {"x": (1, 3, 96, 160)},
    "rec": {"x": (2, 3, 48, 96)},
    "resnet50": {"x": (1, 3, 96, 96)},
    "unet-small": {"sample": (1, 4, 16, 24), "timestep": (1,), "encoder_hidden_states": (1, 77, 256)},
}
SEEDS = range(1, 16)
LIMIT = 1e-4
OF_ORT = {"fast": 12, "strict": 1.5}
ROUNDING = 4 * 2.0**-24


class BatchNormalization(OpRun):
    """Inference alone: the evaluator's own takes a momentum, which files before opset 14 carry, for training."""

    def _run(self, x, scale, bias, mean, variance, epsilon=1e-5, **_):
        scale, bias, mean, variance = (v.reshape(-1, *[1] * (x.ndim - 2)) for v in (scale, bias, mean, variance))
        return (scale * (x - mean) / np.sqrt(variance + epsilon) + bias,)


def widen(tensor):
    if tensor.data_type == TensorProto.FLOAT:
        tensor.CopyFrom(numpy_helper.from_array(numpy_helper.to_array(tensor).astype(np.float64), tensor.name))


def widened(model):
    """The model with every float a double, ready to run. Without subgraphs, functions: none of these models has one."""
    for tensor in model.graph.initializer:
        widen(tensor)
    for value in (*model.graph.input, *model.graph.output):
        if value.type.tensor_type.elem_type == TensorProto.FLOAT:
            value.type.tensor_type.elem_type = TensorProto.DOUBLE
    for node in model.graph.node:
        for attribute in node.attribute:
            if attribute.type == onnx.AttributeProto.TENSOR:
                widen(attribute.t)
            if node.op_type == "Cast" and attribute.name == "to" and attribute.i == TensorProto.FLOAT:
                attribute.i = TensorProto.DOUBLE
    del model.graph.value_info[:]
    return ReferenceEvaluator(model, new_ops=[BatchNormalization])


def error(got, expected):
    return max(float(np.abs(a - b).max() / np.abs(b).max()) for a, b in zip(got, expected, strict=True))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("mrcc", type=pathlib.Path)
    parser.add_argument("model", choices=SIZES)
    parser.add_argument("--work", required=True, type=pathlib.Path, help="folder for the models and the results")
    parser.add_argument("--target", default="cpu:x86-64-v3", help="what CPU (default: %(default)s)")
    options = parser.parse_args()
    mrcc, name, size = Mrcc(options.mrcc), options.model, SIZES[options.model]
    work = options.work / "float64" / name
    work.mkdir(parents=True, exist_ok=True)
    path = models.locate(name, options.work)

    drawn = [inputs.draw(name, size, seed) for seed in SEEDS]
    evaluator = widened(onnx.load(path))
    expected = [evaluator.run(None, {k: v.astype(np.float64) if v.dtype == np.float32 else v for k, v in feeds.items()})
                for feeds in drawn]
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    of_ort = [error(session.run(None, feeds), e) for feeds, e in zip(drawn, expected)]
    usual = statistics.median(of_ort)
    print(f"{name:<14} median   worst   of ONNX Runtime's   limit\n  ONNX Runtime {usual:.1e} {max(of_ort):.1e}")
    shape = ";".join(f"{models.quoted(k)}={'x'.join(map(str, dims))}" for k, dims in size.items())
    failed = False
    for math, times in OF_ORT.items():
        bundle = work / f"{math}.mrcb"
        mrcc("compile", path, "--quiet", "--shape", shape, "--math", math, "--target", options.target, "-o", bundle)
        errors = [error(run(mrcc, bundle, feeds, work / "run")[1], e) for feeds, e in zip(drawn, expected)]
        median, limit = statistics.median(errors), min(LIMIT, max(times * usual, ROUNDING))
        print(f"  {math:<12} {median:.1e} {max(errors):.1e} {median / usual:19.2f} {limit:7.1e}")
        failed |= not median <= limit
    return failed


if __name__ == "__main__":
    sys.exit(main())
