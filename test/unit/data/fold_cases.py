#!/usr/bin/env python3
"""Writes fold-cases.txt: ops on constants beside the results that NumPy and ONNX Runtime give.

    fold_cases.py fold-cases.txt            the committed cases
    fold_cases.py many.mlir --many 3000      random windows, resizes, slices and pads besides; run with
                                             MRCC_FOLD_CASES=many.mlir mrcc-unit-fold

Each function returns pairs of (computed, expected); its attributes hold the tolerance.
"""
import argparse
import math

import ml_dtypes
import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper

TYPES = {"f32": np.float32, "f64": np.float64, "f16": np.float16, "bf16": ml_dtypes.bfloat16, "i8": np.int8, "i16": np.int16,
         "i32": np.int32, "i64": np.int64, "ui8": np.uint8, "ui16": np.uint16, "ui32": np.uint32, "ui64": np.uint64, "i1": np.bool_,
         "f8E4M3FN": ml_dtypes.float8_e4m3fn, "f8E4M3FNUZ": ml_dtypes.float8_e4m3fnuz, "f8E5M2": ml_dtypes.float8_e5m2,
         "f8E5M2FNUZ": ml_dtypes.float8_e5m2fnuz, "i4": ml_dtypes.int4, "ui4": ml_dtypes.uint4}
LATER = {"i2": ml_dtypes.int2, "ui2": ml_dtypes.uint2, "f4E2M1FN": ml_dtypes.float4_e2m1fn, "f8E8M0FNU": ml_dtypes.float8_e8m0fnu}
NAMES = {np.dtype(v): k for k, v in (TYPES | LATER).items()}
rng = np.random.default_rng(1)
out = []
counter = 0


def type_of(a):
    dims = "".join(f"{d}x" for d in a.shape)
    return f"tensor<{dims}{NAMES[a.dtype]}>"


def dense(a):
    a = np.ascontiguousarray(a).reshape(a.shape)  # keeps rank 0
    if a.size == 0:
        return "dense<>"
    name = NAMES[a.dtype]
    if name in ("i1", "i4", "ui4", "i2", "ui2", "f4E2M1FN"):
        def text(x):
            if x.ndim:
                return "[" + ", ".join(text(y) for y in x) + "]"
            return ("true" if x else "false") if name == "i1" else str(float(x) if name == "f4E2M1FN" else int(x))
        return f"dense<{text(a)}>"
    return f'dense<"0x{a.tobytes().hex().upper()}">'


def case(op, inputs, expected, attrs="", kind="", rtol=0.0, atol=0.0, name=None):
    """`inputs`: arrays, or None for mrc.none. `expected`: one array or a list."""
    global counter
    expected = expected if isinstance(expected, list) else [expected]
    expected = [np.asarray(e) for e in expected]
    counter += 1
    results = ", ".join(f"{type_of(e)}, {type_of(e)}" for e in expected)
    lines = [f"func.func @{name or op}_{counter}() -> ({results}) attributes {{rtol = {rtol:.3e} : f64, atol = {atol:.3e} : f64}} {{"]
    names, types = [], []
    for i, a in enumerate(inputs):
        if a is None:
            lines.append(f"  %i{i} = mrc.none : none")
            types.append("none")
        else:
            a = np.asarray(a)
            lines.append(f"  %i{i} = mrc.constant {dense(a)} : {type_of(a)}")
            types.append(type_of(a))
        names.append(f"%i{i}")
    rs = [f"%r{i}" for i in range(len(expected))]
    attr_text = f" {{{attrs}}}" if attrs else ""
    lines.append(f"  {', '.join(rs)} = mrc.{op} {kind + ' ' if kind else ''}{', '.join(names)}{attr_text} : ({', '.join(types)}) -> "
                 + ("(" if len(expected) > 1 else "") + ", ".join(type_of(e) for e in expected) + (")" if len(expected) > 1 else ""))
    pairs, pair_types = [], []
    for i, e in enumerate(expected):
        lines.append(f"  %w{i} = mrc.constant {dense(e)} : {type_of(e)}")
        pairs += [f"%r{i}", f"%w{i}"]
        pair_types += [type_of(e)] * 2
    lines.append(f"  return {', '.join(pairs)} : {', '.join(pair_types)}")
    lines.append("}")
    out.append("\n".join(lines))


def ort(op, inputs, outputs=1, opset=21, **attrs):
    """Runs one ONNX op in ONNX Runtime, without optimisation."""
    names = ["" if a is None else f"x{i}" for i, a in enumerate(inputs)]
    node = helper.make_node(op, names, [f"y{i}" for i in range(outputs)], **attrs)
    given = [(n, a) for n, a in zip(names, inputs) if a is not None]
    graph = helper.make_graph([node], "g", [helper.make_tensor_value_info(n, helper.np_dtype_to_tensor_dtype(a.dtype), a.shape) for n, a in given],
                              [helper.make_value_info(f"y{i}", onnx.TypeProto()) for i in range(outputs)])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=10)
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    return session.run(None, dict(given))


def ints(values):
    return "array<i64>" if not values else f"array<i64: {', '.join(str(int(v)) for v in values)}>"


def integers(values):
    return np.array(values, np.int64)


def last(a):
    """Channels first to channels last."""
    return np.ascontiguousarray(np.moveaxis(a, 1, -1))


def floats(*shape, dtype=np.float32):
    return rng.standard_normal(shape).astype(dtype)


# element-wise -----------------------------------------------------------------------------------------------------

def sigmoid(x):
    return 1 / (1 + np.exp(-x))


UNARY = {"abs": np.abs, "acos": np.arccos, "acosh": np.arccosh, "asin": np.arcsin, "asinh": np.arcsinh, "atan": np.arctan, "atanh": np.arctanh,
         "ceil": np.ceil, "cos": np.cos, "cosh": np.cosh, "erf": np.vectorize(math.erf), "exp": np.exp, "floor": np.floor, "log": np.log,
         "neg": np.negative, "reciprocal": lambda x: 1 / x, "round_even": np.rint, "rsqrt": lambda x: 1 / np.sqrt(x), "sigmoid": sigmoid,
         "sign": np.sign, "sin": np.sin, "sinh": np.sinh, "sqrt": np.sqrt, "tan": np.tan, "tanh": np.tanh,
         "gelu": lambda x: 0.5 * x * np.vectorize(math.erfc)(-x / math.sqrt(2)), "silu": lambda x: x * sigmoid(x), "softplus": lambda x: np.logaddexp(0, x)}


def unary_cases():
    for kind, f in UNARY.items():
        x = np.concatenate([rng.uniform(-1, 1, 6), rng.uniform(-8, 8, 6), [0.5, -0.5, 1.5, 2.5, 1, -1]]).astype(np.float32)
        if kind in ("acosh", "log", "sqrt", "rsqrt"):
            x = np.abs(x) + (1 if kind == "acosh" else 0)
        if kind in ("acos", "asin", "atanh"):
            x = x[np.abs(x) < 1]
        case("unary", [x], f(x.astype(np.float64)).astype(np.float32), kind=kind, rtol=1.2e-7)
        if kind in ("exp", "tanh", "sigmoid", "sqrt", "erf", "sin"):
            for t in (np.float16, ml_dtypes.bfloat16):
                case("unary", [x.astype(t)], f(x.astype(t).astype(np.float64)).astype(t), kind=kind)
            case("unary", [x.astype(np.float64)], f(x.astype(np.float64)), kind=kind, rtol=1e-15)
    special = np.array([np.nan, np.inf, -np.inf, 0.0, -0.0, 3.4e38, 1e-45], np.float32)
    for kind, f in {"is_nan": np.isnan, "is_pos_inf": np.isposinf, "is_neg_inf": np.isneginf, "exp": np.exp, "abs": np.abs, "sign": np.sign,
                    "sqrt": np.sqrt, "tanh": np.tanh, "atan": np.arctan}.items():
        with np.errstate(all="ignore"):
            case("unary", [special], f(special), kind=kind, rtol=1.2e-7)
    for t in (np.int8, np.int64, np.uint8, np.uint64):
        info = np.iinfo(t)
        x = np.array([info.min, info.max, 0, 1, 5, info.max - 1], t)
        for kind, f in {"abs": np.abs, "neg": np.negative, "sign": np.sign, "bitwise_not": np.invert}.items():
            with np.errstate(all="ignore"):
                case("unary", [x], f(x).astype(t), kind=kind)
    b = np.array([True, False])
    case("unary", [b], ~b, kind="logical_not")


def binary_cases():
    a, b = floats(2, 3, 4), floats(3, 1)
    ops = {"add": np.add, "sub": np.subtract, "mul": np.multiply, "div": np.divide, "mod": np.mod, "fmod": np.fmod, "max": np.maximum,
           "min": np.minimum}
    compare = {"eq": np.equal, "lt": np.less, "le": np.less_equal, "gt": np.greater, "ge": np.greater_equal}
    for kind, f in (ops | compare).items():
        case("binary", [a, b], f(a, b), kind=kind, rtol=2e-7)
        case("binary", [b, a], f(b, a), kind=kind, rtol=2e-7)
    case("binary", [np.abs(a), b], np.power(np.abs(a).astype(np.float64), b.astype(np.float64)).astype(np.float32), kind="pow", rtol=1.2e-7)
    h = floats(5, dtype=np.float16)
    case("binary", [h, h[:1]], (h.astype(np.float64) * h[:1]).astype(np.float16), kind="mul")
    case("binary", [a.astype(np.float64), b.astype(np.float64)], a.astype(np.float64) / b.astype(np.float64), kind="div")
    nan = np.array([np.nan, 1, np.nan], np.float32)
    other = np.array([1, np.nan, np.nan], np.float32)
    for kind in ("max", "min", "eq", "lt"):
        case("binary", [nan, other], (ops | compare)[kind](nan, other), kind=kind)
    for t in (np.int8, np.int32, np.int64, np.uint8, np.uint32, np.uint64):
        info = np.iinfo(t)
        x = rng.integers(info.min, info.max, (4, 5), t, endpoint=True)
        y = rng.integers(max(info.min, -9), 9, (5,), t, endpoint=True)
        y[y == 0] = 3
        with np.errstate(all="ignore"):
            for kind, f in (ops | compare).items():
                expected = f(x, y)
                if kind == "div":  # truncates
                    expected = np.array([[int(abs(int(p)) // abs(int(q))) * (1 if (int(p) < 0) == (int(q) < 0) else -1) for p, q in zip(row, y)] for row in x])
                    expected = expected.astype(object).astype(t) if t != np.uint64 else (x // y)
                case("binary", [x, y], expected.astype(bool) if kind in compare else expected.astype(t), kind=kind)
            for kind, f in {"bitwise_and": np.bitwise_and, "bitwise_or": np.bitwise_or, "bitwise_xor": np.bitwise_xor}.items():
                case("binary", [x, y], f(x, y), kind=kind)
            e = np.array([0, 1, 2, 3, 7], t)
            case("binary", [x, e], np.power(x, e), kind="pow")
            if t in (np.uint8, np.uint32, np.uint64):
                for kind, f in {"shift_left": np.left_shift, "shift_right": np.right_shift}.items():
                    case("binary", [x, e], f(x, e).astype(t), kind=kind)
    p, q = np.array([True, True, False, False]), np.array([True, False, True, False])
    for kind, f in {"logical_and": np.logical_and, "logical_or": np.logical_or, "logical_xor": np.logical_xor, "eq": np.equal}.items():
        case("binary", [p, q], f(p, q), kind=kind)
    c = rng.integers(0, 2, (3, 1)).astype(bool)
    case("select", [c, a, b[:, 0:1].reshape(1, 3, 1)], np.where(c, a, b.reshape(1, 3, 1)))
    case("select", [np.array(True), a, b], np.where(True, a, np.broadcast_to(b, a.shape)))
    # splats give splats
    case("binary", [np.full((3, 4), 2, np.float32), np.float32(3)], np.full((3, 4), 6, np.float32), kind="mul", name="splat")


def cast_cases():
    values = np.array([0, 1, -1, 2.5, -2.5, 7, 100, 127, -0.3, 0.7], np.float32)
    for name, t in TYPES.items():
        x = values if t not in (np.uint8, np.uint16, np.uint32, np.uint64, ml_dtypes.uint4) else np.abs(values)
        if name in ("i4", "ui4"):
            x = x[np.abs(x) < 8]
        with np.errstate(all="ignore"):
            y = numpy_helper.saturate_cast(x, t) if name.startswith("f8") else x.astype(np.int32).astype(t) if name in ("i4", "ui4") else x.astype(t)
            case("cast", [x], y, attrs=f"to = {name}")
            case("cast", [y], y.astype(np.float32), attrs="to = f32")
            n = np.array([0, 1, -1, 300, -300, 70000, 2**31 - 1], np.int64)
            if not name.startswith("f8"):
                case("cast", [n], n.astype(np.int8).astype(t) if name in ("i4",) else n.astype(t), attrs=f"to = {name}")
    # every small float there and back, and rounding between them
    for name in ("f8E4M3FN", "f8E4M3FNUZ", "f8E5M2", "f8E5M2FNUZ"):
        every = np.arange(256, dtype=np.uint8).view(TYPES[name])
        case("cast", [every], every.astype(np.float32), attrs="to = f32")
        f = every.astype(np.float32)
        f = f[np.isfinite(f)]
        f = np.unique(f)
        between = np.concatenate([(f[1:] + f[:-1]) / 2, np.nextafter((f[1:] + f[:-1]) / 2, np.float32(1e9)), [1e6, -1e6, np.inf, -np.inf, np.nan]]).astype(np.float32)
        case("cast", [between], numpy_helper.saturate_cast(between, TYPES[name]), attrs=f"to = {name}")
        with np.errstate(all="ignore"):
            case("cast", [between], between.astype(TYPES[name]), attrs=f"to = {name}, saturate = false")
    for t in (np.float16, ml_dtypes.bfloat16):
        f = np.concatenate([rng.standard_normal(60) * 10.0 ** rng.integers(-9, 6, 60), [65504, 65519, 65520, 6e-8, 2.9e-8, 3e-8, np.inf, -np.inf, 3.4e38]]).astype(np.float32)
        with np.errstate(all="ignore"):
            case("cast", [f], f.astype(t), attrs=f"to = {NAMES[np.dtype(t)]}")


def packed_cases():
    """Types of less than a byte that ONNX got later, and the same bits as another type."""
    def of_codes(codes, name):
        bits = int(name[-1]) if name[-1].isdigit() else 4
        v = codes.astype(np.int8)
        if name in ("i4", "i2"):
            v = np.where(v >= 1 << (bits - 1), v - (1 << bits), v).astype(np.int8)
        t = (TYPES | LATER)[name]
        return v.view(t) if name == "f4E2M1FN" else v.astype(t)

    bits = (np.arange(24) * 37 % 251).astype(np.uint8)
    all_types = TYPES | LATER
    for a, b in (("f32", "i32"), ("f64", "ui64"), ("f16", "bf16"), ("i8", "f8E8M0FNU"), ("f8E5M2", "ui8")):
        case("bitcast", [bits.view(all_types[a])], bits.view(all_types[b]), attrs=f"to = {b}")
    codes = np.arange(16, dtype=np.uint8)
    for a, b, n in (("ui4", "i4", 15), ("i4", "f4E2M1FN", 16), ("f4E2M1FN", "ui4", 7), ("i2", "ui2", 4), ("ui2", "i2", 3)):
        case("bitcast", [of_codes(codes[:n], a)], of_codes(codes[:n], b), attrs=f"to = {b}")
    every = of_codes(codes, "f4E2M1FN")
    case("cast", [every], every.astype(np.float32), attrs="to = f32")
    between = np.array([0.25, 0.26, 0.75, 1.25, -1.75, 2.5, 3.5, 5, 5.01, -7, 1e9, np.inf, -np.inf, np.nan], np.float32)
    case("cast", [between], between.astype(LATER["f4E2M1FN"]), attrs="to = f4E2M1FN")
    case("cast", [np.full((3, 5), 2.4, np.float32)], np.full((3, 5), 2, LATER["f4E2M1FN"]), attrs="to = f4E2M1FN")
    for name in ("i2", "ui2"):
        some = of_codes(codes[:4], name)
        case("cast", [some], some.astype(np.int8).astype(np.float32), attrs="to = f32")
        n = np.array([0, 1, -1, 2, 3, 300, -301], np.int64)
        case("cast", [n], of_codes((n & 3).astype(np.uint8), name), attrs=f"to = {name}")
        case("transpose", [some.reshape(2, 2)], some.reshape(2, 2).T.copy(), attrs="perm = array<i64: 1, 0>")


# reductions ---------------------------------------------------------------------------------------------------------

def reduce_cases():
    fs = {"sum": np.sum, "mean": np.mean, "max": np.max, "min": np.min, "prod": np.prod, "sum_square": lambda x, **k: np.sum(x * x, **k),
          "l1": lambda x, **k: np.sum(np.abs(x), **k), "l2": lambda x, **k: np.sqrt(np.sum(x * x, **k)),
          "log_sum": lambda x, **k: np.log(np.sum(x, **k)), "log_sum_exp": lambda x, **k: np.log(np.sum(np.exp(x), **k))}
    for kind, f in fs.items():
        x = np.abs(floats(2, 3, 4)) + np.float32(0.1)
        for axes, keep in (((1,), True), ((0, 2), False), ((0, 1, 2), False)):
            y = f(x.astype(np.float64), axis=axes, keepdims=keep).astype(np.float32)
            case("reduce", [x], y, attrs=f"axes = {ints(axes)}, keepdims = {str(keep).lower()}", kind=kind, rtol=1.2e-7, atol=1e-7)
        case("reduce", [x], f(x[..., None].astype(np.float64), axis=3).astype(np.float32), attrs="axes = array<i64>", kind=kind, rtol=1.2e-7, atol=1e-7)
    n = rng.integers(-100, 100, (3, 4)).astype(np.int32)
    for kind in ("sum", "max", "min", "prod", "sum_square", "l1"):
        with np.errstate(all="ignore"):
            case("reduce", [n], fs[kind](n, axis=1).astype(np.int32), attrs="axes = array<i64: 1>, keepdims = false", kind=kind)
    u = rng.integers(0, 255, (3, 4)).astype(np.uint8)
    for kind in ("max", "min"):
        case("reduce", [u], fs[kind](u, axis=0), attrs="axes = array<i64: 0>, keepdims = false", kind=kind)
    b = rng.integers(0, 2, (3, 4)).astype(bool)
    case("reduce", [b], b.any(axis=1), attrs="axes = array<i64: 1>, keepdims = false", kind="max")
    case("reduce", [b], b.all(axis=1), attrs="axes = array<i64: 1>, keepdims = false", kind="min")
    e = np.zeros((2, 0), np.float32)
    for kind, v in {"sum": 0, "prod": 1, "max": -np.inf, "min": np.inf, "log_sum_exp": -np.inf}.items():
        case("reduce", [e], np.full((2,), v, np.float32), attrs="axes = array<i64: 1>, keepdims = false", kind=kind)
    x = rng.integers(0, 4, (3, 5)).astype(np.float32)
    for is_max in (True, False):
        for select_last in (0, 1):
            y = ort("ArgMax" if is_max else "ArgMin", [x], axis=1, keepdims=0, select_last_index=select_last)
            case("arg_reduce", [x], y, attrs=f"axis = 1 : i64, is_max = {str(is_max).lower()}, keepdims = false, select_last = {'true' if select_last else 'false'}")
    for exclusive in (0, 1):
        for reverse in (0, 1):
            y = ort("CumSum", [x, np.array(1, np.int64)], exclusive=exclusive, reverse=reverse)
            flags = f"exclusive = {'true' if exclusive else 'false'}, reverse = {'true' if reverse else 'false'}"
            case("cumulative", [x], y, attrs=f"axis = 1 : i64, product = false, {flags}")
    case("cumulative", [x], np.cumprod(x, axis=0).astype(np.float32), attrs="axis = 0 : i64, product = true, exclusive = false, reverse = false")


# movement ------------------------------------------------------------------------------------------------------------

def movement_cases():
    x = floats(2, 3, 4)
    for perm in ((0, 2, 1), (2, 1, 0), (1, 2, 0), (0, 1, 2)):
        case("transpose", [x], x.transpose(perm).copy(), attrs=f"perm = {ints(perm)}")
    for t in (np.int8, np.float16, np.int64, np.bool_, ml_dtypes.int4):
        y = rng.integers(-4, 4, (3, 5)).astype(t)
        case("transpose", [y], y.T.copy(), attrs="perm = array<i64: 1, 0>")
    case("reshape", [x, integers([4, -1])], x.reshape(4, 6))
    case("reshape", [x, integers([0, 0, 2, 2])], x.reshape(2, 3, 2, 2))
    case("reshape", [np.zeros((0, 3), np.float32), integers([3, 0])], np.zeros((3, 0), np.float32), attrs="allowzero = true")
    case("squeeze", [x[:, :1]], x[:, 0].copy(), attrs="axes = array<i64: 1>")
    case("squeeze", [x[:1, :1]], x[0, 0].copy())
    case("unsqueeze", [x], x[:, None, :, :, None].copy(), attrs="axes = array<i64: 1, 4>")
    for axis in range(4):
        case("flatten", [x], x.reshape(int(np.prod(x.shape[:axis])), -1), attrs=f"axis = {axis} : i64")
    y = floats(3, 1)
    case("expand", [y, integers([2, 1, 4])], np.broadcast_to(y, (2, 3, 4)).copy())
    case("expand", [x, integers([1, 1])], x)
    case("tile", [x, integers([2, 1, 3])], np.tile(x, (2, 1, 3)))
    case("tile", [x, integers([1, 0, 3])], np.tile(x, (1, 0, 3)))
    case("concat", [x, floats(2, 0, 4), x[:, :2]], np.concatenate([x, x[:, :2]], 1), attrs="axis = 1 : i64")
    case("concat", [np.full((2, 2), 1, np.int32), np.full((2, 3), 2, np.int32)], np.array([[1, 1, 2, 2, 2]] * 2, np.int32), attrs="axis = 1 : i64")
    case("split", [x, None], [x[:, :, :2].copy(), x[:, :, 2:].copy()], attrs="axis = 2 : i64")
    case("split", [floats(7)[:7].astype(np.float32) * 0 + np.arange(7, dtype=np.float32), None],
         [np.arange(0, 3, dtype=np.float32), np.arange(3, 6, dtype=np.float32), np.array([6], np.float32)], attrs="axis = 0 : i64")
    case("split", [x, integers([1, 0, 2])], [x[:, :1].copy(), x[:, 1:1].copy(), x[:, 1:].copy()], attrs="axis = 1 : i64")
    for i in range(12):
        slice_case()
    for mode in ("constant", "edge", "reflect", "wrap"):
        for i in range(3):
            pad_case(mode)
    idx = integers([[0, -1], [2, 1]])
    case("gather", [x, idx], np.take(x, idx, axis=1), attrs="axis = 1 : i64")
    case("gather", [x, np.array(-1, np.int32)], x[..., -1].copy(), attrs="axis = 2 : i64")
    e = rng.integers(-3, 3, (2, 2, 4))
    case("gather_elements", [x, e], np.take_along_axis(x, np.where(e < 0, e + 3, e), 1), attrs="axis = 1 : i64")
    for batch, i in ((0, integers([[0, 1], [1, -1]])), (1, integers([[2], [0]])), (0, integers([[[1]], [[0]]]))):
        case("gather_nd", [x, i], ort("GatherND", [x, i], batch_dims=batch), attrs=f"batch_dims = {batch} : i64")
    for red in ("none", "add", "mul", "max", "min"):
        i, u = rng.integers(0, 3, (2, 2, 4)), floats(2, 2, 4)
        if red == "none":
            i = np.stack([np.tile(rng.permutation(3)[:2, None], (1, 4)) for _ in range(2)])
        case("scatter_elements", [x, i, u], ort("ScatterElements", [x, i, u], axis=1, reduction=red, opset=18), attrs="axis = 1 : i64", kind=red, rtol=1e-6)
        i, u = integers([[0, 1], [1, -1], [0, 1]] if red != "none" else [[0, 1], [1, -1]]), floats(3 if red != "none" else 2, 4)
        case("scatter_nd", [x, i, u], ort("ScatterND", [x, i, u], reduction=red, opset=18), kind=red, rtol=1e-6)
    case("shape", [x], integers([3, 4]), attrs="start = -2 : i64")
    case("shape", [x], integers([2]), attrs="start = 0 : i64, end = 1 : i64")
    case("size", [x], np.array(24, np.int64))
    case("range", [np.array(3, np.int32), np.array(-5, np.int32), np.array(-3, np.int32)], np.arange(3, -5, -3, dtype=np.int32))
    case("range", [np.float32(0), np.float32(1), np.float32(0.3)], np.array([0, 0.3, 0.6, 0.9], np.float32), rtol=1.2e-7)
    case("range", [np.array(5, np.int64), np.array(5, np.int64), np.array(1, np.int64)], np.zeros(0, np.int64))
    case("fill", [integers([2, 3]), np.array([7], np.float16)], np.full((2, 3), 7, np.float16))
    case("iota", [x], np.broadcast_to(np.arange(3, dtype=np.int32)[:, None], (2, 3, 4)).copy(), attrs="axis = 1 : i64, type = i32")


def slice_case():
    rank = int(rng.integers(1, 4))
    dims = tuple(int(d) for d in rng.integers(0 if rng.random() < 0.1 else 1, 7, rank))
    x = rng.integers(-99, 99, dims).astype(np.int32)
    n = int(rng.integers(1, rank + 1))
    axes = rng.permutation(rank)[:n]
    steps = np.array([int(rng.choice([1, 1, 2, 3, -1, -2, 9, -9])) for _ in range(n)])
    far = [2**63 - 1, -(2**63), 100, -100]
    starts = np.array([int(rng.choice([int(rng.integers(-8, 8)), far[int(rng.integers(4))]])) for _ in range(n)])
    ends = np.array([int(rng.choice([int(rng.integers(-8, 8)), far[int(rng.integers(4))]])) for _ in range(n)])
    ends = np.where((ends == 2**63 - 1) & (steps < 0), 0, ends)  # ONNX Runtime reads it as "to the front" there
    y = ort("Slice", [x, starts, ends, axes, steps])[0]
    case("slice", [x, starts, ends, np.where(rng.random(n) < 0.5, axes, axes - rank), steps], y)


def pad_case(mode):
    rank = int(rng.integers(1, 4))
    dims = tuple(int(d) for d in rng.integers(2, 6, rank))
    x = rng.integers(-99, 99, dims).astype(np.float32)
    low = -1 if mode == "constant" else 0
    pads = np.array([int(rng.integers(low, 2 if mode != "constant" else 4)) for _ in range(2 * rank)])
    value = np.array(5, np.float32) if mode == "constant" and rng.random() < 0.5 else None
    y = ort("Pad", [x, pads, value], mode=mode)[0] if mode == "constant" else np.pad(x, [(pads[i], pads[i + rank]) for i in range(rank)], mode=mode)
    case("pad", [x, pads, value, None], y, kind=mode)


# products and windows -------------------------------------------------------------------------------------------------

def matmul_cases():
    for a, b in (((3, 4), (4, 5)), ((4,), (4, 5)), ((3, 4), (4,)), ((4,), (4,)), ((2, 1, 3, 4), (5, 4, 2)), ((2, 3, 4), (4,)), ((4,), (2, 4, 3))):
        x, y = floats(*a), floats(*b)
        case("matmul", [x, y], np.asarray(np.matmul(x.astype(np.float64), y.astype(np.float64)).astype(np.float32)), rtol=1e-6, atol=1e-6)
    x, y = rng.integers(-9, 9, (3, 4)).astype(np.int32), rng.integers(-9, 9, (4, 2)).astype(np.int32)
    case("matmul", [x, y], x @ y)
    h, g = floats(3, 4, dtype=np.float16), floats(4, 2, dtype=np.float16)
    case("matmul", [h, g], (h.astype(np.float64) @ g.astype(np.float64)).astype(np.float16))
    w = floats(2, 5, 20)
    packed = np.zeros((2, 2, 5, 16), np.float32)
    for n in range(20):
        packed[:, n // 16, :, n % 16] = w[:, :, n]
    case("pack", [w], packed, attrs='form = "matmul"')
    for group in (1, 2):
        oc, ic = 20, 6
        w = floats(oc * group, ic, 2, 3)
        packed = np.zeros((group, 1, 2, 6, ic, 16), np.float32)
        for g in range(group):
            for o in range(oc):
                packed[g, 0, o // 16, :, :, o % 16] = w[g * oc + o].reshape(ic, 6).T
        case("pack", [w], packed if group > 1 else packed[0], attrs=f'form = "conv", group = {group} : i64')
    w = floats(3, 160, 1, 1)
    packed = np.zeros((2, 1, 1, 80, 16), np.float32)
    packed[:, 0, 0, :, :3] = w[:, :, 0, 0].T.reshape(2, 80, 3)
    case("pack", [w], packed, attrs='form = "conv"')
    w = floats(5, 1, 3, 3)
    case("pack", [w], w.reshape(5, 9).T.copy(), attrs='form = "depthwise"')


def window_attrs(strides, dilations, pads, auto):
    text = f"strides = {ints(strides)}, dilations = {ints(dilations)}, pads = {ints(pads)}"
    return text + (f', auto_pad = "{auto}"' if auto != "NOTSET" else "")


def conv_case(spatial=None):
    s = spatial or int(rng.integers(1, 4))
    group = int(rng.choice([1, 1, 2, 3]))
    ic, oc = group * int(rng.integers(1, 4)), group * int(rng.integers(1, 4))
    kernel = [int(k) for k in rng.integers(1, 4, s)]
    strides = [int(k) for k in rng.integers(1, 4, s)]
    dilations = [int(k) for k in rng.integers(1, 3, s)]
    auto = str(rng.choice(["NOTSET", "NOTSET", "SAME_UPPER", "SAME_LOWER", "VALID"]))
    if auto.startswith("SAME"):
        dilations = [1] * s
    pads = [int(p) for p in rng.integers(0, 3, 2 * s)] if auto == "NOTSET" else [0] * (2 * s)
    dims = [int(d) for d in rng.integers(5, 9 if s < 3 else 7, s)]
    x, w = floats(int(rng.integers(1, 3)), ic, *dims), floats(oc, ic // group, *kernel)
    b = floats(oc) if rng.random() < 0.5 else None
    extra = {} if auto != "NOTSET" else {"pads": pads}
    y = ort("Conv", [x, w, b], kernel_shape=kernel, strides=strides, dilations=dilations, group=group, auto_pad=auto, **extra)[0]
    case("conv", [last(x), w, b], last(y), attrs=window_attrs(strides, dilations, pads, auto) + f", group = {group} : i64", rtol=1e-5, atol=1e-5)


def conv_transpose_case(spatial=None):
    s = spatial or int(rng.integers(1, 3))
    group = int(rng.choice([1, 1, 2]))
    ic, oc = group * int(rng.integers(1, 4)), group * int(rng.integers(1, 4))
    kernel = [int(k) for k in rng.integers(1, 4, s)]
    strides = [int(k) for k in rng.integers(1, 4, s)]
    dilations = [int(k) for k in rng.integers(1, 3, s)]
    padding = [int(rng.integers(0, m)) for m in strides]
    pads = [0] * (2 * s)
    dims = [int(d) for d in rng.integers(3, 6, s)]
    extra, text, auto = {}, "", "NOTSET"
    choice = rng.random()
    if choice < 0.4:
        pads = [int(rng.integers(0, max(1, k))) for k in kernel * 2]
        extra["pads"] = pads
    elif choice < 0.6:
        shape = [st * (d - 1) + di * (k - 1) + 1 + p - int(rng.integers(0, 2)) for st, d, di, k, p in zip(strides, dims, dilations, kernel, padding)]
        extra["output_shape"] = shape
        text = f", output_shape = {ints(shape)}"
    elif choice < 0.8:
        auto = str(rng.choice(["SAME_UPPER", "SAME_LOWER"]))
        padding, dilations = [0] * s, [1] * s
        kernel = [max(k, st) for k, st in zip(kernel, strides)]
    x, w = floats(int(rng.integers(1, 3)), ic, *dims), floats(ic, oc // group, *kernel)
    b = floats(oc) if rng.random() < 0.5 else None
    try:
        y = ort("ConvTranspose", [x, w, b], kernel_shape=kernel, strides=strides, dilations=dilations, group=group, auto_pad=auto,
                output_padding=padding, **extra)[0]
    except Exception:  # more padding than output
        return
    case("conv_transpose", [last(x), w, b], last(y), attrs=window_attrs(strides, dilations, pads, auto) +
         f", output_padding = {ints(padding)}, group = {group} : i64{text}", rtol=1e-5, atol=1e-5)


def pool_case(kind, spatial=None):
    s = spatial or int(rng.integers(1, 4))
    kernel = [int(k) for k in rng.integers(1, 4, s)]
    strides = [int(k) for k in rng.integers(1, 4, s)]
    dilations = [int(k) for k in rng.integers(1, 3, s)]
    auto = str(rng.choice(["NOTSET", "NOTSET", "NOTSET", "SAME_UPPER", "SAME_LOWER", "VALID"]))
    if auto.startswith("SAME"):
        dilations = [1] * s
        kernel = [max(k, st) for k, st in zip(kernel, strides)]  # else ONNX Runtime crops
    pads = [int(rng.integers(0, k)) for k in kernel * 2] if auto == "NOTSET" else [0] * (2 * s)
    dims = [int(d) for d in rng.integers(5, 9 if s < 3 else 6, s)]
    x = floats(int(rng.integers(1, 3)), 2, *dims)
    ceil = bool(rng.random() < 0.5)
    include = kind == "average_pool" and bool(rng.random() < 0.5)
    attrs = dict(kernel_shape=kernel, strides=strides, dilations=dilations, auto_pad=auto, ceil_mode=int(ceil))
    if auto == "NOTSET":
        attrs["pads"] = pads
    text = ""
    if kind == "average_pool":
        attrs["count_include_pad"] = int(include)
        text = f", count_include_pad = {str(include).lower()}"
    if kind == "lp_pool":
        attrs["p"] = int(rng.integers(1, 4))
        text = f", p = {attrs['p']} : i64"
    op = {"max_pool": "MaxPool", "average_pool": "AveragePool", "lp_pool": "LpPool"}[kind]
    try:
        y = ort(op, [x], **attrs)[0]
    except Exception:
        return
    if not np.isfinite(y).all() or np.abs(y).max() > 1e30:
        return  # ONNX Runtime's value for a window that lies in the padding
    case("pool", [last(x)], last(y), attrs=f"kernel = {ints(kernel)}, ceil_mode = {str(ceil).lower()}, " +
         window_attrs(strides, dilations, pads, auto) + text, kind=kind, rtol=1e-5, atol=1e-5)


def resize_case(mode=None, coordinate=None):
    mode = mode or str(rng.choice(["nearest", "linear", "cubic"]))
    coordinate = coordinate or str(rng.choice(["half_pixel", "asymmetric", "align_corners", "pytorch_half_pixel", "half_pixel_symmetric", "tf_crop_and_resize"]))
    nearest = str(rng.choice(["round_prefer_floor", "round_prefer_ceil", "floor", "ceil"]))
    dims = [int(d) for d in rng.integers(3, 9, 2)]
    x = floats(1, 2, *dims)
    if coordinate == "half_pixel_symmetric" and nearest in ("floor", "ceil"):
        nearest = "round_prefer_floor"  # the middle falls on an integer, give or take a rounding
    antialias = mode != "nearest" and coordinate in ("half_pixel", "asymmetric") and rng.random() < 0.3
    exclude = mode == "cubic" and coordinate != "tf_crop_and_resize" and rng.random() < 0.4
    scales = sizes = roi = None
    policy = "stretch"
    if rng.random() < 0.5 and coordinate != "tf_crop_and_resize":
        scales = rng.uniform(0.4, 2.6, 2).astype(np.float32)
        if coordinate == "align_corners":
            scales = np.array([2, 3], np.float32)  # others: ONNX Runtime leaves the specification
    else:
        sizes = rng.integers(1, 15, 2)
        if coordinate == "half_pixel" and rng.random() < 0.4:
            policy = str(rng.choice(["not_larger", "not_smaller"]))
    if coordinate == "tf_crop_and_resize":
        sizes = np.where(sizes == dims, sizes + 1, sizes)  # ONNX Runtime ignores the roi at scale 1
        roi = np.array([0.1, -0.2, 0.9, 1.3], np.float32)
    if scales is not None and any(int(np.float32(d) * s) == d and s != 1 for d, s in zip(dims, scales)):
        return  # ONNX Runtime takes an equal size for scale 1
    attrs = dict(mode=mode, coordinate_transformation_mode=coordinate, nearest_mode=nearest, axes=[2, 3], antialias=int(antialias),
                 exclude_outside=int(exclude), keep_aspect_ratio_policy=policy, cubic_coeff_a=-0.5, extrapolation_value=7.0)
    try:
        y = ort("Resize", [x, roi, scales, sizes], opset=19, **attrs)[0]
    except Exception:
        return
    case("resize", [last(x), roi, scales, sizes], last(y),
         attrs=f'mode = "{mode}", coordinate = "{coordinate}", nearest = "{nearest}", axes = array<i64: 1, 2>, antialias = {str(bool(antialias)).lower()}, '
               f'aspect_policy = "{policy}", cubic_coeff = -5.000000e-01 : f32, exclude_outside = {str(bool(exclude)).lower()}, extrapolation = 7.000000e+00 : f32',
         rtol=2e-4, atol=2e-5)


# normalisations --------------------------------------------------------------------------------------------------------

def norm_cases():
    x = floats(2, 3, 4)
    for axis in range(3):
        case("softmax", [x], ort("Softmax", [x], axis=axis), attrs=f"axis = {axis} : i64", rtol=1e-6)
        case("softmax", [x], ort("LogSoftmax", [x], axis=axis), attrs=f"axis = {axis} : i64, log = true", rtol=1e-5, atol=1e-6)
    c = floats(2, 3, 5)
    scale, bias, mean, var = floats(3), floats(3), floats(3), np.abs(floats(3))
    y = ort("BatchNormalization", [c, scale, bias, mean, var], epsilon=1e-3)[0]
    case("batch_norm", [last(c), scale, bias, mean, var], last(y), attrs="epsilon = 1.000000e-03 : f32", rtol=1e-5, atol=1e-5)
    for axis in (1, 2):
        s, b = floats(*x.shape[axis:]), floats(*x.shape[axis:])
        y = ort("LayerNormalization", [x, s, b], axis=axis, epsilon=1e-3)[0]
        case("layer_norm", [x, s, b], y, attrs=f"axis = {axis} : i64, epsilon = 1.000000e-03 : f32", rtol=1e-5, atol=1e-5)
    r = x / np.sqrt((x * x).mean(-1, keepdims=True) + np.float32(1e-3))
    case("layer_norm", [x, None, None], r.astype(np.float32), attrs="axis = 2 : i64, epsilon = 1.000000e-03 : f32, rms = true", rtol=1e-5, atol=1e-6)
    g = floats(2, 6, 3, 2)
    s, b = floats(6), floats(6)
    for groups in (1, 2, 6):
        y = ort("GroupNormalization", [g, s, b], num_groups=groups, epsilon=1e-3)[0]
        case("group_norm", [last(g), s, b], last(y), attrs=f"groups = {groups} : i64, epsilon = 1.000000e-03 : f32", rtol=1e-5, atol=1e-5)
    y = ort("InstanceNormalization", [g, s, b], epsilon=1e-3)[0]
    case("group_norm", [last(g), s, b], last(y), attrs="groups = 6 : i64, epsilon = 1.000000e-03 : f32", rtol=1e-5, atol=1e-5)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("path")
    parser.add_argument("--many", type=int, default=0)
    args = parser.parse_args()
    unary_cases()
    binary_cases()
    cast_cases()
    reduce_cases()
    movement_cases()
    matmul_cases()
    norm_cases()
    n = args.many // 8
    for _ in range(n or 8):
        conv_case()
        conv_transpose_case()
    for kind in ("max_pool", "average_pool", "lp_pool"):
        for _ in range(n or 6):
            pool_case(kind)
    for _ in range(n or 30):
        resize_case()
    for _ in range(n):
        slice_case()
        pad_case(str(rng.choice(["constant", "edge", "reflect", "wrap"])))
    packed_cases()
    with open(args.path, "w") as f:
        f.write("// Made by fold_cases.py.\n" + "\n".join(out) + "\n")
    print(len(out), "cases")


if __name__ == "__main__":
    main()
