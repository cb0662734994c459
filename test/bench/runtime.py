"""mrcc's runtime library from Python, as far as the benchmark needs it (see runtime/include/mrcc/runtime.h)."""
import ctypes
from ctypes import POINTER, byref, c_char_p, c_int, c_int64, c_size_t, c_uint32, c_uint64, c_void_p

import numpy as np

DTYPES = {1: np.float32, 2: np.float64, 3: np.float16, 5: np.int8, 6: np.int16, 7: np.int32, 8: np.int64,
          9: np.uint8, 10: np.uint16, 11: np.uint32, 12: np.uint64, 13: np.bool_}
NUMBERS = {np.dtype(t): n for n, t in DTYPES.items()}


class Sized(ctypes.Structure):
    """A struct of the interface that starts with its own size."""

    def __init__(self, **fields):
        super().__init__(struct_size=ctypes.sizeof(self), **fields)


class Tensor(Sized):
    _fields_ = [("struct_size", c_size_t), ("name", c_char_p), ("data", c_void_p), ("bytes", c_size_t), ("dtype", c_int),
                ("rank", c_uint32), ("dims", POINTER(c_int64)), ("strides", POINTER(c_int64))]


class TensorInfo(ctypes.Structure):
    _fields_ = [("name", c_char_p), ("dtype", c_int), ("rank", c_uint32), ("dims", POINTER(c_int64)), ("bytes", c_size_t)]


class VariantInfo(Sized):
    _fields_ = [("struct_size", c_size_t), ("key", c_char_p), ("target", c_char_p), ("supported", c_uint32),
                ("num_inputs", c_uint32), ("num_outputs", c_uint32), ("inputs", POINTER(TensorInfo)),
                ("outputs", POINTER(TensorInfo)), ("arena_bytes", c_uint64), ("scratch_bytes", c_uint64),
                ("constant_bytes", c_uint64), ("unique_constant_bytes", c_uint64), ("code_bytes", c_uint64),
                ("unique_code_bytes", c_uint64), ("prepared_bytes", c_uint64), ("flops", c_uint64), ("steps", c_uint32)]


class ContextOptions(Sized):
    _fields_ = [("struct_size", c_size_t), ("threads", c_uint32), ("allocator", c_void_p), ("workspace", c_void_p),
                ("workspace_bytes", c_size_t), ("parallel", c_void_p), ("parallel_user", c_void_p)]


class Library:
    """The shared library, its failures turned into exceptions."""

    def __init__(self, path):
        self.lib = ctypes.CDLL(path)
        self.lib.mrcc_error_message.restype = c_char_p

    def __call__(self, function, *args):
        error = c_void_p()
        if getattr(self.lib, function)(*args, byref(error)):
            message = self.lib.mrcc_error_message(error).decode()
            self.lib.mrcc_error_free(error)
            raise RuntimeError(f"{function}: {message}")


class Call:
    """One variant with its tensors bound; calling it runs it and returns the outputs, the same arrays each time."""

    def __init__(self, library, model, context, feeds):
        self.library, self.context = library, context
        self.arrays = {n: np.ascontiguousarray(a) for n, a in feeds.items()}
        self.dims = []  # what the bound tensors point to
        self.inputs = (Tensor * len(feeds))(*(self.tensor(n.encode(), a) for n, a in self.arrays.items()))
        variant, info = c_uint32(), VariantInfo()
        library("mrcc_model_find", model, self.inputs, c_size_t(len(feeds)), byref(variant))
        library("mrcc_model_variant", model, variant, byref(info))
        outputs = [info.outputs[k] for k in range(info.num_outputs)]
        self.outputs = [np.empty(tuple(o.dims[:o.rank]), DTYPES[o.dtype]) for o in outputs]
        self.bound = (Tensor * len(outputs))(*(self.tensor(None, a) for a in self.outputs))

    def tensor(self, name, array):
        dims = (c_int64 * max(1, array.ndim))(*array.shape)
        self.dims.append(dims)
        return Tensor(name=name, data=array.ctypes.data, bytes=array.nbytes, dtype=NUMBERS[array.dtype], rank=array.ndim,
                      dims=ctypes.cast(dims, POINTER(c_int64)))

    def __call__(self):
        self.library("mrcc_context_run", self.context, self.inputs, c_size_t(len(self.inputs)), self.bound,
                     c_size_t(len(self.bound)))
        return self.outputs


class Model:
    """A bundle opened for calls on `threads` threads."""

    def __init__(self, library, bundle, threads):
        self.library = library
        self.handle, self.context = c_void_p(), c_void_p()
        library("mrcc_set_threads", c_uint32(threads))
        library("mrcc_model_open", str(bundle).encode(), None, byref(self.handle))
        options = ContextOptions(threads=threads)
        library("mrcc_context_create", self.handle, byref(options), byref(self.context))

    def bind(self, feeds):
        return Call(self.library, self.handle, self.context, feeds)
