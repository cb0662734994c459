"""From a text detector's probability map to boxes: threshold, connected components, rectangles, growth.

The post-processing of differentiable binarisation (DB): the network is trained on shrunken text
regions, so each rectangle found is grown by area * ratio / perimeter on every side.
"""
import numpy as np


def components(mask):
    """The 8-connected regions of a boolean image, each as the (x, y) ends of its horizontal runs.

    A union-find over runs, row by row: linear in the number of runs.
    """
    edges = np.diff(np.pad(mask, ((0, 0), (1, 1))).astype(np.int8), axis=1)
    rows, starts = np.nonzero(edges == 1)
    ends = np.nonzero(edges == -1)[1] - 1  # row-major like the starts: the k-th end belongs to the k-th start
    parent = list(range(len(rows)))

    def root(k):
        while parent[k] != k:
            parent[k] = parent[parent[k]]
            k = parent[k]
        return k

    first = np.searchsorted(rows, np.arange(mask.shape[0] + 1))
    for y in range(1, mask.shape[0]):
        above, here = first[y - 1], first[y]
        while above < first[y] and here < first[y + 1]:
            if starts[above] <= ends[here] + 1 and starts[here] <= ends[above] + 1:
                parent[root(here)] = root(above)
            if ends[above] < ends[here]:
                above += 1
            else:
                here += 1
    regions = {}
    for k in range(len(rows)):
        regions.setdefault(root(k), []).append(k)
    return [np.concatenate([np.stack([x[k], rows[k]], 1) for x in (starts, ends)]) for k in regions.values()]


def hull(points):
    """The convex hull of integer points, counter-clockwise (monotone chain)."""
    points = [tuple(p) for p in np.unique(points, axis=0).tolist()]

    def half(points):
        chain = []
        for x, y in points:
            while len(chain) > 1 and ((chain[-1][0] - chain[-2][0]) * (y - chain[-2][1]) <=
                                      (chain[-1][1] - chain[-2][1]) * (x - chain[-2][0])):
                chain.pop()
            chain.append((x, y))
        return chain[:-1]

    return np.array(half(points) + half(points[::-1]) or points, float)


def rectangle(points):
    """The smallest rectangle around points, as (centre, unit axes as rows, half sizes); one side lies on the hull."""
    corners = hull(points)
    sides = np.roll(corners, -1, 0) - corners
    lengths = np.hypot(*sides.T)
    directions = sides[lengths > 0] / lengths[lengths > 0, None]
    if not len(directions):
        directions = np.array([[1.0, 0.0]])
    best = None
    for u in directions:
        axes = np.array([u, (-u[1], u[0])])
        along = corners @ axes.T
        low, high = along.min(0), along.max(0)
        half = (high - low) / 2 + 0.5  # pixels have an extent
        if best is None or half.prod() < best[2].prod():
            best = ((low + high) / 2 @ axes, axes, half)
    return best


def corners(centre, axes, half):
    """The four corners of a rectangle, in order around it."""
    return centre + (np.array([(-1, -1), (1, -1), (1, 1), (-1, 1)]) * half) @ axes


def mean_inside(image, centre, axes, half):
    """The mean of the image over the pixels whose centres lie in the rectangle."""
    low = np.maximum(np.floor(corners(centre, axes, half).min(0)).astype(int), 0)
    high = np.ceil(corners(centre, axes, half).max(0)).astype(int) + 1
    part = image[low[1]:high[1], low[0]:high[0]]
    y, x = np.mgrid[:part.shape[0], :part.shape[1]]
    offsets = np.abs((np.stack([x, y], -1) + low - centre) @ axes.T)
    inside = (offsets <= half).all(-1)
    return float(part[inside].mean()) if inside.any() else 0.0


def find(probability, threshold=0.3, min_score=0.6, ratio=1.5, min_side=3):
    """The text boxes of a probability map, top to bottom, as arrays of four (x, y) corners."""
    found = []
    for region in components(probability > threshold):
        centre, axes, half = rectangle(region)
        if 2 * half.min() < min_side or mean_inside(probability, centre, axes, half) < min_score:
            continue
        growth = half.prod() / half.sum() * ratio  # area * ratio / perimeter
        found.append((centre, corners(centre, axes, half + growth)))
    return [c for _, c in sorted(found, key=lambda f: (round(f[0][1] / 10), f[0][0]))]
