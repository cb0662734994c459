import os
import lit.formats

config.name = "mrcc"
config.test_format = lit.formats.ShTest()          # lit's internal shell is the default from LLVM 22 on
config.suffixes = [".mlir", ".pbtxt"]
config.test_source_root = os.path.dirname(__file__)
config.test_exec_root = os.path.join(config.mrcc_bin, "..", "test")
config.environment["PATH"] = os.pathsep.join([config.mrcc_bin, config.llvm_bin, config.environment["PATH"]])
# %encode: the test file, an ONNX model as text, as bytes on stdout
config.substitutions.append(("%encode", f"{config.protoc} --proto_path={os.path.dirname(config.onnx_proto)} "
                             f"--encode=onnx.ModelProto {os.path.basename(config.onnx_proto)} < %s"))
