"""Reference outputs by ONNX Runtime on the CPU, checked not to be constant.

    python reference.py --work DIR [name ...]     writes DIR/reference/NAME-VARIANT-INDEX.npy, prints a table
"""
import argparse
import pathlib

import numpy as np
import onnxruntime

import inputs
import models


def session(path, threads=0):
    """A session for any input shape. 0 threads: as many as there are cores.

    Without the layout optimisations of the highest level: their mean over 120x160 pixels is one long chain of roundings,
    1.2e-4 off, which makes the text detector's map differ from the float64 result by 1.3e-4 at 480x640 where this level is at 3e-5.
    """
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_EXTENDED
    options.intra_op_num_threads = threads
    options.log_severity_level = 3
    return onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])


def constant(outputs):
    """Indices of the outputs that are constant, not finite or vanishing."""
    return [i for i, y in enumerate(outputs)
            if y.dtype.kind == "f" and not (np.isfinite(y).all() and y.std() > 1e-4 and np.ptp(y) > 1e-3)]


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--work", required=True, type=pathlib.Path)
    parser.add_argument("names", nargs="*", metavar="name", help=", ".join(models.MODELS))
    options = parser.parse_args()
    (options.work / "reference").mkdir(parents=True, exist_ok=True)
    bad = False
    for name in options.names or models.MODELS:
        ort = session(models.locate(name, options.work))
        for i in range(len(models.MODELS[name].variants)):
            outputs = ort.run(None, inputs.feeds(name, i))
            wrong = constant(outputs)
            bad |= bool(wrong)
            for k, y in enumerate(outputs):
                np.save(options.work / "reference" / f"{name}-{inputs.label(name, i)}-{k}.npy", y)
                print(f"{name:12}{inputs.label(name, i):16} output {k} {'x'.join(map(str, y.shape)):16}"
                      f" min {y.min():9.4f} max {y.max():9.4f} std {y.std():8.4f}{'  CONSTANT' if k in wrong else ''}")
    raise SystemExit(bad)
