"""Seeded inputs that exercise the models: rendered text for OCR, noise for the others.

    python inputs.py --out DIR [name ...]         writes DIR/NAME-VARIANT-INPUT.npy
"""
import argparse
import pathlib
from functools import lru_cache

import numpy as np
from PIL import Image, ImageDraw, ImageFont

import models

FONTS = pathlib.Path("/usr/share/fonts/truetype/dejavu")  # Debian's fonts-dejavu-core
FACES = ("DejaVuSans.ttf", "DejaVuSans-Bold.ttf", "DejaVuSerif.ttf", "DejaVuSansMono.ttf")
WORDS = ("one model a list of shapes compiled offline every constant is stored once kernels shared between "
         "resolutions the runtime maps bundle and dispatches by exact input Total 1,284.50 EUR Invoice No. 20417 "
         "Paragraph 7 Delivery within 14 days Thank you").split()

# What PaddleOCR subtracts and divides by, in the order of its channels (it reads images as BGR).
DETECTOR_MEAN = np.array([0.485, 0.456, 0.406], np.float32)
DETECTOR_STD = np.array([0.229, 0.224, 0.225], np.float32)


@lru_cache
def font(face, size):
    return ImageFont.truetype(str(FONTS / face), size)


def page(height, width, seed=0):
    """A page of text lines in several faces, sizes and colours; and each line's box (left, top, right, bottom)."""
    rng = np.random.default_rng(seed)
    image = Image.new("RGB", (width, height), tuple(int(c) for c in rng.integers(225, 256, 3)))
    draw = ImageDraw.Draw(image)
    boxes = []
    y = 16
    while True:
        size = int(rng.integers(16, 34))
        if y + size + 8 > height:
            return image, boxes
        face = font(FACES[rng.integers(len(FACES))], size)
        x = int(rng.integers(10, max(11, width // 6)))
        room = int(rng.integers(width // 2, width - 10)) - x
        text = ""
        while True:
            longer = (text + " " + WORDS[rng.integers(len(WORDS))]).strip()
            if draw.textlength(longer, face) > room:
                break
            text = longer
        if text:
            draw.text((x, y), text, fill=tuple(int(c) for c in rng.integers(0, 110, 3)), font=face)
            boxes.append(draw.textbbox((x, y), text, font=face))
        y += int(size * rng.uniform(1.5, 2.2))


def line(height, width, seed=0):
    """One text line that fills a strip of the given height, at most `width` wide."""
    rng = np.random.default_rng(seed)
    face = font(FACES[rng.integers(len(FACES))], int(height * 0.68))
    image = Image.new("RGB", (width, height), tuple(int(c) for c in rng.integers(215, 256, 3)))
    draw = ImageDraw.Draw(image)
    text = WORDS[rng.integers(len(WORDS))]
    while draw.textlength(longer := text + " " + WORDS[rng.integers(len(WORDS))], face) < width - 12:
        text = longer
    draw.text((6, height // 2), text, fill=tuple(int(c) for c in rng.integers(0, 100, 3)), font=face, anchor="lm")
    return image


def bgr(image):
    return np.asarray(image.convert("RGB"), np.float32)[:, :, ::-1] / 255


def detector_tensor(image):
    """An image as PP-OCR's detector takes it: 1x3xHxW."""
    return np.ascontiguousarray(((bgr(image) - DETECTOR_MEAN) / DETECTOR_STD).transpose(2, 0, 1)[None])


def line_tensor(image):
    """An image of a line as PP-OCR's classifier and recogniser take it: 1x3xHxW in [-1, 1]."""
    return np.ascontiguousarray((bgr(image) * 2 - 1).transpose(2, 0, 1)[None])


def clouds(rng, dims):
    """Noise at three scales: white noise alone averages out, so that a classifier with random weights hardly sees it."""
    n, c, h, w = dims
    x = np.zeros(dims, np.float32)
    for step in (1, 8, 64):
        coarse = rng.standard_normal((n, c, -(-h // step), -(-w // step)), np.float32)
        x += coarse.repeat(step, 2).repeat(step, 3)[:, :, :h, :w]
    return x


def draw(name, variant, seed):
    """The inputs of a model, by name, with the dims that `variant` gives them."""
    if name in ("det", "det-v6"):
        return {"x": detector_tensor(page(*variant["x"][2:], seed=seed)[0])}
    if name in ("cls", "rec"):
        n, _, h, w = variant["x"]
        strips = [line(h, w, seed=100 * seed + i) for i in range(n)]
        if name == "cls":  # every second one upside down, which is what it tells
            strips = [s.rotate(180) if i % 2 else s for i, s in enumerate(strips)]
        return {"x": np.concatenate([line_tensor(s) for s in strips])}
    rng = np.random.default_rng(seed)
    if name == "resnet50":
        return {"x": clouds(rng, variant["x"])}
    return {n: np.full(dims, 500, np.int64) if n == "timestep" else rng.standard_normal(dims, np.float32)
            for n, dims in variant.items()}


def feeds(name, index):
    """The inputs of a model's variant, by name."""
    return draw(name, models.MODELS[name].variants[index], index)


def label(name, index):
    """A short name for a model's variant: the dims of its first input."""
    return "x".join(map(str, next(iter(models.MODELS[name].variants[index].values()))))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", required=True, type=pathlib.Path)
    parser.add_argument("names", nargs="*", metavar="name", help=", ".join(models.MODELS))
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    for model in options.names or models.MODELS:
        for i in range(len(models.MODELS[model].variants)):
            for n, array in feeds(model, i).items():
                np.save(options.out / f"{model}-{label(model, i)}-{n}.npy", array)
