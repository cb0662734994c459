#!/usr/bin/env python3
"""Element types, quantisation, recurrent and contributed ops, node by node: ops.py DIR --conformance PROGRAM.

What the ONNX project's own tests hardly cover: every op over the element types that it takes, quantised ops over types and
granularities, recurrent ops over their attributes, the ops of com.microsoft that optimised exports contain. Values come from ONNX
Runtime without optimisations where it has the op for the type, else from the onnx package's reference evaluator; results in 16-bit
floats from that evaluator in float64, rounded once.

    --only GROUP   nodes of this group alone
    --op OP        nodes of this op alone
    --list         print which reference answered, and what none takes
"""
import argparse
import collections
import itertools
import os
import shutil
import sys
import warnings

import ml_dtypes
import numpy as np
import onnx
from onnx import TensorProto, helper
from onnx.reference import ReferenceEvaluator

from grid import BATCH, Node, compare, model_of, onnx_runtime

NEWEST = 24  # the opset that ONNX Runtime takes, too
BF16 = ml_dtypes.bfloat16
FLOATS = [np.float32, np.float64, np.float16, BF16]
SIGNED, UNSIGNED = [np.int8, np.int16, np.int32, np.int64], [np.uint8, np.uint16, np.uint32, np.uint64]
INTEGERS = SIGNED + UNSIGNED
NUMBERS = FLOATS + INTEGERS
ALL = NUMBERS + [np.bool_]
F8 = [ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e4m3fnuz, ml_dtypes.float8_e5m2, ml_dtypes.float8_e5m2fnuz]
I4 = [ml_dtypes.int4, ml_dtypes.uint4]


def tensor_type(dtype):
    return helper.np_dtype_to_tensor_dtype(np.dtype(dtype))


def values(dtype, *shape, low=-4, high=4, seed=0):
    """Numbers that every type holds exactly: multiples of 1/4, whole ones in integers, from 0 in unsigned ones."""
    rng, dtype = np.random.default_rng([seed, *shape]), np.dtype(dtype)
    if dtype == np.bool_:
        return rng.integers(0, 2, shape).astype(bool)
    whole = dtype.kind in "iu" or dtype in [np.dtype(t) for t in I4]
    low = 0 if dtype.kind == "u" or dtype == np.dtype(ml_dtypes.uint4) else low
    drawn = rng.integers(low, high + 1, shape) if whole else rng.integers(4 * low, 4 * high + 1, shape) / 4
    return np.asarray(drawn).astype(dtype)


def int64(*v):
    return np.array(v, np.int64)


def node(op, operands, fed=(0,), **attributes):
    """A standard op of the newest opset; the operands `fed` are inputs, the others constants."""
    return Node(op, operands, attributes, fed=fed, opset=NEWEST)


def contributed(op, operands, fed=(0,), outputs=1, kinds=None, opset=20, **attributes):
    return Node(op, operands, attributes, outputs, fed, kinds, "com.microsoft", opset)


# ---- element types ----

def unary(ops, dtypes, **range_):
    for op, dtype in itertools.product(ops.split(), dtypes):
        yield node(op, [values(dtype, 3, 7, **range_)])


def binary(ops, dtypes, **second):
    """Broadcast both ways; the second operand has no zeros where `second` says so."""
    for op, dtype in itertools.product(ops.split(), dtypes):
        yield node(op, [values(dtype, 3, 1, 7), values(dtype, 5, 1, seed=1, **second)], fed=(0, 1))


def reductions():
    for op, dtype in itertools.product("ReduceSum ReduceProd ReduceMean ReduceSumSquare ReduceL1 ReduceL2 ReduceLogSumExp".split(),
                                       FLOATS + [np.int32, np.int64, np.uint32, np.uint64]):
        if np.dtype(dtype).kind in "iu" and op in ("ReduceMean", "ReduceL2", "ReduceLogSumExp", "ReduceProd"):
            continue  # of integers: a fraction, whose rounding the standard does not say; products overflow
        if op == "ReduceSumSquare" and dtype in (np.int32, np.uint32):
            continue  # the evaluator makes it 64 bits wide
        yield node(op, [values(dtype, 3, 4, 5, low=1), int64(1)])
    for op, dtype in itertools.product(("ReduceMax", "ReduceMin"), [t for t in ALL if t not in (np.int16, np.uint16)]):
        yield node(op, [values(dtype, 3, 4, 5), int64(0, 2)], keepdims=0)
    for op, dtype in itertools.product(("ArgMax", "ArgMin"), NUMBERS):
        yield node(op, [values(dtype, 3, 9)], axis=1, select_last_index=1)
    for dtype in NUMBERS:
        sorted_ = np.random.default_rng(0).permutation(24).reshape(2, 12).astype(dtype)
        yield Node("TopK", [sorted_, int64(5)], {"axis": 1}, 2, kinds=(tensor_type(dtype), TensorProto.INT64), opset=NEWEST)
    for dtype in FLOATS + [np.int32, np.int64, np.uint32, np.uint64]:
        yield node("CumSum", [values(dtype, 3, 5), np.array(1, np.int64)], exclusive=1, reverse=1)


def movement():
    for dtype in ALL:
        x = values(dtype, 2, 3, 4)
        at = np.array([[1, 0], [2, -1]], np.int64)
        yield node("Transpose", [x], perm=[2, 0, 1])
        yield node("Slice", [x, int64(3, 0), int64(-9, 2), int64(2, 1), int64(-2, 1)])
        yield node("Gather", [x, at], axis=2)
        yield node("GatherElements", [x, np.zeros((2, 2, 4), np.int64)], axis=1)
        yield node("GatherND", [x, int64(1, 2).reshape(1, 2)])
        yield node("ScatterElements", [x, np.ones((2, 1, 4), np.int64), values(dtype, 2, 1, 4, seed=3)], axis=1)
        yield node("ScatterND", [x, int64(1, 0).reshape(2, 1), values(dtype, 2, 3, 4, seed=4)])
        yield node("Concat", [x, values(dtype, 2, 1, 4, seed=5)], fed=(0, 1), axis=1)
        yield node("Expand", [values(dtype, 3, 1), int64(2, 3, 4)])
        yield node("Tile", [x, int64(2, 1, 3)])
        yield node("Pad", [x, int64(1, 0, 2, 0, -1, 1), values(dtype)])
        yield node("Where", [values(np.bool_, 3, 1), x, values(dtype, 4, seed=6)], fed=(0, 1, 2))
        yield node("Trilu", [x, np.array(1, np.int64)], upper=0)
        yield node("ReverseSequence", [values(dtype, 4, 2, 3), int64(3, 2)], time_axis=0, batch_axis=1)
        yield node("DepthToSpace", [values(dtype, 1, 8, 2, 3)], blocksize=2)
        yield node("SpaceToDepth", [values(dtype, 1, 2, 4, 6)], blocksize=2)
        yield node("OneHot", [np.array([[0, 2], [-1, 1]], np.int64), np.array(3, np.int64), values(dtype, 2, low=1)])
        yield node("Resize", [values(dtype, 1, 2, 3, 4), None, None, int64(1, 2, 5, 7)], mode="nearest")
        yield node("Identity", [x])
        yield node("Equal", [x, values(dtype, 3, 1, seed=7)], fed=(0, 1))
    for dtype in F8 + I4:
        x = values(dtype, 2, 3, 4, low=0)
        for op, more in (("Transpose", []), ("Reshape", [int64(4, 6)]), ("Identity", []), ("Flatten", []), ("Unsqueeze", [int64(0)]),
                         ("Shape", []), ("Size", [])):
            yield node(op, [x, *more])


def casts():
    for source, target in itertools.product(ALL + F8 + I4, repeat=2):
        if source != target:
            yield node("Cast", [values(source, 3, 7, low=0)], to=tensor_type(target))
    for source, target in itertools.product(FLOATS, SIGNED):  # towards zero
        yield node("Cast", [np.array([-3.75, -0.25, 0, 0.75, 2.5]).astype(source)], to=tensor_type(target))


def products():
    for dtype in FLOATS + [np.int32, np.int64, np.uint32, np.uint64]:
        yield node("MatMul", [values(dtype, 2, 3, 5), values(dtype, 5, 4, seed=1)], fed=(0, 1))
        yield node("MatMul", [values(dtype, 3, 20), values(dtype, 20, 17, seed=1)])
        yield node("Gemm", [values(dtype, 3, 5), values(dtype, 4, 5, seed=1), values(dtype, 4, seed=2)], transB=1, alpha=2.0, beta=3.0)
        yield node("Einsum", [values(dtype, 2, 3, 5), values(dtype, 2, 5, 4, seed=1)], fed=(0, 1), equation="bij,bjk->bki")
    for dtype in FLOATS:
        image = values(dtype, 1, 4, 6, 7)
        yield node("Conv", [image, values(dtype, 5, 4, 3, 3, seed=1), values(dtype, 5, seed=2)], pads=[1] * 4)
        yield node("Conv", [image, values(dtype, 4, 1, 3, 3, seed=1)], group=4)
        yield node("ConvTranspose", [image, values(dtype, 4, 3, 2, 2, seed=1)], strides=[2, 2])
        yield node("BatchNormalization", [image, *(values(dtype, 4, low=1, seed=s) for s in range(4))])
        yield node("InstanceNormalization", [image, values(dtype, 4, seed=1), values(dtype, 4, seed=2)])
        yield node("GroupNormalization", [image, values(dtype, 4, seed=1), values(dtype, 4, seed=2)], num_groups=2)
        yield node("LayerNormalization", [image, values(dtype, 7, seed=1), values(dtype, 7, seed=2)], axis=-1)
        yield node("RMSNormalization", [image, values(dtype, 7, seed=1)], axis=-1)
        yield node("AveragePool", [image], kernel_shape=[2, 3])
        yield node("GlobalAveragePool", [image])
        yield node("GlobalMaxPool", [image])
        yield node("LpPool", [image], kernel_shape=[2, 3])
        for mode in ("linear", "cubic"):
            yield node("Resize", [image, None, np.array([1, 1, 2, 1.5], np.float32)], mode=mode)
        yield node("GridSample", [image, (values(dtype, 1, 3, 5, 2, low=-1, high=1) * np.asarray(0.75, dtype))], fed=(0, 1))
        for op in ("Softmax", "LogSoftmax", "Hardmax"):
            yield node(op, [image], axis=1)
    for dtype in FLOATS + [np.int8, np.uint8]:
        yield node("MaxPool", [values(dtype, 1, 4, 6, 7)], kernel_shape=[2, 3], pads=[1] * 4)


def types():
    yield from unary("Abs Sign", NUMBERS)
    yield from unary("Neg", FLOATS + SIGNED)
    yield from unary("Relu", FLOATS + SIGNED)
    yield from unary("Ceil Floor Round Exp Sigmoid Tanh Sin Cos Atan Sinh Cosh Asinh Erf Softplus Softsign HardSigmoid HardSwish Elu "
                     "Selu Celu LeakyRelu ThresholdedRelu Gelu Mish IsNaN Swish", FLOATS)
    yield from unary("Sqrt Log Reciprocal Acosh", FLOATS, low=1)
    yield from unary("Asin Acos Atanh", FLOATS, low=0, high=0)
    yield from unary("Not", [np.bool_])
    yield from unary("BitwiseNot", INTEGERS)
    yield from binary("Add Sub Mul Max Min Less LessOrEqual Greater GreaterOrEqual", NUMBERS)
    yield from binary("Div Mod", INTEGERS, low=1)
    yield from binary("Div", FLOATS, low=1)
    for dtype in INTEGERS:  # ONNX's integer rules on negatives
        a, b = (np.array(v).astype(dtype) for v in ([7, -7, 7, -7, 6, -6, 0], [3, 3, -3, -3, -3, 3, 3]))
        if np.dtype(dtype).kind == "i":
            yield node("Div", [a, b], fed=(0, 1))
            yield node("Mod", [a, b], fed=(0, 1))
            yield node("Mod", [a, b], fed=(0, 1), fmod=1)
    for dtype in FLOATS:
        yield node("Mod", [np.array([5.5, -5.5, 5.5, -5.5]).astype(dtype), np.array([2, 2, -2, -2]).astype(dtype)], fed=(0, 1), fmod=1)
        yield node("PRelu", [values(dtype, 2, 3, 4), values(dtype, 3, 1, seed=1)])
    yield from binary("And Or Xor", [np.bool_])
    yield from binary("BitwiseAnd BitwiseOr BitwiseXor", INTEGERS)
    for dtype, direction in itertools.product(UNSIGNED, ("LEFT", "RIGHT")):
        yield node("BitShift", [values(dtype, 3, 7, high=100), values(dtype, 7, high=3, seed=1)], fed=(0, 1), direction=direction)
    for dtype, exponent in itertools.product(FLOATS + [np.int32, np.int64], (np.float32, np.int64)):
        yield node("Pow", [values(dtype, 3, 7, low=1), values(exponent, 7, low=0, high=2, seed=1)])
    for dtype in NUMBERS:
        yield node("Clip", [values(dtype, 3, 7), values(dtype, low=1, high=1), values(dtype, low=3, high=3)])
        yield node("Sum", [values(dtype, 3, 7), values(dtype, 7, seed=1), values(dtype, 3, 1, seed=2)], fed=(0, 1, 2))
        yield node("Mean", [values(dtype, 3, 7), values(dtype, 7, seed=1)], fed=(0, 1))
    for dtype in [np.float32, np.float64, np.int16, np.int32, np.int64]:
        yield node("Range", [np.array(v, dtype) for v in (3, 20, 4)], fed=())
        if dtype != np.int16:  # longer than what is folded into the bundle
            yield node("Range", [np.array(v, dtype) for v in (5, -7200, -3)], fed=())
    yield from reductions()
    yield from movement()
    yield from casts()
    yield from products()


# ---- quantisation ----

def scale(*shape, dtype=np.float32):
    return (2.0 ** np.random.default_rng(3).integers(-6, -2, shape)).astype(dtype)


def quantisation():
    x = values(np.float32, 4, 6, 8, low=-6, high=6)
    for kind in [np.uint8, np.int8, np.uint16, np.int16, *I4, *F8]:
        integer = kind not in F8
        zero = lambda *s: values(kind, *s, low=0, high=5, seed=2) if integer else np.zeros(s, kind)
        for source in (np.float32, np.float16, BF16):
            block = lambda *s: [scale(*s, dtype=source), zero(*s)]
            yield node("QuantizeLinear", [x.astype(source), *block()])
            yield node("QuantizeLinear", [x.astype(source), *block(6)], axis=1)
            yield node("QuantizeLinear", [x.astype(source), *block(4, 6, 2)], axis=2, block_size=4)
            q = values(kind, 4, 6, 8, low=0, high=7, seed=4)
            yield node("DequantizeLinear", [q, *block()])
            yield node("DequantizeLinear", [q, *block(6)], axis=-2)
            yield node("DequantizeLinear", [q, *block(4, 2, 8)], axis=1, block_size=3)
    yield node("DequantizeLinear", [values(np.int32, 4, 6, high=99), scale(6)])
    for a, b in itertools.product((np.uint8, np.int8), repeat=2):
        left, right = values(a, 2, 5, 40, high=100), values(b, 40, 19, high=100, seed=1)
        if np.dtype(a).kind == "i":
            left = left - np.int8(50)
        bias = np.array(3, a), np.array(2, b)
        yield node("MatMulInteger", [left, right, *bias])
        yield node("MatMulInteger", [left, right], fed=(0, 1))
        yield node("MatMulInteger", [left, right, bias[0], values(b, 19, high=5, seed=5)])
        image, weights = values(a, 1, 6, 9, 8, high=100), values(b, 4, 6, 3, 3, high=100, seed=1)
        yield node("ConvInteger", [image, weights, *bias], pads=[1] * 4)
        yield node("ConvInteger", [image, values(b, 6, 1, 3, 3, high=100, seed=1)], group=6, strides=[2, 1])
        if a == np.uint8 or b == np.int8:
            result = [np.array(512, np.float32), np.array(7, a)]
            yield node("QLinearMatMul", [left, scale(), bias[0], right, scale(), bias[1], *result])
            yield node("QLinearMatMul", [left, scale(), bias[0], right, scale(19), np.zeros(19, b), *result])
            yield node("QLinearConv", [image, scale(), bias[0], weights, scale(), bias[1], *result, values(np.int32, 4, high=500)],
                       pads=[1] * 4)
            yield node("QLinearConv", [image, scale(), bias[0], weights, scale(4), np.zeros(4, b), *result], dilations=[2, 2])
    for v in (x, np.abs(x) + 1, -np.abs(x) - 1, 0 * x):
        yield Node("DynamicQuantizeLinear", [v], {}, 3, kinds=(TensorProto.UINT8, TensorProto.FLOAT, TensorProto.UINT8), opset=NEWEST)


# ---- recurrent ----

def recurrent():
    steps, batch, width, hidden = 5, 3, 4, 6
    f = lambda *s, seed: values(np.float32, *s, low=-1, high=1, seed=seed)
    for (op, gates), direction in itertools.product((("RNN", 1), ("GRU", 3), ("LSTM", 4)), ("forward", "reverse", "bidirectional")):
        d = 2 if direction == "bidirectional" else 1
        outputs = 3 if op == "LSTM" else 2
        kinds = (TensorProto.FLOAT,) * outputs
        x = f(steps, batch, width, seed=1)
        weights = [f(d, gates * hidden, width, seed=2), f(d, gates * hidden, hidden, seed=3)]
        bias, h = f(d, 2 * gates * hidden, seed=4), f(d, batch, hidden, seed=5)
        lengths = np.array([5, 2, 4], np.int32)
        state = [h, h[::-1].copy()] if op == "LSTM" else [h]
        peepholes = [f(d, 3 * hidden, seed=6)] if op == "LSTM" else []
        base = {"hidden_size": hidden, "direction": direction}
        names = {"RNN": ["Relu"], "GRU": ["HardSigmoid", "Softsign"], "LSTM": ["HardSigmoid", "LeakyRelu", "Affine"]}[op]
        alphas = {"RNN": [], "GRU": [0.3], "LSTM": [0.3, 0.1, 1.5]}[op]
        betas = {"RNN": [], "GRU": [0.4], "LSTM": [0.4, 0.25]}[op]  # LeakyRelu takes none
        make = lambda operands, **more: Node(op, operands, {**base, **more}, outputs, kinds=kinds, opset=NEWEST)
        yield make([x, *weights])
        yield make([x, *weights, bias, lengths, *state, *peepholes])
        yield make([x, *weights, bias, None, *state], clip=0.7)
        if op == "GRU":
            yield make([x, *weights, bias, lengths, *state], linear_before_reset=1)
        if op == "LSTM":
            yield make([x, *weights, bias], input_forget=1)
        more = {"activation_alpha": alphas * d, "activation_beta": betas * d} if alphas and op == "LSTM" else {}
        yield make([x, *weights, bias], activations=(names if op != "GRU" else ["Sigmoid", "Softsign"]) * d, **more)
        for name in ("Tanh", "Sigmoid", "Softplus", "Elu", "ScaledTanh", "ThresholdedRelu"):
            if op == "RNN":
                more = {"activation_alpha": [0.5] * d, "activation_beta": [0.8] * d} if name == "ScaledTanh" else {}
                more = more or ({"activation_alpha": [0.5] * d} if name in ("Elu", "ThresholdedRelu") else {})
                yield make([x, *weights, bias], activations=[name] * d, **more)
    yield Node("LSTM", [f(batch, steps, width, seed=1), f(1, 24, width, seed=2), f(1, 24, hidden, seed=3)],
               {"hidden_size": hidden, "layout": 1}, 3, kinds=(TensorProto.FLOAT,) * 3, opset=NEWEST)


# ---- contributed ----

def contrib():
    f = lambda *s, seed=0: values(np.float32, *s, low=-2, high=2, seed=seed)
    x, w = f(2, 5, 16), f(16, seed=1)
    for op in ("Gelu", "QuickGelu"):
        yield contributed(op, [x])
    yield contributed("QuickGelu", [x], alpha=1.3)
    yield contributed("FastGelu", [x])
    yield contributed("FastGelu", [x, w])
    yield contributed("BiasGelu", [x, w])
    for transA, transB in itertools.product((0, 1), repeat=2):
        a, b = (f(2, 5, 3), f(2, 4, 5, seed=1)) if transA else (f(2, 3, 5), f(2, 4, 5, seed=1))
        b = b if transB else b.swapaxes(1, 2).copy()
        yield contributed("FusedMatMul", [a, b], fed=(0, 1), transA=transA, transB=transB, alpha=0.5)
    yield contributed("FusedMatMul", [f(3, 2, 5), f(2, 5, 4)], fed=(0, 1), transBatchA=1)
    yield contributed("FusedMatMul", [f(2, 3, 5), f(5, 2, 4)], fed=(0, 1), transBatchB=1)
    for activation, parameters in (("Relu", None), ("Tanh", None), ("Sigmoid", None), ("LeakyRelu", [0.1]), ("Clip", [-1.0, 2.0]),
                                   ("HardSigmoid", [0.2, 0.5])):
        yield contributed("FusedConv", [f(1, 4, 6, 7), f(5, 4, 3, 3, seed=1), f(5, seed=2)], pads=[1] * 4, activation=activation,
                          activation_params=parameters)
        yield contributed("FusedGemm", [f(3, 5), f(5, 4, seed=1), f(4, seed=2)], activation=activation,
                          activation_alpha=parameters[0] if parameters else None,
                          activation_beta=parameters[1] if parameters and len(parameters) > 1 else None)
    yield contributed("FusedConv", [f(1, 4, 6, 7), f(4, 4, 3, 3, seed=1), f(4, seed=2), f(1, 4, 6, 7, seed=3)], pads=[1] * 4, activation="Relu")
    yield contributed("SkipLayerNormalization", [x, f(2, 5, 16, seed=1), w, f(16, seed=2), f(16, seed=3)], fed=(0, 1), epsilon=1e-5)
    yield contributed("SkipLayerNormalization", [x, f(2, 5, 16, seed=1), w], fed=(0, 1))
    yield contributed("SkipSimplifiedLayerNormalization", [x, f(2, 5, 16, seed=1), w], fed=(0, 1))
    ids = np.random.default_rng(0).integers(0, 9, (2, 5)).astype(np.int32)
    tables = [f(9, 16, seed=3), f(6, 16, seed=4), f(2, 16, seed=5), w, f(16, seed=6)]
    yield contributed("EmbedLayerNormalization", [ids, ids % 2, *tables], outputs=2, kinds=(TensorProto.FLOAT, TensorProto.INT32), fed=(0, 1))
    yield contributed("EmbedLayerNormalization", [ids, None, tables[0], tables[1], None, w, f(16, seed=6), (ids > 2).astype(np.int32)],
                      outputs=2, kinds=(TensorProto.FLOAT, TensorProto.INT32), fed=(0, 7))
    qkv = [x, f(16, 48, seed=7), f(48, seed=8)]
    yield contributed("Attention", qkv, num_heads=4)
    yield contributed("Attention", qkv, num_heads=4, unidirectional=1)
    yield contributed("Attention", [*qkv, np.array([5, 3], np.int32)], fed=(0, 3), num_heads=4)
    yield contributed("Attention", [*qkv, np.array([[1] * 5, [1, 1, 1, 0, 0]], np.int32)], fed=(0, 3), num_heads=4)
    yield contributed("Attention", [*qkv, np.tril(np.ones((2, 5, 5), np.int32))], fed=(0, 3), num_heads=4)
    yield contributed("Attention", [*qkv, None, None, f(2, 4, 5, 5, seed=9)], fed=(0, 5), num_heads=4, scale=0.3)
    yield contributed("Attention", [x, f(16, 40, seed=7), f(40, seed=8)], num_heads=4, qkv_hidden_sizes=[16, 16, 8])
    parts = [f(2, 5, 16), f(2, 7, 16, seed=1), f(2, 7, 16, seed=2)]
    yield contributed("MultiHeadAttention", parts, fed=(0, 1, 2), num_heads=4)
    yield contributed("MultiHeadAttention", [*parts, f(48, seed=3)], fed=(0, 1, 2), num_heads=4)
    yield contributed("MultiHeadAttention", [*parts, None, np.array([[1] * 7, [1] * 4 + [0] * 3], np.int32)], fed=(0, 1, 2, 4), num_heads=4)
    yield contributed("MultiHeadAttention", [*parts, None, None, f(1, 4, 5, 7, seed=4)], fed=(0, 1, 2, 5), num_heads=4)
    yield contributed("RotaryEmbedding", [f(2, 4, 5, 8), np.array([1], np.int64), f(8, 4, seed=1), f(8, 4, seed=2)])
    yield contributed("RotaryEmbedding", [f(2, 4, 5, 8), np.arange(10, dtype=np.int64).reshape(2, 5) % 8, f(8, 4, seed=1), f(8, 4, seed=2)], interleaved=1)
    u = values(np.uint8, 2, 3, 4, 5, high=200)
    s, z = np.array(0.05, np.float32), np.array(100, np.uint8)
    odd = np.array(0.0731, np.float32)  # no result is half way between two steps, where the order of roundings would decide
    yield contributed("QLinearAdd", [u, s, z, u[::-1].copy(), s, z, odd, z])
    yield contributed("QLinearMul", [u, s, z, u[::-1].copy(), s, z, odd, z])
    yield contributed("QLinearSigmoid", [u, s, z, np.array(1 / 256, np.float32), np.array(0, np.uint8)])
    yield contributed("QLinearLeakyRelu", [u, s, z, s, z], alpha=0.1)
    yield contributed("QLinearGlobalAveragePool", [u, s, z, odd, z])
    yield contributed("QLinearAveragePool", [u, s, z, odd, z], kernel_shape=[2, 2])
    yield contributed("QLinearConcat", [s, z, u, s, z, u, s * 2, z], fed=(2, 5), axis=1, kinds=(TensorProto.UINT8,))
    yield contributed("DynamicQuantizeMatMul", [f(3, 16), values(np.int8, 16, 6, high=90), np.array(0.02, np.float32), np.array(0, np.int8), f(6)])
    yield contributed("MatMulIntegerToFloat", [values(np.uint8, 3, 16, high=99), values(np.int8, 16, 6, high=90), s, s, z, np.array(0, np.int8)],
                      kinds=(TensorProto.FLOAT,))
    yield contributed("QGemm", [values(np.uint8, 3, 16, high=99), s, z, values(np.int8, 16, 6, high=90), s, np.array(0, np.int8),
                                values(np.int32, 6, high=99), np.array(1, np.float32), np.array(50, np.uint8)])
    yield Node("SimplifiedLayerNormalization", [x, w], {"axis": -1}, opset=20)  # ONNX Runtime writes it in ONNX's own domain


GROUPS = {"types": types, "quantisation": quantisation, "recurrent": recurrent, "contrib": contrib}


HALVES = (np.dtype(np.float16), np.dtype(BF16))
FOREIGN = {np.dtype(t) for t in (BF16, *F8, *I4)}  # NumPy arrays of these do not go through ONNX Runtime's interface


def evaluated(n, operands):
    """The reference evaluator's results of a node on these operands, or its refusal."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            model = model_of([Node(n.op, operands, n.attributes, n.outputs, range(len(operands)), opset=n.opset)])
            feeds = {f"n0_i{i}": a for i, a in enumerate(operands) if a is not None}
            return [np.asarray(v) for v in ReferenceEvaluator(model).run(None, feeds)], None
    except Exception as e:  # an op that fails does so in any way
        return None, f"{type(e).__name__}: {e}"


def rounded_once(n, results):
    """Results of 16-bit floats by float64, where the evaluator would round after each step."""
    halves = {r.dtype for r in results} & set(HALVES)
    if not halves or n.op in ("Cast", "QuantizeLinear", "DequantizeLinear"):
        return results
    wide, _ = evaluated(n, [a.astype(np.float64) if a is not None and a.dtype in HALVES else a for a in n.operands])
    return results if wide is None else [w.astype(r.dtype) for w, r in zip(wide, results)]


def expected(n):
    """(results, who says so, why nobody does)."""
    own, refusal = (None, "contributed") if n.domain else evaluated(n, n.operands)
    if own is not None:
        n.kinds = [tensor_type(v.dtype) for v in own]
        once = rounded_once(n, own)
        if once is not own:
            return once, "onnx in float64", None
    if not any(a is not None and a.dtype in FOREIGN for a in [*n.operands, *(own or [])]):
        theirs, why = onnx_runtime(n)
        if theirs is not None:
            return theirs, "ONNX Runtime", None
        refusal = why if own is None else None
    return own, "onnx", refusal


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("dir")
    parser.add_argument("--conformance", required=True)
    parser.add_argument("--only", choices=GROUPS)
    parser.add_argument("--op")
    parser.add_argument("--list", action="store_true")
    args = parser.parse_args()
    shutil.rmtree(args.dir, ignore_errors=True)
    batches, who, nobody = {}, collections.Counter(), 0
    for group in [args.only] if args.only else GROUPS:
        lots = collections.defaultdict(list)
        for n in GROUPS[group]():
            if args.op and n.op != args.op:
                continue
            results, by, why = expected(n)
            if results is None:
                nobody += 1
                if args.list:
                    print(f"no reference: {n}: {why[:200]}")
                continue
            who[f"{group} by {by}"] += 1
            halves = any(np.asarray(r).dtype in HALVES for r in results)  # an op's own cases: their tolerance is that of its results
            lots[f"{n.opset}-{n.op}-{np.asarray(results[0]).dtype}" if halves else str(n.opset)].append((n, results))
        for lot, members in lots.items():
            for i in range(0, len(members), BATCH):
                batches[f"{group}-{lot}-{i // BATCH:03}"] = tuple(zip(*members[i:i + BATCH]))
    good = compare(args.conformance, args.dir, batches)
    print(f"{sum(who.values())} nodes compared: " + ", ".join(f"{k} {n}" for k, n in who.items()) + f"; without a reference: {nobody}")
    sys.exit(0 if good else 1)


if __name__ == "__main__":
    main()
