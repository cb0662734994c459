#!/usr/bin/env python3
"""Write small models for the fuzzer to start from: seeds.py CASES OUT.

CASES is what test/conformance/export.py wrote. Of the models up to 2 kB there is one for each combination of ops,
attributes and element types, and a second one where the inputs are initialisers with the case's data, so that it
folds."""
import pathlib
import sys

import onnx

MOST = 2048


def kind(model):
    return (tuple((n.op_type, tuple(sorted(a.name for a in n.attribute))) for n in model.graph.node),
            tuple(i.type.tensor_type.elem_type for i in model.graph.input))


def bound(model, data):
    """The model with its inputs as initialisers, or None where the data are not small."""
    result = onnx.ModelProto.FromString(model.SerializeToString())
    for i, value in enumerate(model.graph.input):
        tensor = onnx.TensorProto.FromString((data / f"input_{i}.pb").read_bytes())
        tensor.name = value.name
        result.graph.initializer.append(tensor)
    return result if result.ByteSize() <= MOST else None


def main():
    cases, out = map(pathlib.Path, sys.argv[1:])
    out.mkdir(parents=True, exist_ok=True)
    seen = set()
    for file in sorted(cases.glob("*/model.onnx")):
        if file.stat().st_size > MOST:
            continue
        model = onnx.load(file)
        if kind(model) in seen:
            continue
        seen.add(kind(model))
        (out / file.parent.name).write_bytes(file.read_bytes())
        data = file.parent / "test_data_set_0"
        if len(list(data.glob("input_*.pb"))) == len(model.graph.input) and (constant := bound(model, data)):
            (out / f"{file.parent.name}-bound").write_bytes(constant.SerializeToString())


if __name__ == "__main__":
    main()
