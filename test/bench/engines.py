"""The engines that bench.py compares, behind one interface.

An engine lives in a process of its own (see worker): its constructor loads the library, `load(job)`
the model at the job's variants, and `call(index)` runs one variant on its seeded input.
"""
import json
import pathlib
import resource
import sys
import time

import numpy as np

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "models"))
import inputs
import models


def fixed(path, variant):
    """The model's bytes with its input dims set to a variant's."""
    import onnx
    model = onnx.load(path)
    for value in model.graph.input:
        for dim, extent in zip(value.type.tensor_type.shape.dim, variant.get(value.name, ())):
            dim.Clear()
            dim.dim_value = extent
    return model.SerializeToString()


class OrtDynamic:
    """One ONNX Runtime session for all shapes."""

    def __init__(self):
        import onnxruntime
        self.ort = onnxruntime

    def load(self, job):
        self.feeds = {i: inputs.feeds(job["model"], i) for i in job["variants"]}
        session = self.session(str(job["path"]), job["threads"])
        self.sessions = dict.fromkeys(job["variants"], session)

    def session(self, model, threads):
        options = self.ort.SessionOptions()
        options.intra_op_num_threads = threads
        options.inter_op_num_threads = 1
        options.log_severity_level = 3
        return self.ort.InferenceSession(model, options, providers=["CPUExecutionProvider"])

    def call(self, index):
        return self.sessions[index].run(None, self.feeds[index])


class OrtStatic(OrtDynamic):
    """An ONNX Runtime session per variant, its input dims fixed."""

    def load(self, job):
        variants = models.MODELS[job["model"]].variants
        self.feeds = {i: inputs.feeds(job["model"], i) for i in job["variants"]}
        self.sessions = {i: self.session(fixed(job["path"], variants[i]), job["threads"]) for i in job["variants"]}


class OpenVinoDynamic:
    """One OpenVINO model for all shapes."""

    def __init__(self):
        import openvino
        self.core = openvino.Core()

    def load(self, job):
        self.options = {"INFERENCE_PRECISION_HINT": "f32", "INFERENCE_NUM_THREADS": job["threads"], "NUM_STREAMS": 1,
                        "PERFORMANCE_HINT": "LATENCY"}
        self.feeds = {i: inputs.feeds(job["model"], i) for i in job["variants"]}
        self.requests = self.compiled(job)

    def compiled(self, job):
        request = self.core.compile_model(str(job["path"]), "CPU", self.options).create_infer_request()
        return dict.fromkeys(job["variants"], request)

    def call(self, index):
        results = self.requests[index].infer(self.feeds[index], share_inputs=True, share_outputs=True)
        return [results[k] for k in range(len(results))]


class OpenVinoStatic(OpenVinoDynamic):
    """An OpenVINO model per variant."""

    def compiled(self, job):
        model = self.core.read_model(str(job["path"]))
        requests = {}
        for i in job["variants"]:
            model.reshape(models.MODELS[job["model"]].variants[i])
            requests[i] = self.core.compile_model(model, "CPU", self.options).create_infer_request()
        return requests


class Mrcc:
    """mrcc's runtime on a bundle of all variants."""

    def __init__(self):
        import runtime
        self.runtime = runtime

    def load(self, job):
        model = self.runtime.Model(self.runtime.Library(job["library"]), job["bundle"], job["threads"])
        self.calls = {i: model.bind(inputs.feeds(job["model"], i)) for i in job["variants"]}

    def call(self, index):
        return self.calls[index]()


ENGINES = {"mrcc": Mrcc, "ort-dynamic": OrtDynamic, "ort-static": OrtStatic, "openvino-dynamic": OpenVinoDynamic,
           "openvino-static": OpenVinoStatic}


def resident():
    """(resident bytes now, the most there ever were) of this process."""
    pages = int(pathlib.Path("/proc/self/statm").read_text().split()[1])
    return pages * resource.getpagesize(), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def worker(engine):
    """Serves requests, one JSON line each, until the input ends: load, then run."""
    reply, sys.stdout = sys.stdout, sys.stderr
    engine, loaded = ENGINES[engine](), None
    for line in sys.stdin:
        request = json.loads(line)
        if request["do"] == "load":
            loaded = request
            before = resident()[0]
            start = time.perf_counter()
            engine.load(request)
            answer = {"seconds": time.perf_counter() - start}
        elif request["do"] == "output":
            outputs = engine.call(request["variant"])
            np.savez(request["file"], *outputs)
            answer = {}
        elif request["do"] == "memory":
            answer = {"growth": resident()[0] - before, "peak_growth": resident()[1] - before}
        else:
            times = []
            for _ in range(request["calls"]):
                start = time.perf_counter()
                engine.call(request["variant"])
                times.append(time.perf_counter() - start)
            answer = {"times": times}
        print(json.dumps(answer), file=reply, flush=True)


if __name__ == "__main__":
    worker(sys.argv[1])
