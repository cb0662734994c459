#!/usr/bin/env python3
"""Cases of our own, run by mrcc-conformance: own.py DIR --conformance PROGRAM.

Model files as exporters write them, against ONNX Runtime: every opset from 7 to the newest that the onnx package has, with
ops in the form of that opset; weights in external files, one of them of more than 2 GB (a sparse file); nodes in any order;
functions; names that are missing or there twice; initialisers that are inputs; optional operands left empty. And results
that are worked out here: resampling, pools whose last window is cut, an image of bytes. Cases are written to DIR.
"""
import argparse
import inspect
import math
import os
import random
import shutil
import sys
from fractions import Fraction

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper
from onnx.helper import make_node as node
from onnx.reference import ReferenceEvaluator

from grid import run_cases, write_model

OLDEST = 7
X = np.linspace(-2, 3, 48, dtype=np.float32).reshape(1, 3, 4, 4)
CASES = {}


def case(function):
    CASES[function.__name__.replace("_", "-")] = function
    return function


def graph_model(nodes, outputs, constants=(), opset=17, inputs=None, **more):
    graph = helper.make_graph(list(nodes), "g", inputs or [helper.make_tensor_value_info("x", TensorProto.FLOAT, X.shape)],
                              [helper.make_empty_tensor_value_info(o) for o in outputs], list(constants))
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset), *more.pop("opsets", [])],
                             ir_version=10 if opset < 24 else 13, **more)


def constant(name, values, dtype=np.int64):
    return numpy_helper.from_array(np.array(values, dtype), name)


# ---- one model an opset ----

def by_operand(name, values, since, opset, attribute=None):
    """(inputs, constants, attributes): a list that is an attribute before the opset `since`, an operand from it on."""
    if opset < since:
        return [], [], {attribute or name: values}
    return [f"c_{name}_{since}"], [constant(f"c_{name}_{since}", values)], {}


def forms(v):
    """(op, inputs, constants, attributes, number of outputs) of ops whose form or meaning changed, in opset v's."""
    f32 = np.float32
    axes = by_operand("axes", [1, 3], 13, v)
    yield "ReduceSum", ["x"] + axes[0], axes[1], {**axes[2], "keepdims": 0}, 1
    axes = by_operand("axes", [2], 18, v)
    yield "ReduceMean", ["x"] + axes[0], axes[1], axes[2], 1
    yield "ReduceMax", ["x"] + axes[0], axes[1], axes[2], 1
    axes = by_operand("axes", [0, 4], 13, v, "axes")
    axes = ([n + "u" for n in axes[0]], [constant(t.name + "u", [0, 4]) for t in axes[1]], axes[2])
    yield "Unsqueeze", ["x"] + axes[0], axes[1], axes[2], 1
    axes = by_operand("axes", [0], 13, v)
    axes = ([n + "s" for n in axes[0]], [constant(t.name + "s", [0]) for t in axes[1]], axes[2])
    yield "Squeeze", ["x"] + axes[0], axes[1], axes[2], 1
    for op in "Softmax", "LogSoftmax", "Hardmax":
        yield op, ["x"], [], {}, 1  # the default axis and its meaning changed with opset 13
    if v < 11:
        yield "Clip", ["x"], [], {"min": -1.0, "max": 1.5}, 1
        yield "Pad", ["x"], [], {"mode": "reflect", "pads": [0, 0, 1, 2, 0, 0, 2, 1]}, 1
    else:
        yield "Clip", ["x", "low", "high"], [constant("low", -1, f32), constant("high", 1.5, f32)], {}, 1
        yield "Pad", ["x", "pads"], [constant("pads", [0, 0, 1, 2, 0, 0, 2, 1])], {"mode": "reflect"}, 1
    if v < 10:
        yield "Slice", ["x"], [], {"axes": [1, 3], "starts": [1, -3], "ends": [3, -1]}, 1
        yield "TopK", ["x"], [], {"k": 2, "axis": 3}, 2
    else:
        lists = [constant(n, c) for n, c in (("starts", [1, -1]), ("ends", [3, -4]), ("at", [1, 3]), ("steps", [1, -2]))]
        yield "Slice", ["x", "starts", "ends", "at", "steps"], lists, {}, 1
        yield "TopK", ["x", "k"], [constant("k", [2])], {"axis": 3}, 2
    parts = by_operand("split", [1, 3], 13, v)
    yield "Split", ["x"] + parts[0], parts[1], {**parts[2], "axis": 2}, 2
    yield "Split", ["x"], [], {"axis": 3, "num_outputs": 2} if v >= 18 else {"axis": 3}, 2
    if v < 10:
        scales = by_operand("scales", [1.0, 1.0, 2.0, 2.0], 9, v)
        yield "Upsample", ["x"] + scales[0], [constant(t.name, [1, 1, 2, 2], f32) for t in scales[1]], {
            **scales[2], "mode": "linear"}, 1
    else:
        roi = [] if v == 10 else [""] if v >= 13 else ["roi"]
        yield "Resize", ["x", *roi, "double"], [constant("double", [1, 1, 2, 2], f32)] + (
            [constant("roi", [], f32)] if roi == ["roi"] else []), {"mode": "linear"}, 1
    if v < 12:
        yield "Dropout", ["x"], [], {"ratio": 0.5}, 1
    else:
        yield "Dropout", ["x", "ratio"], [constant("ratio", 0.5, f32)], {}, 1
    yield "BatchNormalization", ["x", "scale", "bias", "mean", "var"], [
        constant(n, c, f32) for n, c in (("scale", [1, 2, 3]), ("bias", [0, 1, -1]), ("mean", [0.5, 0, 1]), ("var", [1, 2, 4]))
    ], {}, 1
    yield "Flatten", ["x"], [], {"axis": 2}, 1
    yield "Cast", ["x"], [], {"to": TensorProto.INT32}, 1
    yield "Shape", ["x"], [], {"start": 1, "end": -1} if v >= 15 else {}, 1
    yield "Transpose", ["x"], [], {"perm": [0, 2, 3, 1]}, 1
    yield "AveragePool", ["x"], [], {"kernel_shape": [2, 2], "strides": [2, 2], **({"ceil_mode": 1} if v >= 10 else {})}, 1
    yield "MaxPool", ["x"], [], {"kernel_shape": [3, 3], "pads": [1, 1, 1, 1], **({"dilations": [1, 1]} if v >= 10 else {})}, 1
    yield "Conv", ["x", "w"], [constant("w", np.linspace(-1, 1, 54).reshape(2, 3, 3, 3), f32)], {"pads": [1, 1, 1, 1]}, 1
    yield "ConvTranspose", ["x", "wt"], [constant("wt", np.linspace(-1, 1, 24).reshape(3, 2, 2, 2), f32)], {"strides": [2, 2]}, 1
    bias = ["gb"] if v < 11 else []
    yield "Gemm", ["x2", "gw", *bias], [constant("x2", np.arange(6).reshape(2, 3), f32),
                                        constant("gw", np.arange(12).reshape(3, 4), f32),
                                        *([constant("gb", [1, 2, 3, 4], f32)] if bias else [])], {}, 1
    yield "Gather", ["x", "index"], [constant("index", [2, 0])], {"axis": 2}, 1
    yield "ArgMax", ["x"], [], {"axis": 1, **({"select_last_index": 0} if v >= 12 else {})}, 1
    yield "PRelu", ["x", "slope"], [constant("slope", np.array([0.1, 0.2, 0.3]).reshape(3, 1, 1), f32)], {}, 1
    yield "Expand" if v >= 8 else "Tile", ["x", "times"], [constant("times", [2, 1, 1, 1])], {}, 1
    yield "Reshape", ["x", "shape"], [constant("shape", [0, -1, 8])], {}, 1
    yield "GRU", ["seq", "gruw", "grur"], [constant("seq", np.linspace(-1, 1, 12).reshape(3, 2, 2), f32),
                                           constant("gruw", np.linspace(-1, 1, 12).reshape(1, 6, 2), f32),
                                           constant("grur", np.linspace(1, -1, 12).reshape(1, 6, 2), f32)], {"hidden_size": 2}, 2
    if v >= 9:
        yield "OneHot", ["index", "depth", "ends2"], [constant("depth", [3]), constant("ends2", [0, 1], f32)], {}, 1
        update = [constant("at2", [[[[1, 0, 2, 3]]]]), constant("new", [[[[5, 6, 7, 8]]]], f32)]
        yield "Scatter" if v < 11 else "ScatterElements", ["x", "at2", "new"], update, {"axis": 2}, 1
    if v >= 17:
        yield "LayerNormalization", ["x", "ls"], [constant("ls", [1, 2, 3, 4], f32)], {}, 1
    if v >= 20:
        yield "Gelu", ["x"], [], {"approximate": "tanh"}, 1


def opset_model(v):
    nodes, constants, outputs = [], {}, []
    for i, (op, inputs, made, attributes, count) in enumerate(forms(v)):
        names = [f"y{i}_{k}" for k in range(count)]
        nodes.append(node(op, inputs, names, name=f"{op}-{i}", **attributes))
        constants.update({t.name: t for t in made})
        outputs += names
    return graph_model(nodes, outputs, constants.values(), opset=v)


for version in range(OLDEST, onnx.defs.onnx_opset_version() + 1):
    CASES[f"opset-{version:02}"] = lambda version=version: opset_model(version)


# ---- the rest ----

def chain():
    """A model of a few nodes in a row, weights among them."""
    return graph_model([node("Conv", ["x", "w"], ["a"], name="one"), node("Relu", ["a"], ["b"], name="two"),
                        node("Add", ["b", "c"], ["y"], name="three")], ["y"],
                       [constant("w", np.linspace(-1, 1, 24).reshape(2, 3, 2, 2), np.float32),
                        constant("c", np.linspace(0, 1, 9).reshape(3, 3), np.float32)])


@case
def unsorted_nodes():
    model = chain()
    nodes = list(model.graph.node)
    del model.graph.node[:]
    model.graph.node.extend(nodes[::-1])
    return model


@case
def shuffled_nodes():
    steps = [node("Add", [f"v{i - 1}" if i else "x", f"v{i // 2}" if i > 1 else "x"], [f"v{i}"]) for i in range(20)]
    random.Random(0).shuffle(steps)
    return graph_model(steps, ["v19"])


@case
def names_missing():
    model = chain()
    for n in model.graph.node:
        n.ClearField("name")
    return model


@case
def names_there_twice():
    model = chain()
    for n in model.graph.node:
        n.name = "same"
    return model


@case
def initialisers_that_are_inputs():
    model = chain()
    for t in model.graph.initializer:
        model.graph.input.append(helper.make_tensor_value_info(t.name, t.data_type, t.dims))
    return model


@case
def optional_operands_left_empty():
    f32 = np.float32
    return graph_model(
        [node("Clip", ["x", "", "high"], ["a"]), node("Clip", ["a", "low", ""], ["b"]),
         node("Resize", ["b", "", "", "sizes"], ["c"]), node("Pad", ["c", "pads", ""], ["y"]),
         node("LSTM", ["seq", "w", "r", "", "", "h"], ["", "h1", ""], hidden_size=2)], ["y", "h1"],
        [constant("high", 2, f32), constant("low", -1, f32), constant("sizes", [1, 3, 6, 6]), constant("pads", [0, 0, 1, 1] * 2),
         constant("seq", np.linspace(-1, 1, 8).reshape(2, 2, 2), f32), constant("w", np.linspace(-1, 1, 16).reshape(1, 8, 2), f32),
         constant("r", np.linspace(1, -1, 16).reshape(1, 8, 2), f32), constant("h", np.ones((1, 2, 2)), f32)])


@case
def ops_on_nothing():
    """Slices of no rows go through every kind of kernel."""
    slices = {f"t{axis}": constant(f"axis{axis}", [axis]) for axis in range(4)}
    nodes = [node("Slice", ["x", "zero", "zero", t.name], [name]) for name, t in slices.items()]
    forms = [("MatMul", ["t0", "b"], {}), ("MatMul", ["t1", "b"], {}), ("MatMul", ["t2", "b"], {}), ("MatMul", ["t3", "none"], {}),
             ("Conv", ["t0", "w1"], {}), ("Conv", ["t0", "w3"], {}), ("ConvTranspose", ["t0", "w3"], {}),
             ("MaxPool", ["t0"], {"kernel_shape": [2, 2]}), ("Softmax", ["t1"], {}), ("ReduceSum", ["t2"], {}),
             ("LayerNormalization", ["t2", "scale"], {}), ("CumSum", ["t2", "one"], {}), ("Transpose", ["t3"], {}),
             ("Concat", ["t1", "x"], {"axis": 1}), ("Relu", ["t3"], {})]
    nodes += [node(op, inputs, [f"y{i}"], **attributes) for i, (op, inputs, attributes) in enumerate(forms)]
    nodes += [node("Transpose", ["t2"], ["columns"], perm=[0, 1, 3, 2]), node("MatMul", ["columns", "t2"], ["sums"])]
    f32 = np.float32
    return graph_model(nodes, [*(f"y{i}" for i in range(len(forms))), "sums"], [
        *slices.values(), constant("zero", [0]), constant("one", 1), constant("b", np.ones((4, 5)), f32),
        constant("none", np.ones((0, 5)), f32), constant("scale", np.ones(4), f32), constant("w1", np.ones((3, 3, 1, 1)), f32),
        constant("w3", np.ones((3, 3, 3, 3)), f32)])


@case
def stale_value_info():
    model = chain()
    model.graph.value_info.append(helper.make_tensor_value_info("a", TensorProto.FLOAT, [7, 7]))
    del model.graph.output[:]
    model.graph.output.append(helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 2, 9, 9]))
    return model


@case
def functions_that_call_functions():
    domain = [helper.make_opsetid("", 17), helper.make_opsetid("my", 1)]
    scaled = helper.make_function("my", "Scaled", ["a"], ["b"], [
        node("Constant", [], ["k"]), node("Mul", ["a", "k"], ["b"])], domain, attributes=["factor"])
    scaled.node[0].attribute.append(onnx.AttributeProto(name="value_float", type=onnx.AttributeProto.FLOAT,
                                                        ref_attr_name="factor"))
    twice = helper.make_function("my", "Twice", ["a"], ["b"], [
        node("Scaled", ["a"], ["t"], domain="my", factor=3.0), node("Scaled", ["t"], ["b"], domain="my", factor=0.5)], domain)
    return graph_model([node("Twice", ["x"], ["t"], domain="my"), node("Twice", ["t"], ["y"], domain="my")], ["y"],
                       functions=[scaled, twice], opsets=domain[1:])


def externally(location, folder, link=None):
    """chain() with its weights behind each other in a file; `link` is a symbolic link to it, which the model names."""
    model = chain()
    path = os.path.join(folder, location)
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "wb") as f:
        f.write(b"head")
        for t in model.graph.initializer:
            externalise(t, link or location, f.tell(), len(t.raw_data))
            f.write(t.raw_data)
            t.ClearField("raw_data")
    if link:
        os.symlink(location, os.path.join(folder, link))
    return model


def externalise(tensor, location, offset, length):
    tensor.data_location = TensorProto.EXTERNAL
    for key, value in (("location", location), ("offset", offset), ("length", length)):
        tensor.external_data.add(key=key, value=str(value))


@case
def external_data_in_a_folder(folder):
    return externally("weights/данные カナ.bin", folder)


@case
def external_data_through_a_link(folder):
    return externally("elsewhere/w.bin", folder, link="w.bin")


@case
def external_data_of_more_than_2_gb(folder):
    """Two tables of 1.1 GB in a file that is nearly all hole, and a small one behind them."""
    rows, tail = 275_000_000, np.array([1, -2, 3, 4], np.float32)
    with open(os.path.join(folder, "w.bin"), "wb") as f:
        f.seek(2 * rows * 4)
        f.write(tail.tobytes())
    tables = [TensorProto(name=n, data_type=TensorProto.FLOAT, dims=d) for n, d in (("a", [rows]), ("b", [rows]), ("c", [4]))]
    for t, offset, length in zip(tables, (0, rows * 4, 2 * rows * 4), (rows * 4, rows * 4, 16)):
        externalise(t, "w.bin", offset, length)
    model = graph_model([node("Gather", ["a", "i"], ["ra"]), node("Gather", ["b", "i"], ["rb"]), node("Add", ["ra", "rb"], ["r"]),
                         node("Add", ["x", "c"], ["s"]), node("Add", ["s", "r"], ["y"])], ["y"],
                        [constant("i", [rows - 1]), *tables])
    return model, [X + tail]


# ---- results worked by hand ----

def image(values, *nodes, dtype=np.float32, constants=(), opset=22):
    """(model, input) of nodes from x to y on these values."""
    x = np.array(values, dtype)
    kind = helper.np_dtype_to_tensor_dtype(x.dtype)
    return graph_model(nodes, ["y"], constants, opset, [helper.make_tensor_value_info("x", kind, x.shape)]), [x]


COORDINATE = {  # of an output element o in the input: a scale of 2, 4 -> 8
    "half_pixel": lambda o: Fraction(2 * o + 1, 4) - Fraction(1, 2),
    "pytorch_half_pixel": lambda o: Fraction(2 * o + 1, 4) - Fraction(1, 2),
    "half_pixel_symmetric": lambda o: Fraction(2 * o + 1, 4) - Fraction(1, 2),
    "asymmetric": lambda o: Fraction(o, 2),
    "align_corners": lambda o: Fraction(3 * o, 7),
}
NEAREST = {
    "round_prefer_floor": lambda c: math.ceil(c - Fraction(1, 2)),
    "round_prefer_ceil": lambda c: math.floor(c + Fraction(1, 2)),
    "floor": math.floor,
    "ceil": math.ceil,
}
FIRST_ROW = {
    ("half_pixel", "floor"): [1, 1, 1, 2, 2, 3, 3, 4],
    ("asymmetric", "floor"): [1, 1, 2, 2, 3, 3, 4, 4],
    ("half_pixel", "ceil"): [1, 2, 2, 3, 3, 4, 4, 4],
}


def nearest(coordinate, mode):
    values = np.arange(1, 17, dtype=np.float32).reshape(1, 1, 4, 4)
    at = [min(max(NEAREST[mode](COORDINATE[coordinate](o)), 0), 3) for o in range(8)]
    y = values[:, :, at][:, :, :, at]
    assert list(y[0, 0, 0]) == FIRST_ROW.get((coordinate, mode), list(y[0, 0, 0]))
    model, inputs = image(values, node("Resize", ["x", "", "s"], ["y"], mode="nearest", nearest_mode=mode,
                                       coordinate_transformation_mode=coordinate), constants=[constant("s", [1, 1, 2, 2], np.float32)])
    return model, [y], inputs


for coordinate in COORDINATE:
    for mode in NEAREST:
        CASES[f"nearest-{coordinate}-{mode}"] = lambda coordinate=coordinate, mode=mode: nearest(coordinate, mode)


def pool(op, size, y, **attributes):
    """Of -1, -2, ..., so that padding would show."""
    model, inputs = image(-np.arange(1, size + 1).reshape(1, 1, size), node(
        op, ["x"], ["y"], kernel_shape=[3], strides=[3], pads=[1, 1], ceil_mode=1, **attributes))
    return model, [np.array([[y]], np.float32)], inputs


CASES["ceil-max-pool-6"] = lambda: pool("MaxPool", 6, [-1, -3, -6])
CASES["ceil-max-pool-5"] = lambda: pool("MaxPool", 5, [-1, -3])
CASES["ceil-average-pool-6"] = lambda: pool("AveragePool", 6, [-1.5, -4, -6])
CASES["ceil-average-pool-5"] = lambda: pool("AveragePool", 5, [-1.5, -4])
CASES["ceil-average-pool-with-padding-6"] = lambda: pool("AveragePool", 6, [-1, -4, -3], count_include_pad=1)
CASES["ceil-average-pool-with-padding-5"] = lambda: pool("AveragePool", 5, [-1, -4], count_include_pad=1)


@case
def image_of_bytes():
    bytes_ = np.resize([0, 127, 128, 255, 1], (1, 5, 7, 3))
    weights = np.linspace(-1, 1, 54).reshape(2, 3, 3, 3)
    model, inputs = image(bytes_, node("Transpose", ["x"], ["t"], perm=[0, 3, 1, 2]), node("Cast", ["t"], ["f"], to=TensorProto.FLOAT),
                          node("Div", ["f", "most"], ["s"]), node("Conv", ["s", "w"], ["y"]), dtype=np.uint8,
                          constants=[constant("most", 255, np.float32), constant("w", weights, np.float32)])
    windows = np.lib.stride_tricks.sliding_window_view(bytes_[0] / 255.0, (3, 3), axis=(0, 1))  # [3, 5, 3 channels, 3, 3]
    y = np.einsum("hwcij,ocij->ohw", windows, weights.astype(np.float32).astype(np.float64))
    return model, [y[None].astype(np.float32)], inputs


@case
def skip_connection_of_even_size():
    x = np.arange(64, dtype=np.float32).reshape(1, 2, 4, 8)
    model, inputs = image(x, node("MaxPool", ["x"], ["p"], kernel_shape=[2, 2], strides=[2, 2]),
                          node("Resize", ["p", "", "s"], ["r"]), node("Concat", ["x", "r"], ["y"], axis=1),
                          constants=[constant("s", [1, 1, 2, 2], np.float32)])
    most = x[:, :, 1::2, 1::2]  # values rise to the right and downwards
    return model, [np.concatenate([x, most.repeat(2, 2).repeat(2, 3)], 1)], inputs


@case
def places_that_constants_decide():
    """NonZero of what is known when compiling, against NumPy: also computed from a shape, and as an index of what is not known."""
    tables = {"floats": np.array([[0, np.nan, -0.0], [2, 0, 1e-40]], np.float32), "cube": np.arange(8).reshape(2, 2, 2) % 3,
              "diagonal": np.eye(3, dtype=bool), "bytes": np.array([0, 255, 7], np.uint8), "zeros": np.zeros((2, 2), np.int32),
              "splat": np.ones(5000, np.float16), "nothing": np.zeros((0, 3), np.float32), "mask": X[0, 0] > 0}
    nodes = [node("NonZero", [name], [f"y-{name}"]) for name in tables]
    nodes += [node("Shape", ["x"], ["shape"]), node("ConstantOfShape", ["shape"], ["like"], value=constant("", [1])),
              node("NonZero", ["like"], ["y-like"]), node("Squeeze", ["x"], ["channels"]),
              node("Transpose", ["channels"], ["last"], perm=[1, 2, 0]), node("Transpose", ["y-mask"], ["tuples"]),
              node("GatherND", ["last", "tuples"], ["y"])]
    results = [np.array(np.nonzero(t)) for t in (*tables.values(), np.ones(X.shape))] + [X[0].transpose(1, 2, 0)[tables["mask"]]]
    return graph_model(nodes, [*(f"y-{name}" for name in (*tables, "like")), "y"],
                       [constant(n, t, t.dtype) for n, t in tables.items()]), results


@case
def indices_that_are_no_index():
    """What is ignored, and a diagonal, beyond every index; in the target's type 1 << 32 would be 0."""
    target = np.array([[0, 2, 1, 0]] * 4, np.int32)[None]
    return graph_model([node("NegativeLogLikelihoodLoss", ["x", "target"], ["y"], reduction="sum", ignore_index=1 << 32),
                        node("NegativeLogLikelihoodLoss", ["x", "target"], ["z"], reduction="sum", ignore_index=(1 << 63) - 1),
                        node("EyeLike", ["target2"], ["far"], k=(1 << 53) + 1)], ["y", "z", "far"],
                       [constant("target", target, np.int32), constant("target2", target[0], np.int32)]), [
        *2 * [-np.take_along_axis(X, target[:, None], 1).sum()], np.zeros((4, 4), np.int32)]


@case
def attention_with_a_short_mask_of_integers():
    """Keys that the mask does not reach are not seen."""
    mask = np.array([[0, -1, 2], [3, 0, 0], [-9, 0, 1], [1, 1, 1]])
    scores = X.astype(np.float64) @ X.swapaxes(2, 3) / 2 + np.pad(mask, ((0, 0), (0, 1)), constant_values=-1000)
    shares = np.exp(scores - scores.max(-1, keepdims=True))
    return graph_model([node("Attention", ["x", "x", "x", "mask"], ["y"])], ["y"], [constant("mask", mask)], opset=24), [
        (shares / shares.sum(-1, keepdims=True) @ X).astype(np.float32)]


@case
def loop_that_its_condition_ends():
    """A while loop as exporters write it: as many turns as an integer can say."""
    body = helper.make_graph([node("Add", ["i", "one"], ["n"]), node("Less", ["n", "three"], ["on"]), node("Add", ["v", "v"], ["w"])],
                             "body", [helper.make_empty_tensor_value_info(n) for n in ("i", "c", "v")],
                             [helper.make_empty_tensor_value_info(n) for n in ("on", "w")])
    return graph_model([node("Loop", ["most", "true", "x"], ["y"], body=body)], ["y"], [
        constant("most", np.iinfo(np.int64).max), constant("true", True, bool), constant("one", 1), constant("three", 3)]), [8 * X]


@case
def slices_that_constants_choose():
    """Compress with a constant condition, against NumPy."""
    some, short, none = np.array([True, False, True, True]), np.array([False, True]), np.zeros(3, bool)
    table = np.arange(12).reshape(3, 4)
    forms = [("x", some, {"axis": 3}), ("x", short, {"axis": -2}), ("x", np.resize([True, False, False], 48), {}),
             ("x", none, {"axis": 1}), ("table", short, {"axis": 0}), ("table", some, {"axis": 1}), ("table", short, {})]
    nodes = [node("Compress", [data, f"c{i}"], [f"y{i}"], **attributes) for i, (data, _, attributes) in enumerate(forms)]
    results = [np.compress(c, {"x": X, "table": table}[data], **attributes) for data, c, attributes in forms]
    return graph_model(nodes, [n.output[0] for n in nodes], [constant("table", table)] + [
        constant(f"c{i}", c, bool) for i, (_, c, _) in enumerate(forms)]), results


# ---- references ----

def expected(model, path):
    """ONNX Runtime's outputs; the reference implementation's where it does not know the opset."""
    ordered = onnx.ModelProto.FromString(model.SerializeToString())
    have, nodes = {"", "x"} | {t.name for t in model.graph.initializer}, list(model.graph.node)
    del ordered.graph.node[:]
    while nodes:
        ready = next(n for n in nodes if have.issuperset(n.input))
        nodes.remove(ready)
        have.update(ready.output)
        ordered.graph.node.append(ready)
    for n in ordered.graph.node:
        n.name = ""
    onnx.save(ordered, path)
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.log_severity_level = 4
    try:
        session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
        return session.run(None, {"x": X})
    except Exception as e:  # ONNX Runtime's exceptions have no common class
        print(f"  ONNX Runtime: {str(e)[:150]}")
        return ReferenceEvaluator(path).run(None, {"x": X})
    finally:
        os.remove(path)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("dir")
    parser.add_argument("--conformance", required=True)
    args = parser.parse_args()
    shutil.rmtree(args.dir, ignore_errors=True)
    for name, build in CASES.items():
        folder = os.path.join(args.dir, name)
        os.makedirs(folder)
        model = build(folder) if "folder" in inspect.signature(build).parameters else build()
        model, results, inputs = ((*model, [X])[:3] if isinstance(model, tuple) else (model, None, [X]))
        write_model(folder, model, inputs, results or expected(model, os.path.join(folder, "sorted.onnx")))
    wrong = run_cases(args.conformance, args.dir)
    for name, why in sorted(wrong.items()):
        print(f"{name}: {why}")
    print(f"{len(CASES) - len(wrong)} of {len(CASES)} cases passed")
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
