"""Export networks of full width from torch, compile, run and compare them: torch_zoo.py MRCC --work DIR [name ...]

torch's dynamo exporter writes torchvision's networks and a few of models/export_zoo.py, with weights of one seed; each is
compared with ONNX Runtime at three resolutions. Needs torch, torchvision and onnxscript, as no other test does, and says
how to install them where they are missing. Exit 1 if one fails; a model that does not compile does not stop the others.
"""
import argparse
import functools
import pathlib
import shutil
import sys

from common import Mrcc
from zoo import compare

try:
    import torch  # noqa: F401
    import torchvision.models as vision
    from torch import nn
    from export_zoo import Detr, Edsr, Espcn, Vit, save
except ImportError as error:
    sys.exit(f"{error}; to install what is needed:\n  {sys.executable} -m pip install torch torchvision onnxscript "
             "--extra-index-url https://download.pytorch.org/whl/cpu")


class Deeplab(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = vision.segmentation.deeplabv3_resnet50(weights=None, weights_backbone=None, num_classes=21)

    def forward(self, x):
        return self.net(x)["out"]


def detr():
    layers = list(vision.resnet50(weights=None).children())[:-2]
    return Detr(nn.Sequential(*layers, nn.Conv2d(2048, 256, 1)), width=256, heads=8, layers=6, queries=100, classes=92)


def drawn(make):
    return functools.partial(make, weights=None)


PHOTOS = ((1, 224, 224), (1, 160, 256), (2, 200, 150))
SCENES = ((1, 224, 224), (1, 160, 256), (1, 200, 150))
SMALL = ((1, 64, 64), (1, 90, 120), (2, 50, 77))
ALL = (0, 2, 3)
# name -> (module, height and width of the example, the dimensions that are open, (N, H, W) of each variant)
NETS = {
    "resnet50": (drawn(vision.resnet50), (64, 96), ALL, PHOTOS),
    "mobilenet-v3": (drawn(vision.mobilenet_v3_large), (64, 96), ALL, PHOTOS),
    "efficientnet-b0": (drawn(vision.efficientnet_b0), (64, 96), ALL, PHOTOS),
    "convnext-t": (drawn(vision.convnext_tiny), (64, 96), ALL, PHOTOS),
    "vit-b16": (lambda: Vit(vision.vit_b_16(weights=None)), (96, 128), ALL, PHOTOS),
    "swin-t": (drawn(vision.swin_t), (64, 96), ALL, PHOTOS),
    "deeplab-v3": (Deeplab, (64, 96), (2, 3), SCENES),
    "detr": (detr, (64, 96), ALL, PHOTOS),
    "espcn": (Espcn, (40, 56), ALL, SMALL),
    "edsr": (functools.partial(Edsr, 64, 16), (40, 56), ALL, SMALL),
}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("mrcc", type=pathlib.Path)
    parser.add_argument("names", nargs="*", metavar="name", help=", ".join(NETS))
    parser.add_argument("--work", required=True, type=pathlib.Path, help="folder for the models and the results")
    parser.add_argument("--tolerance", type=float, default=1e-4)
    options = parser.parse_intermixed_args()
    if unknown := [n for n in options.names if n not in NETS]:
        parser.error(f"no such model: {', '.join(unknown)}")
    failures = 0
    for name in options.names or NETS:
        scratch = options.work / "torch" / name
        shutil.rmtree(scratch, ignore_errors=True)
        scratch.mkdir(parents=True)
        make, size, open_dims, sizes = NETS[name]
        path = scratch / "m.onnx"
        try:
            save(path, make, 3, size, open_dims)
            variants = [{"x": (n, 3, h, w)} for n, h, w in sizes]
            failures += compare(Mrcc(options.mrcc), path, name, variants, scratch, options.tolerance)[1]
        except (SystemExit, Exception) as error:  # of the exporter, too, whose errors have no common base
            failures += 1
            print(f"{name}: {error}  FAILED", flush=True)
        shutil.rmtree(scratch)  # hundreds of megabytes
    raise SystemExit(1 if failures else 0)


if __name__ == "__main__":
    main()
