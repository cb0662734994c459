"""Export small networks of many architectures to graphs/zoo/*.onnx, without their weights.

    python export_zoo.py [name ...]

Needs torch, torchvision and onnxscript; nothing else in the project does, and CI does not run this. The committed
graphs are its output, test/models/zoo.py reads them.

The architectures are those that people have, in fewer and narrower layers. Larger initialisers are stored without data:
models.py fills them by the recipe in their metadata, from the distribution that the module's own parameters had.
"""
import argparse
import functools
import math
import pathlib

import onnx
import torch
import torchvision.models as vision
from torch import nn
from torch.nn import functional as F

HERE = pathlib.Path(__file__).resolve().parent / "graphs" / "zoo"


class Vit(nn.Module):
    """torchvision's ViT at any size: its position embedding is resized to the grid of patches."""

    def __init__(self, vit):
        super().__init__()
        self.vit = vit

    def forward(self, x):
        patches = self.vit.conv_proj(x)
        position = self.vit.encoder.pos_embedding
        side = self.vit.image_size // self.vit.patch_size
        grid = position[:, 1:].transpose(1, 2).reshape(1, -1, side, side)
        grid = F.interpolate(grid, size=patches.shape[2:], mode="bicubic", align_corners=False).flatten(2).transpose(1, 2)
        tokens = torch.cat([self.vit.class_token.expand(x.shape[0], -1, -1), patches.flatten(2).transpose(1, 2)], 1)
        tokens = self.vit.encoder.layers(tokens + torch.cat([position[:, :1], grid], 1))
        return self.vit.heads(self.vit.encoder.ln(tokens)[:, 0])


class Deeplab(nn.Module):
    def __init__(self):
        super().__init__()
        features = vision.mobilenet_v3_small(weights=None, dilated=True).features
        self.features = features[:9]
        self.head = vision.segmentation.deeplabv3.DeepLabHead(48, 7, atrous_rates=(2, 4, 6))

    def forward(self, x):
        y = self.head(self.features(x))
        return F.interpolate(y, size=x.shape[2:], mode="bilinear", align_corners=False)


class Detr(nn.Module):
    """Convolutions, an encoder and a decoder with learned queries, classes and boxes."""

    def __init__(self, backbone, width=64, heads=4, layers=2, queries=20, classes=11):
        super().__init__()
        self.backbone = backbone
        self.transformer = nn.Transformer(width, heads, layers, layers, 2 * width, batch_first=True)
        self.rows, self.columns = (nn.Parameter(torch.rand(50, width // 2)) for _ in range(2))
        self.queries = nn.Parameter(torch.rand(queries, width))
        self.classes = nn.Linear(width, classes)
        self.boxes = nn.Sequential(nn.Linear(width, width), nn.ReLU(), nn.Linear(width, 4))

    def forward(self, x):
        features = self.backbone(x)
        n, _, h, w = features.shape
        position = torch.cat([self.columns[:w].unsqueeze(0).expand(h, -1, -1),
                              self.rows[:h].unsqueeze(1).expand(-1, w, -1)], -1).flatten(0, 1).unsqueeze(0)
        y = self.transformer(features.flatten(2).transpose(1, 2) + position, self.queries.expand(n, -1, -1))
        return self.classes(y), self.boxes(y).sigmoid()


class Espcn(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Conv2d(3, 48, 5, padding=2), nn.Tanh(), nn.Conv2d(48, 24, 3, padding=1), nn.Tanh(),
                                 nn.Conv2d(24, 27, 3, padding=1), nn.PixelShuffle(3))

    def forward(self, x):
        return self.net(x)


class Edsr(nn.Module):
    def __init__(self, width=32, blocks=3):
        super().__init__()
        conv = lambda a, b: nn.Conv2d(a, b, 3, padding=1)
        self.head, self.tail = conv(3, width), conv(width, 3)
        self.blocks = nn.ModuleList(nn.Sequential(conv(width, width), nn.ReLU(), conv(width, width)) for _ in range(blocks))
        self.up = nn.Sequential(conv(width, 4 * width), nn.PixelShuffle(2))

    def forward(self, x):
        y = head = self.head(x)
        for block in self.blocks:
            y = y + 0.1 * block(y)
        return self.tail(self.up(y + head)) + F.interpolate(x, scale_factor=2, mode="bicubic", align_corners=False)


class Crnn(nn.Module):
    """Convolutions, then a two-way LSTM and a GRU over the columns, whose number follows from the width."""

    def __init__(self, classes=40):
        super().__init__()
        self.features = nn.Sequential(nn.Conv2d(1, 16, 3, 2, 1), nn.ReLU(), nn.Conv2d(16, 32, 3, 2, 1), nn.ReLU(),
                                      nn.Conv2d(32, 48, (8, 3), (8, 2), (0, 1)))
        self.lstm = nn.LSTM(48, 32, bidirectional=True)
        self.gru = nn.GRU(64, 24)
        self.classes = nn.Linear(24, classes)

    def forward(self, x):
        columns = self.features(x).squeeze(2).permute(2, 0, 1)
        return self.classes(self.gru(self.lstm(columns)[0])[0]).log_softmax(-1)


def vit():
    return Vit(vision.VisionTransformer(image_size=64, patch_size=16, num_layers=3, num_heads=4, hidden_dim=96, mlp_dim=192,
                                        num_classes=50))


def detr():
    return Detr(nn.Sequential(nn.Conv2d(3, 32, 7, 4, 3), nn.BatchNorm2d(32), nn.ReLU(),
                              nn.Conv2d(32, 64, 3, 2, 1), nn.BatchNorm2d(64), nn.ReLU(), nn.Conv2d(64, 64, 3, 2, 1)))


def convnext():
    block = vision.convnext.CNBlockConfig
    return vision.ConvNeXt([block(32, 64, 2), block(64, 96, 2), block(96, None, 2)], num_classes=50, layer_scale=1.0)


def efficientnet():
    block = vision.efficientnet.MBConvConfig
    part = functools.partial(block, width_mult=1.0, depth_mult=1.0)
    return vision.EfficientNet([part(1, 3, 1, 16, 16, 1), part(6, 3, 2, 16, 24, 2), part(6, 5, 2, 24, 40, 2)], 0.2,
                               num_classes=50)


def swin():
    return vision.SwinTransformer(patch_size=[4, 4], embed_dim=32, depths=[2, 2], num_heads=[2, 4], window_size=[7, 7],
                                  num_classes=50)


# name -> (module, channels, height and width of the example, the dimensions that are open)
EXPORTS = {
    "mobilenet-v3": (lambda: vision.mobilenet_v3_small(weights=None, num_classes=50), 3, (64, 96), (0, 2, 3)),
    "efficientnet": (efficientnet, 3, (64, 96), (0, 2, 3)),
    "convnext": (convnext, 3, (64, 96), (0, 2, 3)),
    "vit": (vit, 3, (64, 96), (0, 2, 3)),
    "swin": (swin, 3, (64, 96), (0, 2, 3)),
    "deeplab": (Deeplab, 3, (64, 96), (2, 3)),
    "detr": (detr, 3, (64, 96), (0, 2, 3)),
    "espcn": (Espcn, 3, (40, 56), (0, 2, 3)),
    "edsr": (Edsr, 3, (40, 56), (0, 2, 3)),
    "crnn": (Crnn, 1, (32, 96), (3,)),
}


def spread(module):
    """Running statistics and classifiers as training leaves them: not 0 and 1, or the output says little."""
    with torch.no_grad():
        for m in module.modules():
            if isinstance(m, nn.BatchNorm2d):
                m.running_mean.normal_(0, 0.1)
                m.running_var.uniform_(0.7, 1.3)
        if isinstance(module, Vit):
            module.vit.heads.head.weight.normal_(0, 0.1)
    return module


def strip(model):
    """Replace data by recipes; drop what tells of the exporting machine."""
    for tensor in model.graph.initializer:
        if tensor.data_type != onnx.TensorProto.FLOAT or math.prod(tensor.dims) < 65:
            continue
        data = onnx.numpy_helper.to_array(tensor)
        low, high = data.min(), data.max()
        fill = f"uniform {low:.6g} {high:.6g}" if low > 0 else f"normal {data.mean():.6g} {data.std():.6g}"
        bare = onnx.TensorProto(name=tensor.name, data_type=tensor.data_type, dims=tensor.dims)
        bare.metadata_props.add(key="fill", value=fill)
        tensor.CopyFrom(bare)
    for thing in [model.graph, *model.graph.node, *model.graph.value_info, *model.graph.input, *model.graph.output]:
        del thing.metadata_props[:]
        thing.doc_string = ""
    del model.metadata_props[:], model.graph.value_info[:], model.functions[:]
    return model


def save(path, make, channels, size, open_dims):
    """Writes the ONNX file of a module, with weights drawn from one seed."""
    torch.manual_seed(0)
    module = spread(make().eval())
    x = torch.randn(2 if 0 in open_dims else 1, channels, *size)
    path.parent.mkdir(parents=True, exist_ok=True)
    with torch.no_grad():
        torch.onnx.export(module, (x,), str(path), dynamo=True, external_data=False, input_names=["x"], verbose=False,
                          dynamic_shapes=({d: torch.export.Dim.DYNAMIC for d in open_dims},))


def export(name):
    path = HERE / f"{name}.onnx"
    save(path, *EXPORTS[name])
    model = strip(onnx.load(path))
    model.graph.name = name
    onnx.save(model, path)
    print(path, path.stat().st_size, "bytes", len(model.graph.node), "nodes")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", metavar="name", help=", ".join(EXPORTS))
    for n in parser.parse_args().names or EXPORTS:
        export(n)
