#!/usr/bin/env python3
"""Broken models, each with all that `mrcc compile` says and its exit code: broken.py MRCC FOLDER [NAME...].

FOLDER is made anew for the models. A case is a function: its name says the fault, it returns the model (a message or
bytes), the exit code, the message behind "mrcc: error: " ({path} stands for the file, {folder} for its folder), and
options. With names only those cases run."""
import pathlib
import shutil
import subprocess
import sys

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper
from onnx.helper import make_node as node

F32, I64 = TensorProto.FLOAT, TensorProto.INT64
USAGE, INVALID, UNSUPPORTED = 2, 3, 4
CASES = {}


def case(function):
    CASES[function.__name__.replace("_", "-")] = function
    return function


def tensor(name, values, dtype=np.float32):
    return numpy_helper.from_array(np.array(values, dtype), name)


def value(name, dims, dtype=F32):
    return helper.make_tensor_value_info(name, dtype, dims)


def model(*nodes, inputs=None, outputs=("y",), constants=(), opset=17, functions=(), opsets=()):
    """Node n of (1, 2, 4, 4) f32 x to y, unless said otherwise."""
    inputs = [value("x", (1, 2, 4, 4))] if inputs is None else inputs
    graph = helper.make_graph(list(nodes), "g", inputs, [helper.make_empty_tensor_value_info(o) for o in outputs],
                              list(constants))
    imports = [helper.make_opsetid("", opset), *opsets]
    return helper.make_model(graph, opset_imports=imports, functions=list(functions), ir_version=10)


def relu(**changes):
    return model(node("Relu", ["x"], ["y"], name="n"), **changes)


def conv(weights=(2, 2, 3, 3), **attributes):
    return model(node("Conv", ["x", "w"], ["y"], name="n", **attributes),
                 constants=[tensor("w", np.zeros(weights))])


# Files


@case
def empty_file():
    return b"", INVALID, "the file is empty"


@case
def text_file():
    return b"hello, world\n", INVALID, "this is not an ONNX model, or the file is cut or damaged"


@case
def another_format():
    return b"\x89PNG\r\n\x1a\n" + bytes(64), INVALID, "this is not an ONNX model, or the file is cut or damaged"


@case
def cut_in_the_weights():
    return conv().SerializeToString()[:120], INVALID, "this is not an ONNX model, or the file is cut or damaged"


@case
def cut_after_the_graph():
    broken = relu()
    broken.ClearField("opset_import")
    return broken, INVALID, "the model imports no opset; the file is cut or damaged"


@case
def only_a_tensor():
    return tensor("t", [1, 2, 3]).SerializeToString(), INVALID, "this is not an ONNX model, or the file is cut or damaged"


@case
def no_graph():
    broken = relu()
    broken.ClearField("graph")
    return broken, INVALID, "this is not an ONNX model: it has no graph"


# Opsets and ops


@case
def opset_of_the_future():
    return relu(opset=999), UNSUPPORTED, "the model uses opset 999, the newest that is known here is 28"


@case
def opset_zero():
    return relu(opset=0), INVALID, "the model uses opset 0, expected 1 to 28"


@case
def two_opsets_of_one_domain():
    return (relu(opsets=[helper.make_opsetid("ai.onnx", 18)]), INVALID,
            "domain 'ai.onnx' is imported with opset 17 and with 18")


@case
def unknown_op():
    return (model(node("Frobnicate", ["x"], ["y"], name="n")), UNSUPPORTED,
            "1 node is not supported:\n    Frobnicate (opset 17), 1 node: 'n'")


@case
def unknown_domain():
    return (model(node("Relu", ["x"], ["y"], name="n", domain="com.example"),
                  opsets=[helper.make_opsetid("com.example", 3)]), UNSUPPORTED,
            "1 node is not supported:\n    com.example::Relu (opset 3), 1 node: 'n'")


# Names


@case
def dangling_input():
    return (model(node("Relu", ["z"], ["y"], name="n")), INVALID,
            "node 'n' (Relu): its input 'z' is made by no node, initialiser or input")


@case
def dangling_output():
    return relu(outputs=["z"]), INVALID, "output 'z' is made by no node, initialiser or input"


@case
def no_outputs():
    return relu(outputs=[]), INVALID, "the graph has no outputs"


@case
def cycle():
    return (model(node("Add", ["x", "b"], ["a"], name="m"), node("Relu", ["a"], ["b"], name="n"), outputs=["b"]),
            INVALID, "the graph has a cycle: 2 nodes are in it or wait for it, the first is 'm'")


@case
def value_made_twice():
    return (model(node("Relu", ["x"], ["y"], name="m"), node("Abs", ["x"], ["y"], name="n")), INVALID,
            "value 'y' is produced twice: by node 'm' and by node 'n'")


@case
def value_named_like_an_input():
    return (model(node("Relu", ["x"], ["x"], name="n"), outputs=["x"]), INVALID,
            "value 'x' of node 'n' has the name of an input or initialiser")


@case
def input_twice():
    return relu(inputs=[value("x", (1,)), value("x", (2,))]), INVALID, "input 'x' is there twice"


@case
def initialiser_twice():
    return (relu(constants=[tensor("w", [1]), tensor("w", [2])]), INVALID, "initialiser 'w' is there twice")


# Operands and attributes


@case
def operand_missing():
    return model(node("Add", ["x"], ["y"], name="n")), INVALID, "node 'n' (Add): input 1 is missing"


@case
def operand_left_empty():
    return model(node("Add", ["", "x"], ["y"], name="n")), INVALID, "node 'n' (Add): input 0 is missing"


@case
def too_many_operands():
    return (model(node("Relu", ["x", "x"], ["y"], name="n")), INVALID,
            "node 'n' (Relu): it has 2 inputs, the op has at most 1")


@case
def node_without_output():
    return (model(node("Relu", ["x"], ["y"], name="m"), node("Relu", ["x"], [], name="n")), INVALID,
            "node 'n' (Relu): it has no output")


@case
def attribute_of_wrong_type():
    return (model(node("Softmax", ["x"], ["y"], name="n", axis="last")), INVALID,
            "node 'n' (Softmax): attribute 'axis' is not an integer")


@case
def attribute_missing():
    return (model(node("Concat", ["x", "x"], ["y"], name="n")), INVALID,
            "node 'n' (Concat): attribute 'axis' is missing")


@case
def attribute_twice():
    broken = model(node("Softmax", ["x"], ["y"], name="n", axis=1))
    broken.graph.node[0].attribute.append(helper.make_attribute("axis", 2))
    return broken, INVALID, "node 'n' (Softmax): attribute 'axis' is there twice"


@case
def axis_out_of_range():
    return (model(node("Softmax", ["x"], ["y"], name="n", axis=4)), INVALID,
            "node 'n' (Softmax): axis 4 is outside a tensor of rank 4")


@case
def permutation_of_other_rank():
    return (model(node("Transpose", ["x"], ["y"], name="n", perm=[0, 2, 1])), INVALID,
            "node 'n' (Transpose): perm is not a permutation of 4 dimensions")


@case
def rank_too_low():
    return (model(node("Conv", ["x", "w"], ["y"], name="n"), inputs=[value("x", (4, 4))],
                  constants=[tensor("w", np.zeros((2, 2, 3, 3)))]), INVALID,
            "node 'n' (Conv): its data have rank 2, at least 3 is needed")


@case
def mixed_types():
    return (model(node("Add", ["x", "w"], ["y"], name="n"), constants=[tensor("w", [1], np.int64)]), INVALID,
            "node 'n' (Add): expected operands of one element type, got 'f32' and 'i64'")


def of_other_type(op, operands, types, *constants, **attributes):
    """A node of x whose operands have two types; `constants` are (name, values, type)."""
    return (model(node(op, ["x", *operands], ["y"], name="n", **attributes), constants=[tensor(*c) for c in constants], opset=24),
            INVALID, f"node 'n' ({op}): expected operands of one element type, got 'f32' and '{types}'")


WHERE = ("i", [[[[0]]]], np.int64)
CASES.update({f"{name}-of-other-type": lambda arguments=arguments: of_other_type(*arguments) for name, arguments in {
    "weights": ("Conv", ["w"], "f64", ("w", np.ones((2, 2, 3, 3)), np.float64)),
    "bias": ("Conv", ["w", "b"], "i64", ("w", np.ones((2, 2, 3, 3))), ("b", [1, 1], np.int64)),
    "transposed-weights": ("ConvTranspose", ["w"], "f16", ("w", np.ones((2, 2, 3, 3)), np.float16)),
    "padding": ("Pad", ["p", "v"], "i64", ("p", [0] * 8, np.int64), ("v", 1, np.int64)),
    "scattered-elements": ("ScatterElements", ["i", "u"], "i64", WHERE, ("u", [[[[1]]]], np.int64)),
    "scattered-slices": ("ScatterND", ["i", "u"], "f64", ("i", [[0, 0, 0, 0]], np.int64), ("u", [1], np.float64)),
}.items()})


@case
def floats_as_indices():
    return (model(node("Gather", ["x", "w"], ["y"], name="n"), constants=[tensor("w", [1])]), INVALID,
            "node 'n' (Gather): expected integer indices, got f32")


@case
def index_out_of_range():
    return (model(node("Gather", ["x", "w"], ["y"], name="n", axis=1), constants=[tensor("w", [2], np.int64)]), INVALID,
            "node 'n' (Gather): index 2 is out of range, axis 1 has 2 elements")


# Shapes


@case
def shapes_that_do_not_broadcast():
    return (model(node("Add", ["x", "w"], ["y"], name="n"), constants=[tensor("w", np.zeros((1, 3, 1, 1)))]), INVALID,
            "node 'n' (Add): expected shapes that broadcast, got 1x2x4x4 and 1x3x1x1: dimension 1 is 2 and 3; one operand is a "
            "constant, frozen for another size")


@case
def group_that_does_not_divide():
    return (conv(weights=(3, 1, 3, 3), group=2), INVALID,
            "node 'n' (Conv): expected output channels that 2 groups divide, got 3")


@case
def channels_that_differ():
    return (conv(weights=(2, 3, 3, 3)), INVALID,
            "node 'n' (Conv): its data have 2 channels, its weights are for 3")


@case
def kernel_larger_than_image():
    return (conv(weights=(2, 2, 5, 5)), INVALID,
            "node 'n' (Conv): expected an output of at least 1, got spatial dimension 0 of size 4 with pads 0 and 0 and a "
            "window of 5")


@case
def stride_zero():
    return conv(strides=[0, 1]), INVALID, "node 'n' (Conv): strides is 0, expected 1 to 2147483647"


@case
def reshape_that_does_not_fit():
    return (model(node("Reshape", ["x", "s"], ["y"], name="n"), constants=[tensor("s", [3, -1], np.int64)]), INVALID,
            "node 'n' (Reshape): expected a shape of 32 elements for 1x2x4x4, got 3x-1 (it is a constant, frozen for another "
            "size)")


@case
def concat_of_other_sizes():
    return (model(node("Concat", ["x", "w"], ["y"], name="n", axis=1), constants=[tensor("w", np.zeros((1, 2, 4, 5)))]),
            INVALID, "node 'n' (Concat): expected equal dimensions but along axis 1, got 1x2x4x4 and 1x2x4x5 (operand 1): "
            "dimension 3 is 4 and 5 (it is a constant, frozen for another size)")


@case
def inner_dimensions_that_differ():
    return (model(node("MatMul", ["x", "w"], ["y"], name="n"), constants=[tensor("w", np.zeros((5, 4)))]), INVALID,
            "node 'n' (MatMul): expected equal inner dimensions, got 1x2x4x4 and 5x4: 4 and 5")


@case
def split_that_does_not_add_up():
    return (model(node("Split", ["x", "s"], ["y", "z"], name="n", axis=2), constants=[tensor("s", [1, 2], np.int64)]),
            INVALID, "node 'n' (Split): expected sizes that sum to 4 along axis 2, got 3 (it is a constant, frozen for another size)")


@case
def slice_step_zero():
    return (model(node("Slice", ["x", "s", "e", "a", "t"], ["y"], name="n"),
                  constants=[tensor(n, [v], np.int64) for n, v in (("s", 0), ("e", 2), ("a", 2), ("t", 0))]), INVALID,
            "node 'n' (Slice): expected steps other than 0")


@case
def negative_size():
    return (model(node("Expand", ["x", "s"], ["y"], name="n"), constants=[tensor("s", [-3], np.int64)]), INVALID,
            "node 'n' (Expand): expected entries of shape of at least 0, got -3")


@case
def division_by_zero_in_a_shape():
    return (model(node("Div", ["a", "b"], ["s"], name="d"), node("ConstantOfShape", ["s"], ["z"], name="n"),
                  node("Add", ["x", "z"], ["y"]), constants=[tensor("a", [32], np.int64), tensor("b", [0], np.int64)]), INVALID,
            "shape x=1x2x4x4: node 'd': division of integers by zero")


@case
def more_elements_than_possible():
    return (model(node("Tile", ["x", "s"], ["y"], name="n"), constants=[tensor("s", [1 << 40, 1 << 40, 1, 1], np.int64)]),
            INVALID, "node 'n' (Tile): its result of 1099511627776x2199023255552x4x4 is too large")


@case
def group_beyond_any_tensor():
    return (conv(group=1 << 62), INVALID, "node 'n' (Conv): a size of 2 times 4611686018427387904 is too large")


FAR, FARTHEST = 1 << 62, (1 << 63) - 1


@case
def channels_last_group_beyond_any_tensor():
    return (model(node("NhwcConv", ["x", "w"], ["y"], name="n", domain="com.microsoft", group=FAR),
                  constants=[tensor("w", np.zeros((2, 2, 3, 3)))], opsets=[helper.make_opsetid("com.microsoft", 1)]), INVALID,
            "node 'n' (NhwcConv): expected 1152921504606846976 input channels, got 4")


@case
def tiles_beyond_any_tensor():
    return (model(node("Tile", ["x", "s"], ["y"], name="n"), constants=[tensor("s", [1, 1, 1, FAR], np.int64)]), INVALID,
            "node 'n' (Tile): dimension 4 times 4611686018427387904 is too large")


@case
def parts_beyond_any_tensor():
    return (model(node("Split", ["x", "s"], ["a", "b", "y"], name="n", axis=2),
                  constants=[tensor("s", [FAR, FAR, 4], np.int64)]), INVALID,
            "node 'n' (Split): expected sizes that sum to 4 along axis 2, got 1152921504606846976 (it is a constant, frozen for another "
            "size)")


@case
def pads_beyond_any_tensor():
    return (model(node("Pad", ["x", "p"], ["y"], name="n"), constants=[tensor("p", [0, 0, 0, FARTHEST] * 2, np.int64)]),
            INVALID, "node 'n' (Pad): cannot pad dimension 3 of size 4 by 9223372036854775807 and 9223372036854775807")


@case
def window_beyond_any_tensor():
    return (model(node("MaxPool", ["x"], ["y"], name="n", kernel_shape=[(1 << 31) - 1] * 2, dilations=[(1 << 31) - 1] * 2)),
            INVALID, "node 'n' (MaxPool): expected an output of at least 1, got spatial dimension 0 of size 4 with pads 0 and 0 and a "
            "window of 1152921504606846976")


@case
def output_padding_beyond_any_tensor():
    return (model(node("ConvTranspose", ["x", "w"], ["y"], name="n", output_padding=[FARTHEST, 0]),
                  constants=[tensor("w", np.zeros((2, 2, 3, 3)))]), INVALID,
            "node 'n' (ConvTranspose): its result of 1x1152921504606846976x6x2 is too large")


@case
def output_shape_beyond_any_tensor():
    return (model(node("ConvTranspose", ["x", "w"], ["y"], name="n", output_shape=[-FARTHEST, FARTHEST]),
                  constants=[tensor("w", np.zeros((2, 2, 3, 3)))]), INVALID,
            "node 'n' (ConvTranspose): expected an output of at least 1, got spatial dimension 0 of size 4 with pads "
            "576460752303423491 and 576460752303423491 and a window of 3")


@case
def channels_of_blocks_beyond_any_tensor():
    return (model(node("SpaceToDepth", ["x"], ["y"], name="n", blocksize=32767), inputs=[value("x", (1, 1 << 40, "h", "w"))]),
            INVALID, "node 'n' (SpaceToDepth): its result of 1x1099511627776x?x32767x?x32767 is too large", "--size", "4x4,8x8")


@case
def unpooled_image_beyond_any_tensor():
    return (model(node("MaxUnpool", ["x", "i"], ["y"], name="n", kernel_shape=[1, 1], strides=[(1 << 31) - 1] * 2),
                  inputs=[value("x", (1, 2, 4, 4)), value("i", (1, 2, 4, 4), I64)]), INVALID,
            "node 'n' (MaxUnpool): a size of 12884901884 times 6442450942 is too large")


@case
def input_beyond_any_tensor():
    return relu(inputs=[value("x", (1 << 40, 1 << 40))]), INVALID, "input 'x' of 1099511627776x1099511627776 is too large"


@case
def samples_of_a_region_beyond_any_tensor():
    regions = [tensor("r", np.zeros((1, 4))), tensor("b", [0], np.int64)]
    return (model(node("RoiAlign", ["x", "r", "b"], ["y"], name="n", output_height=1 << 40, sampling_ratio=1), constants=regions),
            INVALID, "node 'n' (RoiAlign): rank 4, output 1099511627776x1, 1 samples, mode 'avg'")


@case
def norm_of_no_power():
    return (model(node("LpPool", ["x"], ["y"], name="n", kernel_shape=[2, 2], p=0)), INVALID, "node 'n' (LpPool): p is 0")


@case
def global_norm_of_negative_power():
    return model(node("GlobalLpPool", ["x"], ["y"], name="n", p=-1)), INVALID, "node 'n' (GlobalLpPool): p is -1"


@case
def window_of_negative_length():
    return (model(node("HannWindow", ["n"], ["y"], name="n"), constants=[tensor("n", -1, np.int64)]), INVALID,
            "node 'n' (HannWindow): size is -1")


@case
def frames_that_step_back():
    return (model(node("STFT", ["x", "s", "w"], ["y"], name="n"), inputs=[value("x", (1, 128, 1))],
                  constants=[tensor("s", -2, np.int64), tensor("w", np.ones(16))]), INVALID, "node 'n' (STFT): frame_step is -2")


def columns(rows, block, image=(4, 4)):
    return model(node("Col2Im", ["x", "i", "b"], ["y"], name="n"), inputs=[value("x", (1, rows, 4))], opset=18,
                 constants=[tensor("i", image, np.int64), tensor("b", block, np.int64)])


@case
def image_of_negative_size():
    return columns(4, (2, 2), (4, -4)), INVALID, "node 'n' (Col2Im): block 2x2 of an image of 4x-4"


@case
def block_beyond_any_tensor():
    return columns(4, (1 << 40, 1 << 40)), INVALID, "node 'n' (Col2Im): a size of 1099511627776 times 1099511627776 is too large"


@case
def block_of_too_many_elements():
    return (columns(4097, (4097, 1)), UNSUPPORTED, "1 node is not supported:\n    Col2Im (opset 18), 1 node: 'n': 4097 rows with "
            "blocks of 4097 elements")


@case
def rows_that_are_no_blocks():
    return columns(6, (2, 2)), INVALID, "node 'n' (Col2Im): 6 rows are not a multiple of the block's 4 elements"


@case
def columns_of_too_many_blocks():
    return (columns(1 << 16, (64, 64)), UNSUPPORTED, "1 node is not supported:\n    Col2Im (opset 18), 1 node: 'n': 65536 rows with "
            "blocks of 4096 elements")


def deformed(kernel, channels=2, **attributes):
    return model(node("DeformConv", ["x", "w", "o"], ["y"], name="n", **attributes), opset=19,
                 inputs=[value("x", (1, 2, 4, 4)), value("o", (1, 18, 4, 4))],
                 constants=[tensor("w", np.zeros((2, channels, *kernel)))])


@case
def deformed_window_of_too_many_places():
    return deformed((65, 64)), INVALID, "node 'n' (DeformConv): 4160 places a window, 2 channels, offset_group 1"


@case
def deformed_channels_that_do_not_divide():
    return deformed((3, 3), offset_group=3), INVALID, "node 'n' (DeformConv): 9 places a window, 2 channels, offset_group 3"


@case
def deformed_group_beyond_any_tensor():
    return deformed((3, 3), group=FAR), INVALID, "node 'n' (DeformConv): weights of 2x2x3x3, group 4611686018427387904, offset_group 1"


@case
def axis_of_a_scalar():
    return (model(node("Tile", ["x", "t", "a"], ["y"], name="n"), inputs=[value("x", ())], opset=5,
                  constants=[tensor("t", 2, np.int64), tensor("a", 0, np.int64)]), INVALID,
            "node 'n' (Tile): axis 0 is outside a tensor of rank 0")


@case
def tiles_that_are_no_number():
    return (model(node("Tile", ["x", "t", "a"], ["y"], name="n"), opset=5, constants=[tensor("t", np.nan), tensor("a", 1)]), INVALID,
            "node 'n' (Tile): nan tiles along axis 1.00")


@case
def matrix_of_16_gb():
    numbers = [tensor(n, v, np.int64 if i < 3 else np.float32) for i, (n, v) in enumerate(
        (("bands", 65536), ("length", 131070), ("rate", 16000), ("low", 0), ("high", 8000)))]
    return (model(node("MelWeightMatrix", [t.name for t in numbers], ["y"], name="n"), constants=numbers), INVALID,
            "node 'n' (MelWeightMatrix): 65536.00 bands, 131070.00 samples at 16000.00 Hz, edges at 0.00 and 8000.00 Hz")


@case
def blocks_of_no_elements():
    return (model(node("Col2Im", ["x", "i", "b"], ["y"], name="n"), inputs=[value("x", (1, 4, 4))], opset=18,
                  constants=[tensor("i", [4, 4], np.int64), tensor("b", [-2, -2], np.int64)]), INVALID,
            "node 'n' (Col2Im): block -2x-2 of an image of 4x4")


def frozen():
    """A Reshape whose target was frozen when the model was exported for 224x224."""
    return model(node("Reshape", ["x", "s"], ["y"], name="flatten"), inputs=[value("x", (1, 3, "h", "w"))],
                 constants=[tensor("s", [1, 3 * 224 * 224], np.int64)])


@case
def shape_that_a_constant_does_not_fit():
    return (frozen(), INVALID,
            "shape x=1x3x200x150: node 'flatten': expected a shape of 90000 elements for 1x3x200x150, got 1x150528 (it is a "
            "constant, frozen for another size)", "--size", "200x150")


def skip():
    return model(node("MaxPool", ["x"], ["p"], name="pool", kernel_shape=[2, 2], strides=[2, 2]),
                 node("Resize", ["p", "", "twice"], ["r"], name="resize"), node("Concat", ["x", "r"], ["y"], name="skip", axis=1),
                 inputs=[value("x", (1, 2, "h", "w"))], constants=[tensor("twice", [1, 1, 2, 2])])


@case
def skip_connection_of_odd_size():
    return (skip(), INVALID,
            "shape x=1x2x5x7: node 'skip': expected equal dimensions but along axis 1, got 1x2x5x7 and 1x2x4x6 (operand 1): "
            "dimension 2 is 5 and 4", "--size", "5x7")


@case
def symbol_of_two_values():
    return (model(node("Concat", ["x", "z"], ["y"], name="n", axis=0), inputs=[value("x", ("a", "n")), value("z", ("b", "n"))]),
            USAGE, "--shape 'x=1x2;z=1x3': dimension 'n' is given two values: 2 (dimension 1 of input 'x') and 3 (dimension 1 "
            "of input 'z')", "--shape", "x=1x2;z=1x3")


@case
def resize_beyond_any_table():
    return (model(node("Resize", ["x", "roi", "", "sizes"], ["y"], name="n", mode="linear",
                       coordinate_transformation_mode="tf_crop_and_resize"), inputs=[value("x", (1, 1, 4, 4))],
                  constants=[tensor("roi", [0, 0, 0.4, 0.6, 1, 1, 0.6, 0.8]), tensor("sizes", [1, 1, 3 + 2**41, 3], np.int64)]),
            UNSUPPORTED, "shape x=1x1x4x4: node 'n': 'mrc.resize' op has no kernel for these types and attributes")


DEPENDS = "the size of its result depends on the values of "


def data_dependent(op, *operands, reason, outputs=("y",), **attributes):
    """A node of a 1x2x4x4 input x and of `operands`, inputs of (name, dims, type), whose result's size data decide."""
    return (model(node(op, ["x", *(o[0] for o in operands)], [*outputs], name="n", **attributes),
                  inputs=[value("x", (1, 2, 4, 4)), *(value(*o) for o in operands)], outputs=outputs), UNSUPPORTED,
            f"1 node is not supported:\n    {op} (opset 17), 1 node: 'n': {DEPENDS}{reason}")


@case
def places_that_data_decide():
    return data_dependent("NonZero", reason="its data (input 0), expected a constant")


@case
def elements_that_data_choose():
    return data_dependent("Compress", ("c", (4,), TensorProto.BOOL), axis=3,
                          reason="its condition (input 1), expected a constant; it follows from 'c', which --bind makes constant")


@case
def number_of_largest_that_data_decide():
    return data_dependent("TopK", ("k", (1,), I64), outputs=("y", "i"),
                          reason="k (input 1), expected a constant; it follows from 'k', which --bind makes constant")


@case
def values_that_are_unique():
    return data_dependent("Unique", reason="its inputs, expected one that follows from shapes")


@case
def boxes_that_data_choose():
    boxes = model(node("NonMaxSuppression", ["x", "s"], ["y"], name="n"), inputs=[value("x", (1, 9, 4)), value("s", (1, 1, 9))])
    return (boxes, UNSUPPORTED, "1 node is not supported:\n    NonMaxSuppression (opset 17), 1 node: 'n': "
            f"{DEPENDS}its inputs, expected one that follows from shapes")


@case
def condition_of_rank_2():
    return (model(node("Compress", ["x", "c"], ["y"], name="n"), constants=[tensor("c", [[True]], bool)]), INVALID,
            "node 'n' (Compress): its condition has rank 2, not 1")


@case
def condition_longer_than_the_axis():
    return (model(node("Compress", ["x", "c"], ["y"], name="n", axis=1), constants=[tensor("c", [True] * 3, bool)]), INVALID,
            "node 'n' (Compress): index 2 is out of range, axis 1 has 2 elements")


@case
def unknown_ops_in_a_branch_too():
    return (model(node("Frobnicate", ["x"], ["a"], name="first"), node("Twiddle", ["a"], ["b"], name="second"),
                  node("If", ["c"], ["y"], name="if", then_branch=branch("Gargle", ["b"], ["t"], "third"),
                       else_branch=branch("Frobnicate", ["b"], ["e"], "fourth")),
                  inputs=[value("x", (4,)), value("c", (), TensorProto.BOOL)]), UNSUPPORTED,
            "5 nodes are not supported:\n    Frobnicate (opset 17), 2 nodes: 'first', 'if/fourth'\n    Twiddle (opset 17), 1 "
            "node: 'second'\n    Gargle (opset 17), 1 node: 'if/third'\n    If (opset 17), 1 node: 'if': its condition is not a "
            "constant; it follows from 'c', which --bind makes constant")


# Tensors


@case
def raw_data_too_short():
    broken = conv()
    broken.graph.initializer[0].raw_data = b"1234567"
    return broken, INVALID, "tensor 'w' holds 7 bytes, 2x2x3x3 of float needs 144"


@case
def tensor_with_negative_dimension():
    broken = conv()
    broken.graph.initializer[0].dims[1] = -2
    return broken, INVALID, "tensor 'w' has impossible dims 2x-2x3x3"


@case
def tensor_of_more_elements_than_possible():
    broken = conv()
    broken.graph.initializer[0].dims[:] = [1 << 62, 8]
    return broken, INVALID, "tensor 'w' has impossible dims 4611686018427387904x8"


@case
def tensor_without_a_type():
    broken = conv()
    broken.graph.initializer[0].data_type = 0
    return broken, INVALID, "tensor 'w' has no element type"


@case
def tensor_of_strings():
    broken = conv()
    broken.graph.initializer[0].CopyFrom(helper.make_tensor("w", TensorProto.STRING, [1], [b"a"]))
    return broken, UNSUPPORTED, "1 node is not supported:\n    initialiser, 1 node: 'w': element type string"


@case
def input_of_complex_numbers():
    return relu(inputs=[value("x", (1,), TensorProto.COMPLEX64)]), UNSUPPORTED, "input 'x' is a tensor of complex64"


@case
def input_that_is_a_sequence():
    return (relu(inputs=[helper.make_tensor_sequence_value_info("x", F32, None)]), UNSUPPORTED,
            "input 'x' is a sequence, only tensors are supported")


@case
def sparse_index_out_of_range():
    broken = relu()
    sparse = broken.graph.sparse_initializer.add(dims=[2, 2])
    sparse.values.CopyFrom(tensor("w", [1]))
    sparse.indices.CopyFrom(tensor("", [4], np.int64))
    return broken, INVALID, "sparse tensor 'w': index 4 is outside 0 to 3"


def external(**entries):
    broken = conv()
    weights = broken.graph.initializer[0]
    weights.ClearField("raw_data")
    weights.data_location = TensorProto.EXTERNAL
    for key, text in entries.items():
        weights.external_data.add(key=key, value=text)
    return broken


@case
def external_data_missing():
    return (external(location="weights.bin"), INVALID,
            "tensor 'w': external data file {folder}/weights.bin: No such file or directory")


@case
def external_data_elsewhere():
    return (external(location="../weights.bin"), INVALID,
            "tensor 'w': external data location '../weights.bin' is refused: it must be relative and without '..'")


@case
def external_data_absolute():
    return (external(location="/etc/passwd"), INVALID,
            "tensor 'w': external data location '/etc/passwd' is refused: it must be relative and without '..'")


@case
def external_data_beyond_the_end():
    return (external(location="data.bin", offset="100"), INVALID,
            "tensor 'w': bytes 100 to 244 lie outside the external data file 'data.bin' of 200 bytes")


# Subgraphs and functions


def branch(op, inputs, outputs, name):
    return helper.make_graph([node(op, inputs, outputs, name=name)], "branch", [],
                             [helper.make_empty_tensor_value_info(o) for o in outputs])


def choice(condition, then_name="x", **inputs):
    return model(node("If", ["c"], ["y"], name="n", then_branch=branch("Relu", [then_name], ["a"], "t"),
                      else_branch=branch("Abs", ["x"], ["b"], "e")), constants=condition, **inputs)


@case
def name_that_a_subgraph_lacks():
    return (choice([tensor("c", True, bool)], then_name="z"), INVALID,
            "node 'n/t' (Relu): its input 'z' is made by no node, initialiser or input")


@case
def branch_missing():
    broken = choice([tensor("c", True, bool)])
    del broken.graph.node[0].attribute[0]
    return broken, INVALID, "node 'n' (If): attribute 'else_branch' is missing"


@case
def condition_that_data_decide():
    return (choice([], inputs=[value("x", (1, 2)), value("c", (), TensorProto.BOOL)]), UNSUPPORTED,
            "1 node is not supported:\n    If (opset 17), 1 node: 'n': its condition is not a constant; it follows from 'c', "
            "which --bind makes constant")


def loop(turns, inputs=("i", "c", "v"), outputs=("c", "w")):
    body = helper.make_graph([node("Relu", ["v"], ["w"], name="b")], "body",
                             [helper.make_empty_tensor_value_info(i) for i in inputs],
                             [helper.make_empty_tensor_value_info(o) for o in outputs])
    return model(node("Loop", ["m", "", "x"], ["y"], name="n", body=body), constants=[tensor("m", turns, np.int64)])


@case
def loop_body_with_too_few_inputs():
    return loop(2, inputs=("i", "v")), INVALID, "node 'n' (Loop): 1 carried values, its body takes 0 and gives 2"


@case
def loop_of_too_many_turns():
    return loop(1 << 40), UNSUPPORTED, "1 node is not supported:\n    Loop (opset 17), 1 node: 'n': more than 4096 turns"


def function(*nodes, name="F"):
    return helper.make_function("my", name, ["a"], ["b"], list(nodes), [helper.make_opsetid("", 17),
                                                                      helper.make_opsetid("my", 1)])


@case
def function_that_calls_itself():
    return (model(node("F", ["x"], ["y"], name="n", domain="my"), opsets=[helper.make_opsetid("my", 1)],
                  functions=[function(node("F", ["a"], ["b"], name="f", domain="my"))]), INVALID,
            "node 'n" + "/f" * 64 + "': functions and subgraphs are nested deeper than 64")


@case
def function_without_its_result():
    return (model(node("F", ["x"], ["y"], name="n", domain="my"), opsets=[helper.make_opsetid("my", 1)],
                  functions=[function(node("Relu", ["a"], ["c"], name="f"))]), INVALID,
            "function F: output 'b' is made by no node or input")


def main():
    mrcc, folder, names = pathlib.Path(sys.argv[1]).resolve(), pathlib.Path(sys.argv[2]).resolve(), sys.argv[3:]
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    (folder / "data.bin").write_bytes(bytes(200))
    wrong = 0
    for name in names or CASES:
        broken, code, message, *options = CASES[name]()
        path = folder / f"{name}.onnx"
        path.write_bytes(broken if isinstance(broken, bytes) else broken.SerializeToString())
        output = folder / f"{name}.mrcb"
        run = subprocess.run([mrcc, "compile", "--quiet", path, "-o", output, *options], capture_output=True, text=True, timeout=60)
        of_file = "" if message.startswith(("shape ", "--")) else "{path}: "
        expected = f"mrcc: error: {of_file}{message}\n".replace("{folder}", str(folder)).replace("{path}", str(path))
        if run.returncode != code or run.stderr != expected or run.stdout or output.exists():
            wrong += 1
            print(f"{name}: expected exit {code} and\n  {expected}got exit {run.returncode} and\n  {run.stderr}{run.stdout}")
    print(f"{len(names or CASES) - wrong} of {len(names or CASES)} broken models are refused as expected")
    return bool(wrong)


if __name__ == "__main__":
    sys.exit(main())
