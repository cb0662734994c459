"""Record what a model answers, for check.sh: inputs from a seed, outputs by ONNX Runtime.

    python record.py MODEL.onnx CASES --shape "x=1x3x48x192" [--shape ...]

A shape is given as `mrcc compile --shape` takes it; names that hold = ; , " or a space stand in double quotes.
"""
import argparse
import pathlib
import re

import numpy as np
import onnxruntime

NUMPY = {"float": np.float32, "double": np.float64, "float16": np.float16, "int64": np.int64, "int32": np.int32,
         "uint8": np.uint8, "int8": np.int8, "bool": np.bool_}


def parse(shape):
    """{"x": [1, 3, 48, 192]} from "x=1x3x48x192"."""
    parts = re.findall(r'(?:"((?:[^"\\]|\\.)*)"|([^=;"]+))=([0-9x]+|scalar);?', shape)
    return {re.sub(r"\\(.)", r"\1", q) or plain: [] if dims == "scalar" else [int(d) for d in dims.split("x")]
            for q, plain, dims in parts}


def quoted(name):
    return name if not any(c in name for c in '=;," ') else '"' + name.replace("\\", "\\\\").replace('"', '\\"') + '"'


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("model", type=pathlib.Path)
    parser.add_argument("cases", type=pathlib.Path)
    parser.add_argument("--shape", action="append", required=True)
    options = parser.parse_args()
    session = onnxruntime.InferenceSession(str(options.model), providers=["CPUExecutionProvider"])
    for number, shape in enumerate(options.shape):
        dims = parse(shape)
        random = np.random.default_rng(number)
        feeds = {}
        for tensor in session.get_inputs():
            dtype = NUMPY[re.fullmatch(r"tensor\((.*)\)", tensor.type)[1]]
            values = random.uniform(-1, 1, dims[tensor.name]) if np.issubdtype(dtype, np.floating) else \
                random.integers(0, 2, dims[tensor.name])
            feeds[tensor.name] = values.astype(dtype)
        folder = options.cases / f"case{number}"
        folder.mkdir(parents=True, exist_ok=True)
        lines = []
        for i, (name, array) in enumerate(feeds.items()):
            np.save(folder / f"in{i}.npy", array)
            lines += ["--input", f"{quoted(name)}=in{i}.npy"]
        for i, (tensor, array) in enumerate(zip(session.get_outputs(), session.run(None, feeds))):
            np.save(folder / f"out{i}.npy", array)
            lines += ["--expect", f"{quoted(tensor.name)}=out{i}.npy"]
        (folder / "shape").write_text(shape + "\n")
        (folder / "args").write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
