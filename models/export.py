"""Export the graphs of resnet50 and unet-small to graphs/*.onnx, without their weights.

    python export.py [name ...]

Needs torch, torchvision, diffusers and onnxscript; nothing else in the project does, and CI
does not run this. The committed graphs are its output.

A trained parameter is stored as an initialiser without data whose metadata holds the recipe
that models.py fills it by ("fill": "normal MEAN STD" or "uniform LOW HIGH"). The recipes keep
activations near unit scale from the first layer to the last, so that a wrong layer shows in
the output. Constants that the exporter makes itself (frequency tables, shapes, scalars) stay
as they are.
"""
import argparse
import math
import pathlib

import numpy as np
import onnx
import torch

HERE = pathlib.Path(__file__).resolve().parent


class UNet(torch.nn.Module):
    """The diffusers U-Net with plain positional tensors in and one tensor out."""

    def __init__(self):
        super().__init__()
        from diffusers import UNet2DConditionModel
        self.unet = UNet2DConditionModel(
            sample_size=64, in_channels=4, out_channels=4, layers_per_block=2, block_out_channels=(64, 128, 256),
            down_block_types=("DownBlock2D", "CrossAttnDownBlock2D", "CrossAttnDownBlock2D"),
            up_block_types=("CrossAttnUpBlock2D", "CrossAttnUpBlock2D", "UpBlock2D"),
            cross_attention_dim=256, attention_head_dim=4, norm_num_groups=32)

    def forward(self, sample, timestep, encoder_hidden_states):
        return self.unet(sample, timestep, encoder_hidden_states, return_dict=False)[0]


def resnet50():
    import torchvision
    return torchvision.models.resnet50(weights=None)


# name -> (module, example inputs, multiple that height and width are of)
EXPORTS = {
    "resnet50": (resnet50, {"x": torch.randn(1, 3, 160, 192)}, 1),
    "unet-small": (UNet, {"sample": torch.randn(1, 4, 64, 80), "timestep": torch.tensor([500]),
                          "encoder_hidden_states": torch.randn(1, 77, 256)}, 8),
}


def recipe(name, shape, is_norm):
    """How models.py fills the parameter `name`, as (distribution, a, b)."""
    leaf = name.rsplit(".", 1)[-1]
    if leaf == "running_var":
        return "uniform", 0.8, 1.2
    if leaf in ("running_mean", "bias"):
        return "normal", 0.0, 0.1
    if is_norm:
        # The last norm of a ResNet block feeds the residual sum: kept small, or sixteen sums double the scale each.
        return ("uniform", 0.2, 0.4) if ".bn3." in name else ("uniform", 0.9, 1.1)
    # He for the layers before a ReLU, which drops half of the energy; 1/fan_in for the others.
    return "normal", 0.0, math.sqrt((2.0 if ".conv" in "." + name and "unet" not in name else 1.0) / math.prod(shape[1:]))


def fill(module):
    """Give every parameter distinct values, so that the exporter merges none and each is recognised after it."""
    norms = (torch.nn.BatchNorm2d, torch.nn.GroupNorm, torch.nn.LayerNorm)
    is_norm = {n for n, m in module.named_modules() if isinstance(m, norms)}
    recipes = {}
    with torch.no_grad():
        for name, t in module.state_dict().items():
            if t.is_floating_point():
                kind, a, b = recipes[name] = recipe(name, t.shape, name.rsplit(".", 1)[0] in is_norm)
                t.uniform_(a, b) if kind == "uniform" else t.normal_(a, b)
    return recipes


def strip(model, module, recipes):
    """Replace the parameters' data by recipes and drop what tells of the exporting machine.

    The exporter transposes and reshapes some parameters and renames them: those are found by
    their sorted values. Batch norms it folds into the convolution before them, which keeps its
    name and gets a bias; there the scale of the result is measured.
    """
    values = lambda array: np.sort(array, axis=None).tobytes()
    by_values = {values(t.numpy()): n for n, t in module.state_dict().items() if n in recipes}
    for tensor in model.graph.initializer:
        if tensor.data_type != onnx.TensorProto.FLOAT or math.prod(tensor.dims) < 2:
            continue
        data = onnx.numpy_helper.to_array(tensor)
        if source := by_values.get(values(data)):
            kind, a, b = recipes[source]
        elif tensor.name in recipes or tensor.name.endswith("_bias"):
            kind, a, b = "normal", 0.0, float(data.std())
        elif data.size <= 256:
            continue
        else:
            raise SystemExit(f"initialiser {tensor.name} {list(tensor.dims)} comes from no parameter of the module")
        bare = onnx.TensorProto(name=tensor.name, data_type=tensor.data_type, dims=tensor.dims)
        bare.metadata_props.add(key="fill", value=f"{kind} {a:.6g} {b:.6g}")
        tensor.CopyFrom(bare)
    for thing in [model.graph, *model.graph.node, *model.graph.value_info, *model.graph.input, *model.graph.output]:
        del thing.metadata_props[:]
        thing.doc_string = ""
    del model.metadata_props[:]
    return model


def export(name):
    make, args, multiple = EXPORTS[name]
    torch.manual_seed(0)
    module = make().eval()
    recipes = fill(module)
    first = next(iter(args))
    size = lambda n: torch.export.Dim(n, min=16, max=4096) if multiple == 1 else multiple * torch.export.Dim(n, min=2, max=64)
    shapes = tuple({2: size("h"), 3: size("w")} if n == first else None for n in args)
    path = HERE / "graphs" / f"{name}.onnx"
    with torch.no_grad():
        torch.onnx.export(module, tuple(args.values()), str(path), dynamo=True, opset_version=18, external_data=False,
                          input_names=list(args), output_names=["y"], dynamic_shapes=shapes)
    model = strip(onnx.load(path), module, recipes)
    model.graph.name = name
    onnx.save(model, path)
    print(path, path.stat().st_size, "bytes", len(model.graph.node), "nodes")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", metavar="name", help=", ".join(EXPORTS))
    for n in parser.parse_args().names or EXPORTS:
        export(n)
