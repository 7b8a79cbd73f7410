"""Small data sets in the form of the published ones, packed as registries pack them."""

import io
import json
import struct
import tarfile

import numpy as np
from PIL import Image

from wirelessdl.learning.data.images import Facts, channel_moments


# small data sets in the shape of the published ones
def pictures(count, shape, seed=0):
    return np.random.default_rng(seed).integers(0, 256, (count, *shape)).astype(np.uint8), (
        np.arange(count) % 10
    ).astype(np.uint8)


def archive(path, files):
    with tarfile.open(path, "w:gz") as tar:
        for name, content in files.items():
            info = tarfile.TarInfo(name)
            info.size = len(content)
            tar.addfile(info, io.BytesIO(content))
    return path


def rows(images):
    """Images [N, 3, 32, 32] as a PNG, one image per row."""
    out = io.BytesIO()
    Image.fromarray(images.transpose(0, 2, 3, 1).reshape(len(images), 1024, 3)).save(out, "png")
    return out.getvalue()


def cifar_files(x, y, test_x, test_y):
    files = {f"package/data_batch_{n + 1}.png": rows(part) for n, part in enumerate(np.split(x, 5))}
    files["package/test_batch.png"] = rows(test_x)
    files["package/train_lables.json"] = json.dumps(y.tolist()).encode()
    files["package/test_lables.json"] = json.dumps(test_y.tolist()).encode()
    return files


def idx(array):
    return struct.pack(f">BBBB{array.ndim}I", 0, 0, 8, array.ndim, *array.shape) + array.tobytes()


def mnist_files(x, y, test_x, test_y):
    arrays = {"train-images-idx3": x, "train-labels-idx1": y, "t10k-images-idx3": test_x, "t10k-labels-idx1": test_y}
    return {f"package/data/{name}-ubyte": idx(array) for name, array in arrays.items()}


def fashion_files(x, y, test_x, test_y):
    """Of each class training images first, then test images, with an empty row among them."""
    files = {}
    for label in range(10):
        rows = [part.reshape(len(part), -1).tolist() for part in (x[y == label], test_x[test_y == label])]
        files[f"package/src/clothes/{label}.json"] = json.dumps({"data": [*rows[0], [], *rows[1]]}).encode()
    return files


def facts_of(name, x, y, test_y):
    mean, deviation = channel_moments(x)
    counts = (tuple(np.bincount(labels, minlength=10).tolist()) for labels in (y, test_y))
    return Facts(name, x.shape[1:], *counts, tuple(mean.tolist()), tuple(deviation.tolist()), 1e-9)


CIFAR = (*pictures(50, (3, 32, 32)), *pictures(10, (3, 32, 32), 1))

DIGITS = (*pictures(40, (28, 28)), *pictures(20, (28, 28), 1))

_ROWS = pictures(70, (28, 28), 2)[0]
# six training images and a test image of each class, class by class
CLOTHES = (_ROWS[:60], np.repeat(np.arange(10, dtype=np.uint8), 6), _ROWS[60:], np.arange(10, dtype=np.uint8))
