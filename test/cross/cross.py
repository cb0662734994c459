"""Bundles for AArch64 under an emulator: cross.py MRCC RUNNER --emulator qemu-aarch64 --work DIR --cases DIR

RUNNER is mrcc-cross-run built for AArch64. Five models at one small size are compared with ONNX Runtime (max |a - b| /
max |b|, limit 1e-4), and every 12th of the ONNX project's node tests in passing.txt with its data. Exit 1 on failure.
"""
import argparse
import json
import pathlib
import shutil
import subprocess
import sys

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, numpy_helper

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "test" / "conformance"), str(ROOT / "test" / "models"), str(ROOT / "models")]
import inputs
import models
from common import Mrcc
from compare import difference
from float64 import SIZES
from out_of_scope import shape_options, tensor_inputs

TARGET = "cpu:aarch64"
LIMIT = 1e-4
EVERY = 12
PACKED = {TensorProto.INT4, TensorProto.UINT4, TensorProto.FLOAT4E2M1, TensorProto.INT2, TensorProto.UINT2}


class Runner:
    """Compiles for AArch64 and runs what comes out, in a scratch folder."""

    def __init__(self, mrcc, command, scratch):
        self.mrcc, self.command, self.scratch = Mrcc(mrcc), command, scratch

    def __call__(self, model, options, feeds, expected):
        """The outputs for `feeds`, as arrays of the types and shapes of `expected`."""
        shutil.rmtree(self.scratch, ignore_errors=True)
        self.scratch.mkdir(parents=True)
        bundle = self.scratch / "model.mrcb"
        self.mrcc("compile", "--quiet", model, *options, "--target", TARGET, "-o", bundle)
        for i, array in enumerate(feeds):
            (self.scratch / f"in{i}").write_bytes(array.tobytes())
        done = subprocess.run([*self.command, bundle, self.scratch], capture_output=True, text=True)
        if done.returncode:
            raise SystemExit(f"{' '.join(map(str, self.command))}: exit code {done.returncode}: {done.stderr}")
        raw = [(self.scratch / f"out{i}").read_bytes() for i in range(len(expected))]
        return [np.frombuffer(r, e.dtype).reshape(e.shape) for r, e in zip(raw, expected)]


def check_model(runner, name, work):
    size, path = SIZES[name], models.locate(name, work)
    feeds = inputs.draw(name, size, 1)
    expected = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"]).run(None, feeds)
    shape = ";".join(f"{models.quoted(k)}={'x'.join(map(str, dims))}" for k, dims in size.items())
    got = runner(path, ["--shape", shape], feeds.values(), expected)
    errors = [difference(g, e) for g, e in zip(got, expected)]
    return [] if all(isinstance(e, float) and e < LIMIT for e in errors) else [f"{name}: {errors}"]


def load(path):
    return onnx.TensorProto.FromString(pathlib.Path(path).read_bytes())


def check_case(runner, folder):
    """Problems of a node test, or None where a tensor is packed, which NumPy's are not, or empty, which no --shape is."""
    model, case = onnx.load(folder / "model.onnx"), json.loads((folder / "case.json").read_text())
    values = list(tensor_inputs(folder, model))
    outputs = [load(folder / "test_data_set_0" / f"output_{i}.pb") for i in range(len(model.graph.output))]
    tensors = [load(v[1]) for v in values]
    if PACKED & {t.data_type for t in tensors + outputs} or any(0 in t.dims for t in tensors):
        return None
    expected = [numpy_helper.to_array(t) for t in outputs]

    def got(bound):
        fed = [v for v in values if v[0] not in bound]
        binds = [o for v in values if v[0] in bound for o in ("--bind", f"{models.quoted(v[0])}={v[1]}")]
        return runner(folder / "model.onnx", [*shape_options(fed), *binds],
                      [numpy_helper.to_array(load(v[1])) for v in fed], expected)

    try:
        results = got(case["bind"])
    except SystemExit:  # an operand that the list of shape operands lacks
        results = got([v[0] for v in values if v[3]])
    problems = []
    for i, (g, e) in enumerate(zip(results, expected)):
        if e.dtype.kind in "iub":
            good = np.array_equal(g, e)
        else:
            wide = np.complex128 if e.dtype.kind == "c" else np.float64
            good = np.allclose(g.astype(wide), e.astype(wide), case["rtol"], case["atol"], equal_nan=True)
        if not good:
            problems.append(f"{folder.name}: output {i} differs")
    return problems


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("mrcc", type=pathlib.Path)
    parser.add_argument("runner", type=pathlib.Path)
    parser.add_argument("--emulator", required=True)
    parser.add_argument("--work", required=True, type=pathlib.Path, help="folder with the models")
    parser.add_argument("--cases", required=True, type=pathlib.Path, help="folder with the node tests")
    options = parser.parse_args()
    runner = Runner(options.mrcc, [options.emulator, options.runner], options.work / "cross")
    problems = []
    for name in SIZES:
        problems += check_model(runner, name, options.work)
    lines = (ROOT / "test" / "conformance" / "passing.txt").read_text().splitlines()
    names = [line for line in lines if not line.startswith("#")][::EVERY]
    results = [check_case(runner, options.cases / name) for name in names]
    compared = [r for r in results if r is not None]
    problems += [p for r in compared for p in r]
    print(*problems, f"{len(SIZES)} models and {len(compared)} of {len(names)} node tests compared", sep="\n")
    return bool(problems) or not compared


if __name__ == "__main__":
    sys.exit(main())
