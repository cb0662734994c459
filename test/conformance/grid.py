#!/usr/bin/env python3
"""Windowed and resampling ops over a grid of attributes, against ONNX Runtime: grid.py DIR --conformance PROGRAM.

Draws some thousand single nodes with a fixed seed, runs each alone in ONNX Runtime without optimisations, and writes
those that it accepts to DIR as cases of mrcc-conformance, several nodes a model, which the program then runs. A node
of a case that does not pass is tried again alone, so that every one that differs is named.

    --only OP      nodes of this op alone
    --count N      nodes drawn of each op (the default is each op's own number)
    --seed S       another draw
    --list         print what ONNX Runtime rejects, too

Where ONNX Runtime deviates from the standard its result is no reference: DEVIATIONS says where and why.
"""
import argparse
import collections
import json
import os
import random
import shutil
import subprocess
import sys
from fractions import Fraction

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper

from export import ATOL, rtol_of

OPSET, IR_VERSION = 22, 10
BATCH = 24  # nodes a model


class Node:
    """One op with its operands: `fed` are inputs of the model, the others constants; None is an absent one.

    `kinds` are the outputs' types where they are not the first operand's.
    """

    def __init__(self, op, operands, attributes, outputs=1, fed=(0,), kinds=None, domain="", opset=OPSET):
        self.op, self.operands, self.outputs, self.fed = op, operands, outputs, fed
        self.kinds, self.domain, self.opset = kinds, domain, opset
        self.attributes = {k: v for k, v in attributes.items() if v is not None}

    def __str__(self):
        operands = [None if a is None else a.tolist() if a.ndim == 1 and a.size <= 8 else "x".join(map(str, a.shape))
                    for a in self.operands]
        return f"{self.op}({', '.join(map(str, operands))}) {self.attributes}"

    def add_to(self, graph, prefix):
        """Appends node, inputs, constants and (untyped) outputs; returns the names of inputs and outputs."""
        names = []
        for i, a in enumerate(self.operands):
            names.append("" if a is None else f"{prefix}i{i}")
            if a is None:
                continue
            if i in self.fed:
                graph.input.append(helper.make_tensor_value_info(names[i], helper.np_dtype_to_tensor_dtype(a.dtype), a.shape))
            else:
                graph.initializer.append(numpy_helper.from_array(a, names[i]))
        results = [f"{prefix}o{i}" for i in range(self.outputs)]
        graph.node.append(helper.make_node(self.op, names, results, name=f"{prefix}node", domain=self.domain,
                                           **self.attributes))
        for i, r in enumerate(results):
            kind = self.kinds[i] if self.kinds else helper.np_dtype_to_tensor_dtype(self.operands[0].dtype)
            graph.output.append(helper.make_empty_tensor_value_info(r))
            graph.output[-1].type.tensor_type.elem_type = kind
        return [names[i] for i in self.fed], results


def model_of(nodes):
    """One model of all nodes, which are of one opset."""
    model = helper.make_model(helper.make_graph([], "grid", [], []), ir_version=IR_VERSION, opset_imports=[
        helper.make_opsetid("", nodes[0].opset), *(helper.make_opsetid(d, 1) for d in {n.domain for n in nodes} - {""})])
    for k, node in enumerate(nodes):
        node.add_to(model.graph, f"n{k}_")
    return model


def cropped(node):
    """The same convolution without negative pads, which ONNX Runtime rejects: its input is cropped instead."""
    pads = node.attributes.get("pads", [])
    if node.op != "Conv" or min(pads, default=0) >= 0:
        return node
    x, n = node.operands[0], len(pads) // 2
    window = tuple(slice(max(0, -a), size - max(0, -b)) for a, b, size in zip(pads[:n], pads[n:], x.shape[2:]))
    attributes = {**node.attributes, "pads": [max(0, p) for p in pads]}
    return Node(node.op, [np.ascontiguousarray(x[(..., *window)])] + node.operands[1:], attributes)


def onnx_runtime(node):
    """The results, or ONNX Runtime's refusal."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.log_severity_level = 4
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    node = cropped(node)
    try:
        session = onnxruntime.InferenceSession(model_of([node]).SerializeToString(), options, providers=["CPUExecutionProvider"])
        return session.run(None, {f"n0_i{i}": node.operands[i] for i in node.fed}), None
    except Exception as e:  # its exceptions have no common base
        return None, " ".join(str(e).split())


# ---- what is drawn ----

# Six nodes in a row have the same attributes and other sizes (from r.more): they share their kernels.
ALIKE = 6


def numbers(r, shape, dtype=np.float32):
    values = np.random.default_rng(r.more.randrange(1 << 32)).integers(-64, 65, shape)
    return values.astype(dtype) if np.issubdtype(dtype, np.integer) else (values / 32).astype(dtype)


def sizes(r, n):
    """Odd, even and 1-wide; one dimension may be long enough for whole vectors."""
    out = [r.more.choice([1, 2, 3, 5, 7, 8, 11, 13]) for _ in range(n)]
    if r.more.random() < 0.3:
        out[r.more.randrange(n)] = r.more.choice([17, 31, 40])
    return out


def window(r, n, negative=True):
    """kernel_shape, strides, dilations and pads or auto_pad of n dimensions."""
    a = {"kernel_shape": [r.choice([1, 2, 3, 3, 4, 5]) for _ in range(n)],
         "strides": [r.choice([1, 1, 2, 3]) for _ in range(n)] if r.random() < 0.8 else None,
         "dilations": [r.choice([1, 2, 3]) for _ in range(n)] if r.random() < 0.4 else None}
    kind = r.choice(["none", "explicit", "explicit", "negative" if negative else "explicit", "VALID", "SAME_UPPER",
                     "SAME_LOWER", "NOTSET"])
    if kind == "explicit":
        a["pads"] = [r.randint(0, k - 1 if not negative else 3) for k in a["kernel_shape"] * 2]
    elif kind == "negative":
        a["pads"] = [r.randint(-2, 2) for _ in range(2 * n)]
    elif kind != "none":
        a["auto_pad"] = kind
    return a


def channels(r):
    """(in, out, group): dense, grouped, depthwise with a multiplier."""
    kind = r.choice(["dense", "dense", "grouped", "depthwise"])
    if kind == "dense":
        return r.choice([1, 2, 3, 5, 8, 16]), r.choice([1, 3, 4, 8, 17]), 1
    if kind == "grouped":
        g = r.choice([2, 3])
        return g * r.choice([1, 2, 4]), g * r.choice([1, 2, 3, 8]), g
    c = r.choice([2, 3, 8, 16])
    return c, c * r.choice([1, 1, 2]), c


def conv(r):
    n, (ci, co, group) = r.choice([1, 2, 2, 2, 3]), channels(r)
    a = window(r, n)
    x = numbers(r, [r.more.choice([1, 3]), ci] + sizes(r, n))
    w = numbers(r, [co, ci // group] + a["kernel_shape"])
    if r.random() < 0.3:
        a["kernel_shape"] = None  # that of the weights
    return Node("Conv", [x, w] + [numbers(r, [co])] * r.choice([0, 1]), {**a, "group": group})


def conv_transpose(r):
    n, (ci, co, group) = r.choice([1, 2, 2, 3]), channels(r)
    a = window(r, n, negative=False)
    size = sizes(r, n)
    x = numbers(r, [r.more.choice([1, 3]), ci] + size)
    w = numbers(r, [ci, co // group] + a["kernel_shape"])
    strides, dilations = a["strides"] or [1] * n, a["dilations"] or [1] * n
    if r.random() < 0.4:
        a["output_padding"] = [r.randint(0, max(s, d) - 1) for s, d in zip(strides, dilations)]
    if r.random() < 0.2:
        full = [(i - 1) * s + (k - 1) * d + 1 for i, s, k, d in zip(size, strides, a["kernel_shape"], dilations)]
        a["output_shape"] = [max(1, f - r.randint(0, 2)) for f in full]
        a["pads"] = a["output_padding"] = None
    return Node("ConvTranspose", [x, w] + [numbers(r, [co])] * r.choice([0, 1]), {**a, "group": group})


def pool(op, outputs=1):
    def draw(r):
        n = r.choice([1, 2, 2, 3])
        a = window(r, n, negative=False)
        a["ceil_mode"] = r.choice([None, 0, 1, 1])
        if op == "AveragePool":
            a["count_include_pad"] = r.choice([None, 0, 1])
        if op == "LpPool":
            a["p"] = r.choice([None, 1, 2, 3])
        x = numbers(r, [r.more.choice([1, 3]), r.choice([1, 3, 8, 19])] + sizes(r, n))
        indices = op == "MaxPool" and r.random() < 0.25
        if indices:  # without ties: which one is the maximum must not depend on an order
            x = np.random.default_rng(r.more.randrange(1 << 32)).permutation(x.size).astype(np.float32).reshape(x.shape)
            a["storage_order"] = r.choice([None, 0, 1])
        if op == "MaxPool" and r.random() < 0.1:
            x = numbers(r, x.shape, r.choice([np.int8, np.uint8]))
        indices = indices and x.dtype == np.float32
        return Node(op, [x], a, 2, kinds=(TensorProto.FLOAT, TensorProto.INT64)) if indices else Node(op, [x], a)
    return draw


def resize(r):
    mode = r.choice(["nearest", "nearest", "linear", "linear", "cubic"])
    n = r.choice([1, 2, 2, 3]) if mode != "cubic" else 2
    x = numbers(r, [r.more.choice([1, 3]), r.choice([1, 3, 8])] + sizes(r, n))
    rank = x.ndim
    axes = list(range(2, rank)) if r.random() < 0.4 else None
    which = axes or list(range(rank))
    factor = [1.0 if i < 2 else r.choice([0.3, 0.5, 0.75, 1.0, 1.5, 2.0, 2.0, 3.0, 3.7]) for i in which]
    a = {"mode": mode, "axes": axes,
         "coordinate_transformation_mode": r.choice(["half_pixel", "half_pixel", "half_pixel_symmetric", "pytorch_half_pixel",
                                                     "align_corners", "asymmetric", "tf_crop_and_resize"])}
    if mode == "nearest":
        a["nearest_mode"] = r.choice(["round_prefer_floor", "round_prefer_ceil", "floor", "ceil"])
        if a["coordinate_transformation_mode"] == "half_pixel_symmetric" and a["nearest_mode"] in ("floor", "ceil"):
            a["nearest_mode"] = "round_prefer_floor"  # the middle falls on an integer, give or take a rounding
    elif r.random() < 0.3:
        a["antialias"] = 1
    if mode == "cubic":
        a["cubic_coeff_a"] = r.choice([None, -0.5, -0.75])
        a["exclude_outside"] = r.choice([None, 0, 1])
    roi = None
    if a["coordinate_transformation_mode"] == "tf_crop_and_resize":
        begin = [r.choice([0.0, 0.1, 0.25]) for _ in which]
        end = [r.choice([1.0, 0.9, 1.2, 0.6]) for _ in which]
        roi = np.array([0.0 if i < 2 else b for i, b in zip(which, begin)]
                       + [1.0 if i < 2 else e for i, e in zip(which, end)], np.float32)
        a["extrapolation_value"] = r.choice([None, 1.5])
    if r.random() < 0.5:
        return Node("Resize", [x, roi, np.array(factor, np.float32)], a)
    target = [max(1, int(x.shape[i] * f)) for i, f in zip(which, factor)]
    if r.random() < 0.3 and roi is None:
        a["keep_aspect_ratio_policy"] = r.choice(["not_larger", "not_smaller"])
        a["axes"], target = list(range(2, rank)), target[-n:]
    return Node("Resize", [x, roi, None, np.array(target, np.int64)], a)


def pad(r):
    rank = r.choice([1, 2, 3, 4, 5])
    shape = sizes(r, rank)
    dtype = r.choice([np.float32, np.float32, np.float32, np.int32, np.int64, np.uint8, np.float64])
    x = numbers(r, shape, dtype)
    mode = r.choice(["constant", "constant", "reflect", "edge", "wrap"])
    axes = sorted(r.sample(range(rank), r.randint(1, rank))) if r.random() < 0.4 else None
    which = axes or list(range(rank))
    low = -2 if r.random() < 0.5 else 0
    amounts = [r.randint(low, 3) if mode == "constant" else r.randint(max(low, 1 - shape[i]), min(3, shape[i] - 1))
               for i in which * 2]
    operands = [x, np.array(amounts, np.int64)]
    value = np.array(7, dtype) if mode == "constant" and r.random() < 0.5 else None
    if value is not None or axes:
        operands.append(value)
    if axes:
        operands.append(np.array([i - rank if r.random() < 0.3 else i for i in axes], np.int64))
    return Node("Pad", operands, {"mode": None if mode == "constant" and r.random() < 0.5 else mode})


GRID = {"Conv": (conv, 720), "ConvTranspose": (conv_transpose, 420), "MaxPool": (pool("MaxPool"), 300),
        "AveragePool": (pool("AveragePool"), 240), "LpPool": (pool("LpPool"), 120), "Resize": (resize, 480), "Pad": (pad, 480)}


# ---- where ONNX Runtime is not the reference ----

class Window:
    """The window of a node by dimension, with ONNX's defaults."""

    def __init__(self, node):
        a = node.attributes
        self.size = node.operands[0].shape[2:]
        n = len(self.size)
        self.kernel = a.get("kernel_shape") or list(node.operands[1].shape[2:])
        self.strides, self.dilations = a.get("strides", [1] * n), a.get("dilations", [1] * n)
        self.same = a.get("auto_pad", "").startswith("SAME")
        pads = a["pads"] if a.get("auto_pad", "NOTSET") == "NOTSET" and "pads" in a else [0] * 2 * n
        self.begins = pads[:n]
        self.padded = [x + p + q for x, p, q in zip(self.size, pads[:n], pads[n:])]
        self.extent = [(k - 1) * d + 1 for k, d in zip(self.kernel, self.dilations)]


def same_pool_dilated(node):
    w = Window(node)
    return "Pool" in node.op and w.same and w.extent != w.kernel


def pool_beyond(node):
    w = Window(node)
    ceil = node.attributes.get("ceil_mode", 0)
    return "Pool" in node.op and not w.same and not ceil and any(e > x for e, x in zip(w.extent, w.padded))


def pool_of_padding(node):
    """A window whose places all lie in the padding."""
    w = Window(node)
    beyond = [s - 1 if node.attributes.get("ceil_mode") else 0 for s in w.strides]
    return node.op == "MaxPool" and not w.same and any(
        not any(0 <= o + k * d - begin < size for k in range(kernel))
        for size, padded, kernel, extent, s, d, begin, more
        in zip(w.size, w.padded, w.kernel, w.extent, w.strides, w.dilations, w.begins, beyond)
        for o in range(0, min(padded - extent + more + 1, size + begin), s))


def same_transposed_gap(node):
    w = Window(node)
    extra = node.attributes.get("output_padding", [0] * len(w.size))
    return node.op == "ConvTranspose" and w.same and any(e + x < s for e, x, s in zip(w.extent, extra, w.strides))


def resized(node):
    """(size, scale as a fraction, start and end of the region) of each axis."""
    x, roi, scales = node.operands[:3]
    axes = node.attributes.get("axes", list(range(x.ndim)))
    region = np.array([0.0] * len(axes) + [1.0] * len(axes)) if roi is None else roi
    sizes = [x.shape[i] for i in axes]
    factors = [Fraction(int(t), n) for t, n in zip(node.operands[3], sizes)] if scales is None else [Fraction(float(s)) for s in scales]
    policy = {"not_larger": min, "not_smaller": max}.get(node.attributes.get("keep_aspect_ratio_policy"))
    factors = [policy(factors)] * len(axes) if policy else factors
    return list(zip(sizes, factors, region[:len(axes)], region[len(axes):]))


def align_fractional(node):
    return node.attributes["coordinate_transformation_mode"] == "align_corners" and any(
        n * s % 1 for n, s, _, _ in resized(node))


def cropped_unscaled(node):
    return any(s == 1 and (a, b) != (0, 1) for _, s, a, b in resized(node))


def symmetric_tie(node):
    """A coordinate that is a whole number, exactly, where floor or ceil is taken of it."""
    a = node.attributes
    if a["mode"] != "nearest" or a["coordinate_transformation_mode"] != "half_pixel_symmetric" or "round" in a["nearest_mode"]:
        return False
    half = Fraction(1, 2)
    for n, s, _, _ in resized(node):
        out = int(n * s)
        offset = Fraction(n, 2) * (1 - Fraction(out) / (n * s))
        if s != 1 and any((offset + (o + half) / s - half).denominator == 1 for o in range(out)):
            return True
    return False


WINDOWED = {"Conv", "ConvTranspose", "MaxPool", "AveragePool", "LpPool"}
DEVIATIONS = [  # (op or ops, whether it applies, why ONNX Runtime's result is not what the standard says)
    (WINDOWED, same_pool_dilated, "SAME pads of pools are computed for the window without dilations; the standard's pad_shape has them"),
    (WINDOWED, pool_beyond, "a pool's window beyond the padded input gives one output, its division rounds -1/s to 0; floor gives none"),
    (WINDOWED, pool_of_padding, "the maximum of padding alone is the least finite number; here it is minus infinity, the maximum of nothing"),
    (WINDOWED, same_transposed_gap, "ConvTranspose with SAME and a stride above its window is shorter than input * stride"),
    ({"Resize"}, align_fractional, "align_corners takes the whole length; the standard's tests take input * scale, a fraction"),
    ({"Resize"}, cropped_unscaled, "tf_crop_and_resize ignores the region of an axis whose scale is 1"),
    ({"Resize"}, symmetric_tie, "half_pixel_symmetric: floor or ceil of a coordinate that is exactly a whole number; float32 decides"),
]


def deviation(node):
    return next((reason for ops, applies, reason in DEVIATIONS if node.op in ops and applies(node)), None)


# ---- cases ----

# Half of the last place of 16-bit floats: what rounding a value takes from it, at most, of its size.
ROUNDING = {"float16": 2 ** -11, "bfloat16": 2 ** -8}


def atol_of(results):
    """One rounding of the largest result: where 16-bit floats cancel, what is left is no more exact than they were."""
    return ATOL + max((ROUNDING.get(v.dtype.name, 0) * float(np.abs(v[np.isfinite(v)]).max(initial=0)) for v in results), default=0)


def write_case(folder, nodes, results):
    shutil.rmtree(folder, ignore_errors=True)
    write_model(folder, model_of(nodes), [a for n in nodes for a in (n.operands[i] for i in n.fed)],
                [a for r in results for a in r])


def write_model(folder, model, inputs, outputs):
    """The case of a model: arrays for its inputs, and what its outputs must be."""
    data = os.path.join(folder, "test_data_set_0")
    os.makedirs(data)
    with open(os.path.join(folder, "model.onnx"), "wb") as f:
        f.write(model.SerializeToString())
    for what, values in (("input", inputs), ("output", outputs)):
        for i, a in enumerate(values):
            with open(os.path.join(data, f"{what}_{i}.pb"), "wb") as f:
                f.write(numpy_helper.from_array(np.asarray(a)).SerializeToString())
    with open(os.path.join(folder, "case.json"), "w") as f:
        json.dump({"bind": [], "rtol": rtol_of({v.type.tensor_type.elem_type for v in model.graph.output}),
                   "atol": atol_of([np.asarray(a) for a in outputs])}, f)


def run_cases(program, folder):
    """Case name -> why it did not pass."""
    out = os.path.join(folder, "outcome.json")
    subprocess.run([program, folder, "--json", out], check=True, stdout=subprocess.DEVNULL)
    with open(out) as f:
        cases = json.load(f)["cases"]
    return {c["name"]: f"{c['status']}: {c['reason']}" for c in cases if c["status"] != "passed"}


def compare(program, folder, batches):
    """Runs name -> (nodes, results), and the nodes of what does not pass each alone; prints what differs. True if all pass."""
    for name, batch in batches.items():
        write_case(os.path.join(folder, "batches", name), *batch)
    wrong = run_cases(program, os.path.join(folder, "batches"))
    alone = {}
    for name in wrong:
        for k, (node, result) in enumerate(zip(*batches[name])):
            alone[f"{name}-{k:02}"] = node
            write_case(os.path.join(folder, "alone", f"{name}-{k:02}"), [node], [result])
    differing = run_cases(program, os.path.join(folder, "alone")) if alone else {}
    for name in sorted(differing):
        print(f"{name}: {alone[name]}\n    {differing[name]}")
    for name in sorted(wrong):
        if not any(d.startswith(name) for d in differing):
            print(f"{name}: {wrong[name]} (each node passes alone)")
    return not wrong


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("dir")
    parser.add_argument("--conformance", required=True)
    parser.add_argument("--only")
    parser.add_argument("--count", type=int)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--list", action="store_true")
    args = parser.parse_args()
    if args.only and args.only not in GRID:
        sys.exit(f"grid.py: --only takes one of {', '.join(GRID)}, got '{args.only}'")
    shutil.rmtree(args.dir, ignore_errors=True)
    batches, compared = {}, collections.Counter()
    rejected, deviating = collections.Counter(), collections.Counter()
    for op, (draw, count) in GRID.items():
        if args.only and op != args.only:
            continue
        r = random.Random()
        r.more = random.Random(f"{op} {args.seed} sizes")
        nodes, results = [], []
        for i in range(args.count or count):
            r.seed(f"{op} {args.seed} {i // ALIKE}")
            node = draw(r)
            expected, refusal = onnx_runtime(node)
            if refusal:
                rejected[op] += 1
                if args.list:
                    print(f"rejected: {node}: {refusal[:200]}")
            elif reason := deviation(node):
                deviating[reason] += 1
            elif all(e.size for e in expected):
                nodes.append(node)
                results.append(expected)
        compared[op] = len(nodes)
        for i in range(0, len(nodes), BATCH):
            batches[f"{op}-{i // BATCH:03}"] = nodes[i:i + BATCH], results[i:i + BATCH]
    good = compare(args.conformance, args.dir, batches)
    print(f"{sum(compared.values())} nodes compared: " + ", ".join(f"{op} {n}" for op, n in compared.items()))
    print("rejected by ONNX Runtime: " + (", ".join(f"{op} {n}" for op, n in rejected.items()) or "none"))
    for reason, n in deviating.items():
        print(f"left out, {n}: {reason}")
    sys.exit(0 if good else 1)


if __name__ == "__main__":
    main()
