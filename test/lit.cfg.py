import os
import sys
import lit.formats

config.name = "mrcc"
config.test_format = lit.formats.ShTest()          # lit's internal shell is the default from LLVM 22 on
config.suffixes = [".mlir", ".pbtxt", ".test"]
config.excludes = ["Inputs"]
config.test_source_root = os.path.dirname(__file__)
config.test_exec_root = os.path.join(config.mrcc_bin, "..", "test")
config.environment["PATH"] = os.pathsep.join([config.mrcc_bin, config.llvm_bin, config.environment["PATH"]])
# %encode: the test file, an ONNX model as text, as bytes on stdout
config.substitutions.append(("%encode", f"{config.protoc} --proto_path={os.path.dirname(config.onnx_proto)} "
                             f"--encode=onnx.ModelProto {os.path.basename(config.onnx_proto)} < %s"))
# %model-bytes, %tensor-bytes: an ONNX model or tensor as text on stdin, as bytes on stdout
# %exits N COMMAND: COMMAND, which must exit with N
# %damage PATTERN OFFSET: flips a byte of a file
for name, message in (("%model-bytes", "ModelProto"), ("%tensor-bytes", "TensorProto")):
    config.substitutions.append((name, f"{config.protoc} --proto_path={os.path.dirname(config.onnx_proto)} "
                                 f"--encode=onnx.{message} {os.path.basename(config.onnx_proto)}"))
if os.path.exists("/dev/full"):
    config.available_features.add("dev-full")
for script in "exits", "damage":
    config.substitutions.append((f"%{script}", f"{sys.executable} {config.test_source_root}/cli/{script}.py"))
