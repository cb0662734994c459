#!/usr/bin/env python3
"""Write the ONNX project's backend tests as folders: export.py DIR [--all | --out-of-scope] [--if-missing].

    DIR/<test>/model.onnx
    DIR/<test>/test_data_set_<i>/{input,output}_<j>.pb   one TensorProto each, j counts the graph's inputs and outputs
    DIR/<test>/case.json                                 {"bind": names of inputs that become constants, "rtol", "atol"}
    DIR/out-of-scope.tsv                                 test and why it is left out (--all: exported all the same;
                                                         --out-of-scope: only these are)

The onnx package has no data folder for node tests: their generators draw from NumPy's global state, which is seeded
before each module, so that two exports are byte-identical.
"""
import argparse
import collections
import importlib
import json
import os
import pkgutil
import random
import shutil
import warnings

import numpy as np
import onnx
import onnx.backend.test as backend
from onnx import numpy_helper

CONTROL_FLOW = {"If", "Loop", "Scan", "SequenceMap"}
RANDOM = {"RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike", "Multinomial", "Bernoulli"}
STRING = {"StringConcat", "StringSplit", "StringNormalizer", "RegexFullMatch", "TfIdfVectorizer", "LabelEncoder"}
SEQUENCE = {"SequenceAt", "SequenceConstruct", "SequenceEmpty", "SequenceErase", "SequenceInsert", "SequenceLength",
            "SplitToSequence", "ConcatFromSequence", "Optional", "OptionalGetElement", "OptionalHasElement"}
DATA_DEPENDENT = {"NonZero", "Unique", "Compress", "NonMaxSuppression"}

# Operands that hold a shape, axes, pads and the like: a program of one shape needs their value when it is compiled.
SHAPE_OPERANDS = {
    "Reshape": (1,), "Expand": (1,), "Tile": (1,), "ConstantOfShape": (0,), "Resize": (2, 3), "Upsample": (1,),
    "Slice": (1, 2, 3, 4), "Pad": (1, 3), "Split": (1,), "Squeeze": (1,), "Unsqueeze": (1,), "TopK": (1,), "OneHot": (1,),
    "Range": (0, 1, 2), "CenterCropPad": (1,), "CumSum": (1,), "DFT": (1, 2), "STFT": (1, 3), "AffineGrid": (1,),
    "MaxUnpool": (2,), "BlackmanWindow": (0,), "HannWindow": (0,), "HammingWindow": (0,),
    "MelWeightMatrix": (0, 1, 2, 3, 4), "Col2Im": (1, 2),
    **{"Reduce" + k: (1,) for k in ("Sum", "Max", "Min", "Mean", "Prod", "L1", "L2", "LogSum", "LogSumExp", "SumSquare")}}

RTOL, ATOL = 1e-3, 1e-5
# Of results in bf16, whose last place is 2^-8 to 2^-7 of a value. The generators calculate in float32 and round once, a program
# rounds what each op gives: of the 24 cases with a bf16 output 12 differ by 2^-8 or more, 4 by 2^-7 or more, none by 2^-6.
BF16_RTOL = 2 ** -6


def rtol_of(output_types):
    """The relative tolerance of a case with outputs of these types (numbers of TensorProto)."""
    return BF16_RTOL if onnx.TensorProto.BFLOAT16 in output_types else RTOL


def nodes_of(graph):
    for node in graph.node:
        yield node
        for attribute in node.attribute:
            for inner in [attribute.g] if attribute.type == onnx.AttributeProto.GRAPH else attribute.graphs:
                yield from nodes_of(inner)


def out_of_scope(model):
    """Why a model is none that mrcc is for, or None."""
    nodes = list(nodes_of(model.graph))
    ops = {n.op_type for n in nodes}
    for function in model.functions:
        inner = {n.op_type for n in function.node}
        ops |= inner if inner & (CONTROL_FLOW | SEQUENCE | STRING | RANDOM) else set()
    domains = {n.domain for n in nodes} | {o.domain for o in model.opset_import if o.version}
    values = list(model.graph.input) + list(model.graph.output)
    for v in values:
        if not v.type.HasField("tensor_type"):
            return "type:" + v.type.WhichOneof("value").replace("_type", "")
    types = {v.type.tensor_type.elem_type for v in values} | {t.data_type for t in model.graph.initializer}
    training = any(n.op_type == "BatchNormalization" and any(a.name == "training_mode" and a.i == 1 for a in n.attribute)
                   or n.op_type == "Dropout" and len(n.input) > 2 and n.input[2] for n in nodes)
    for reason, found in (
            ("training", "ai.onnx.preview.training" in domains or ops & {"Gradient", "Adam"}),
            ("ai.onnx.ml", "ai.onnx.ml" in {n.domain for n in nodes}),
            ("image decoder", "ImageDecoder" in ops),
            ("string", onnx.TensorProto.STRING in types or ops & STRING),
            ("sequence/optional", ops & SEQUENCE),
            ("control flow", ops & CONTROL_FLOW),
            ("random", ops & RANDOM),
            ("training", training),
            ("data-dependent shape", ops & DATA_DEPENDENT),
            ("complex", types & {onnx.TensorProto.COMPLEX64, onnx.TensorProto.COMPLEX128})):
        if found:
            return reason
    return None


def bound_inputs(model):
    inputs = {i.name for i in model.graph.input} - {i.name for i in model.graph.initializer}
    return sorted({n.input[k] for n in nodes_of(model.graph) for k in SHAPE_OPERANDS.get(n.op_type, ())
                   if k < len(n.input) and n.input[k] in inputs})


def cases():
    """Yields (name, model, folder of data or [(inputs, outputs)])."""
    warnings.simplefilter("ignore")
    import onnx.backend.test.case.node as node_cases
    for module in sorted(pkgutil.iter_modules(node_cases.__path__), key=lambda m: m.name):
        np.random.seed(0)
        random.seed(0)
        importlib.import_module(node_cases.__name__ + "." + module.name)
    from onnx.backend.test.loader import load_model_tests
    for c in sorted(load_model_tests(kind="node"), key=lambda c: c.name):
        yield c.name, c.model, c.data_sets
    data = os.path.join(os.path.dirname(backend.__file__), "data")
    for kind, prefix in (("simple", "test_"), ("pytorch-converted", "test_pt_"), ("pytorch-operator", "test_pto_")):
        for name in sorted(os.listdir(os.path.join(data, kind))):
            folder = os.path.join(data, kind, name)
            if os.path.exists(os.path.join(folder, "model.onnx")):
                yield prefix + name[len("test_"):], onnx.load(os.path.join(folder, "model.onnx")), folder
    light = os.path.join(data, "light")
    for file in sorted(f for f in os.listdir(light) if f.endswith(".onnx")):
        model = onnx.load(os.path.join(light, file))
        known = {i.name for i in model.graph.initializer}
        inputs, outputs = [], []
        for x in (i for i in model.graph.input if i.name not in known):
            shape = [d.dim_value if d.HasField("dim_value") else 1 for d in x.type.tensor_type.shape.dim]
            n = int(np.prod(shape))
            inputs.append((np.arange(n).reshape(shape) / n).astype(np.float32))
        for i in range(len(model.graph.output)):
            with open(os.path.join(light, f"{file[:-5]}_output_{i}.pb"), "rb") as f:
                outputs.append(onnx.TensorProto.FromString(f.read()))
        yield "test_" + file[:-5], model, [(inputs, outputs)]


def to_proto(value, info):
    kind = info.type.WhichOneof("value")
    if isinstance(value, onnx.TensorProto):
        proto = onnx.TensorProto()
        proto.CopyFrom(value)
        proto.name = info.name
        return proto
    make = {"sequence_type": numpy_helper.from_list, "optional_type": numpy_helper.from_optional,
            "map_type": numpy_helper.from_dict}.get(kind)
    return make(value, info.name) if make else numpy_helper.from_array(np.asarray(value), info.name)


def write(path, data):
    with open(path, "wb") as f:
        f.write(data)


def export(folder, everything, only_left_out):
    os.makedirs(folder, exist_ok=True)
    left_out, count = [], 0
    for name, model, sets in cases():
        reason = out_of_scope(model)
        if reason:
            left_out.append((name, reason))
            if not everything and not only_left_out:
                continue
        elif only_left_out:
            continue
        count += 1
        out = os.path.join(folder, name)
        shutil.rmtree(out, ignore_errors=True)
        os.makedirs(out)
        write(os.path.join(out, "model.onnx"), model.SerializeToString(deterministic=True))
        if isinstance(sets, str):
            for d in sorted(os.listdir(sets)):
                if d.startswith("test_data_set_"):
                    shutil.copytree(os.path.join(sets, d), os.path.join(out, d))
        else:
            known = {i.name for i in model.graph.initializer}
            given = [i for i in model.graph.input if i.name not in known]
            for i, (inputs, outputs) in enumerate(sets):
                data = os.path.join(out, f"test_data_set_{i}")
                os.makedirs(data)
                infos = given if len(inputs) == len(given) else list(model.graph.input)
                for what, values, names in (("input", inputs, infos), ("output", outputs, model.graph.output)):
                    for j, v in enumerate(values):
                        write(os.path.join(data, f"{what}_{j}.pb"), to_proto(v, names[j]).SerializeToString())
        rtol = rtol_of({v.type.tensor_type.elem_type for v in model.graph.output})
        write(os.path.join(out, "case.json"),
              json.dumps({"bind": bound_inputs(model), "rtol": rtol, "atol": ATOL}).encode())
    with open(os.path.join(folder, "out-of-scope.tsv"), "w") as f:
        f.writelines("\t".join(row) + "\n" for row in left_out)
    print(f"{count} cases exported; out of scope: {len(left_out)}")
    for reason, n in collections.Counter(r for _, r in left_out).most_common():
        print(f"  {n:5d}  {reason}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("dir")
    parser.add_argument("--all", action="store_true", help="also what is out of scope")
    parser.add_argument("--out-of-scope", action="store_true", help="only what is out of scope")
    parser.add_argument("--if-missing", action="store_true", help="do nothing where this script and onnx exported before")
    args = parser.parse_args()
    with open(__file__) as f:
        stamp = f"{onnx.__version__} {args.all} {args.out_of_scope}\n{f.read()}"
    mark = os.path.join(args.dir, "stamp.txt")
    if args.if_missing and os.path.exists(mark) and open(mark).read() == stamp:
        return
    export(args.dir, args.all, args.out_of_scope)
    with open(mark, "w") as f:
        f.write(stamp)


if __name__ == "__main__":
    main()
