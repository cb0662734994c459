"""Writes Schemas.inc from the PyPI package onnx: python3 lib/Import/schemas.py > lib/Import/Schemas.inc"""

import onnx

ops = {}
for schema in onnx.defs.get_all_schemas_with_history():
    if schema.domain == "":
        op = ops.setdefault(schema.name, {"inputs": 0, "outputs": schema.min_output, "attributes": set()})
        op["inputs"] = max(op["inputs"], schema.max_input)
        op["outputs"] = min(op["outputs"], schema.min_output)
        op["attributes"] |= set(schema.attributes)
print(f"// Made by schemas.py from onnx {onnx.__version__}: the default domain's ops over all opsets.")
print("// OP(name, most inputs, least outputs, its attributes with a space after each)")
for name, op in sorted(ops.items()):
    attributes = "".join(a + " " for a in sorted(op["attributes"]))
    print(f'OP({name}, {op["inputs"]}, {op["outputs"]}, "{attributes}")')
