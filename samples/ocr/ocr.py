"""Find the text on a page: a detection model compiled ahead of time for nine sizes.

    python ocr.py --mrcc build/bin/mrcc --work build/models --out build/demo [--image FILE]

Without --image a sample page is rendered; then all its lines must be found (exit 1 otherwise).
Leaves det.mrcb, page.png and result.png (the page with the boxes drawn) in --out.
"""
import argparse
import pathlib
import shutil
import subprocess
import sys
import time

import numpy as np
from PIL import Image, ImageDraw

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "models"))
import boxes
import inputs
import models

SIZES = models.DETECTOR_SIZES


def fit(image):
    """The image on a canvas of a compiled size, and its scale there.

    Nothing at run time pads or rounds: the application says which compiled size it wants. Here
    that is the smallest that holds the page; a page larger than all of them is scaled down.
    """
    covering = [s for s in SIZES if s[0] >= image.height and s[1] >= image.width]
    height, width = min(covering or SIZES, key=lambda s: s[0] * s[1] if covering else -s[0] * s[1])
    scale = min(1, height / image.height, width / image.width)
    canvas = Image.new("RGB", (width, height), "white")
    canvas.paste(image.resize((round(image.width * scale), round(image.height * scale))) if scale < 1 else image)
    return canvas, scale


def call(mrcc, *arguments):
    """Runs `mrcc ARGUMENTS`; what it prints is shown as it comes, and its failure is ours."""
    if code := subprocess.run([mrcc, *arguments]).returncode:
        raise SystemExit(code)


def detect(mrcc, bundle, canvas, scratch):
    """The probability of text at each pixel of a canvas, by `mrcc run`."""
    np.save(scratch / "x.npy", inputs.detector_tensor(canvas))
    call(mrcc, "run", bundle, "--input", f"x={scratch / 'x.npy'}", "--output-dir", scratch / "out")
    return np.load(next((scratch / "out").glob("0-*.npy")))[0, 0]


def covered(line, found):
    """Whether one of the boxes found covers most of a line."""
    left, top, right, bottom = line
    for box in found:
        (x0, y0), (x1, y1) = box.min(0), box.max(0)
        overlap = max(0, min(right, x1) - max(left, x0)) * max(0, min(bottom, y1) - max(top, y0))
        if overlap > 0.6 * (right - left) * (bottom - top):
            return True
    return False


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--mrcc", default="build/bin/mrcc")
    parser.add_argument("--work", required=True, type=pathlib.Path, help="folder that the model is put into")
    parser.add_argument("--out", required=True, type=pathlib.Path)
    parser.add_argument("--image", type=pathlib.Path, help="a page of your own")
    options = parser.parse_args()
    shutil.rmtree(options.out, ignore_errors=True)
    options.out.mkdir(parents=True)

    model = models.locate("det", options.work)
    bundle = options.out / "det.mrcb"
    sizes = ",".join(f"{h}x{w}" for h, w in SIZES)
    print(f"compiling {model} for {sizes}", flush=True)
    start = time.monotonic()
    call(options.mrcc, "compile", model, "--size", sizes, "-o", bundle)
    print(f"compiled in {time.monotonic() - start:.1f} s", flush=True)

    lines = None
    if options.image:
        page = Image.open(options.image).convert("RGB")
    else:
        page, lines = inputs.page(720, 940, seed=7)
    page.save(options.out / "page.png")
    canvas, scale = fit(page)
    found = [box / scale for box in boxes.find(detect(options.mrcc, bundle, canvas, options.out))]

    draw = ImageDraw.Draw(page)
    for box in found:
        draw.polygon([tuple(p) for p in box], outline=(220, 30, 30), width=2)
    page.save(options.out / "result.png")
    call(options.mrcc, "dump", bundle)
    print(f"found {len(found)} pieces of text at {canvas.height}x{canvas.width}; see {options.out / 'result.png'}")
    if lines is not None:
        missed = [i for i, line in enumerate(lines) if not covered(line, found)]
        print(f"{len(lines) - len(missed)} of the sample page's {len(lines)} lines found")
        raise SystemExit(1 if missed else 0)


if __name__ == "__main__":
    main()
