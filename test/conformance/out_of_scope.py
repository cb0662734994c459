#!/usr/bin/env python3
"""What is out of scope is refused by name or works: out_of_scope.py DIR --mrcc PROGRAM.

DIR holds cases as `export.py --out-of-scope` writes them. `mrcc compile` gets each model with the shapes of the case's
data. It either ends with exit code 4 and a message that names an op of the model and the node, or the input,
initialiser or output of a type that it lacks, with the reason; or it compiles, and `mrcc run` gives what the case
expects. Anything else (another exit code, a signal, more than 60 s) is an error here.
"""
import argparse
import collections
import os
import re
import subprocess
import sys
import tempfile

import onnx

from export import ATOL, RTOL, nodes_of

sys.path.append(os.path.join(os.path.dirname(__file__), "..", "..", "models"))
from models import quoted

SECONDS = 60
NOT_SUPPORTED = 4


def run(*command):
    """(exit code, stderr); a signal has a negative code, a time-out None."""
    try:
        p = subprocess.run(command, capture_output=True, timeout=SECONDS)
        return p.returncode, p.stderr.decode(errors="replace")
    except subprocess.TimeoutExpired:
        return None, ""


def tensor_inputs(folder, model):
    """(name, file, dims, whether it may hold a shape) of the inputs whose data are tensors."""
    known = {i.name for i in model.graph.initializer}
    for i, value in enumerate(v for v in model.graph.input if v.name not in known):
        path = os.path.join(folder, "test_data_set_0", f"input_{i}.pb")
        if value.type.HasField("tensor_type") and os.path.exists(path):
            with open(path, "rb") as f:
                tensor = onnx.TensorProto.FromString(f.read())
            integers = tensor.data_type in (onnx.TensorProto.INT64, onnx.TensorProto.INT32)
            yield value.name, path, list(tensor.dims), integers and len(tensor.dims) <= 1


def shape_options(inputs):
    """--shape takes no empty tensors: 1 in place of 0, which a model that compiles would show when it is run."""
    if not inputs:
        return []
    return ["--shape", ";".join(f"{quoted(name)}={'x'.join(str(d or 1) for d in dims) or 'scalar'}"
                                for name, _, dims, _ in inputs)]


def named(message, model):
    """Whether a refusal says what it is about."""
    nodes = list(nodes_of(model.graph)) + [n for f in model.functions for n in f.node]
    if any(re.search(rf"\b{re.escape(n.op_type)}\b", message) for n in nodes):
        return bool(re.search(r"'[^']+'", message))
    values = [v.name for v in (*model.graph.input, *model.graph.output, *model.graph.initializer)]
    return any(f"'{v}'" in message for v in values)


def check(mrcc, folder, scratch):
    """("refused" or "works", None), or (None, what is wrong)."""
    model = onnx.load(os.path.join(folder, "model.onnx"))
    inputs = list(tensor_inputs(folder, model))
    bundle = os.path.join(scratch, os.path.basename(folder) + ".mrcb")
    path = os.path.join(folder, "model.onnx")
    code, message = run(mrcc, "compile", path, *shape_options(inputs), "-o", bundle)
    if code == 3 and "depends on data" in message:  # a size that an input holds: with its value it is known
        bound = [i for i in inputs if i[3]]
        inputs = [i for i in inputs if not i[3]]
        code, message = run(mrcc, "compile", path, *shape_options(inputs), "-o", bundle,
                            *(o for name, file, _, _ in bound for o in ("--bind", f"{quoted(name)}={file}")))
    if code == NOT_SUPPORTED:
        return ("refused", None) if named(message, model) else (None, "the refusal names nothing: " + message)
    if code != 0:
        return None, f"compile: exit code {code}: {message.strip()}"
    expected = [os.path.join(folder, "test_data_set_0", f"output_{i}.pb") for i in range(len(model.graph.output))]
    options = [o for name, path, _, _ in inputs for o in ("--input", f"{quoted(name)}={path}")]
    for value, path in zip(model.graph.output, expected):
        options += ["--expect", f"{quoted(value.name)}={path}"]
    code, message = run(mrcc, "run", bundle, *options, "--rtol", str(RTOL), "--atol", str(ATOL))
    return ("works", None) if code == 0 else (None, f"run: exit code {code}: {message.strip()}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("dir")
    parser.add_argument("--mrcc", required=True)
    args = parser.parse_args()
    with open(os.path.join(args.dir, "out-of-scope.tsv")) as f:
        names = [line.split("\t")[0] for line in f]
    counts, wrong = collections.Counter(), 0
    with tempfile.TemporaryDirectory() as scratch:
        for name in names:
            what, problem = check(args.mrcc, os.path.join(args.dir, name), scratch)
            counts[what or "wrong"] += 1
            if problem:
                wrong += 1
                print(f"{name}: {problem}")
    print(f"{len(names)} cases out of scope: " + ", ".join(f"{n} {what}" for what, n in counts.items()))
    sys.exit(1 if wrong or not names else 0)


if __name__ == "__main__":
    main()
