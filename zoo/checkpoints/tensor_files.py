"""The tensors of a Hugging Face folder, read one at a time."""

import contextlib
import functools
import json
import math
import os
import pathlib

import ml_dtypes
import numpy as np
import tensorflow as tf

from zoo.storage import CONFIG
from zoo.storage.json_files import read_json

SAFETENSORS, PICKLED = "model.safetensors", "pytorch_model.bin"
OF_DENSE = "*_Dense"  # subfolders of sentence-transformers with files of their own
_POINTER = b"version https://git-lfs"
_OF_NEW_HEADS = 2**24  # numbers
LARGEST_HEADER = 100 * 2**20  # bytes, what the format allows
_DTYPES = {
    "F64": np.float64,
    "F32": np.float32,
    "F16": np.float16,
    "BF16": ml_dtypes.bfloat16,
    "I64": np.int64,
    "I32": np.int32,
    "U8": np.uint8,
    "BOOL": np.bool_,
}


class TensorFiles:
    """The tensors of `model.safetensors`, of its shards, or of `pytorch_model.bin`.

    Those of a dense layer of sentence-transformers follow, such as `"2_Dense.linear.weight"`.

    Files are read, not mapped, so that a tensor takes memory only while it is used. A pickled file
    is read by `torch.load(weights_only=True)`, which runs no code from the file. It may take as
    much memory as it has bytes.

    Args:
        folder: The folder.
        stem: Name of a file without its ending, in place of those names.

    Attributes:
        shapes: Dictionary from the names of all tensors to their shapes.

    Raises:
        ValueError: If there is no such file, or one is damaged.
        ImportError: If there is only a pickled file, and PyTorch is missing.
    """

    def __init__(self, folder, stem=None):
        self._folder = pathlib.Path(folder)
        self._names = (
            (SAFETENSORS, PICKLED) if stem is None else (f"{stem}.safetensors", f"{stem}.bin")
        )
        self._read = {}  # functions by name
        self.shapes = {}
        self._add(self._folder)
        for folder in sorted(self._folder.glob(OF_DENSE)):
            self._add(folder, f"{folder.name}.")

    @contextlib.contextmanager
    def limit(self, all_are_filled=False):
        """Limits the weights made in the block to the size of the files, and a few for a new head.

        So a model takes no more memory than its files, whatever sizes its config asks for.

        Args:
            all_are_filled: Whether all weights are read later: until then they are 0, which takes
                less time and memory than random numbers.

        Raises:
            ValueError: In the block, if a weight exceeds the limit.
        """
        left = _OF_NEW_HEADS + sum(math.prod(shape) for shape in self.shapes.values())

        def create(next_creator, **arguments):
            nonlocal left
            with tf.Graph().as_default():  # where a shape takes no memory
                initial = arguments["initial_value"]()
            left -= initial.shape.num_elements()
            if left < 0:
                raise ValueError(
                    f"{self._folder / CONFIG} asks for a larger model than the files of weights "
                    "hold. Get all files again, from a single source."
                )
            if all_are_filled and initial.dtype.is_floating:
                arguments["initial_value"] = lambda: tf.zeros(initial.shape, initial.dtype)
            return next_creator(**arguments)

        with tf.variable_creator_scope(create):
            yield

    def read(self, name, first=0, last=None):
        """Returns a tensor as a NumPy array, or only its rows from `first` to `last`."""
        return self._read[name](first, last)

    def _add(self, folder, prefix=""):
        """Adds the tensors of a folder, with a prefix to their names."""
        kinds = self._add_safetensors, self._add_pickled
        for kind, add in zip(self._names, kinds, strict=True):
            paths = _paths(folder, kind)
            for path in paths:
                add(path, prefix)
            if paths:
                return
        raise ValueError(
            f"{folder} holds no weights: there should be {self._names[0]}, {self._names[0]}.index."
            f"json with its shards, or {self._names[1]}."
        )

    def _add_safetensors(self, path, prefix):
        size = path.stat().st_size
        try:
            with open(path, "rb") as file:
                length = int.from_bytes(file.read(8), "little")
                if length > min(size, LARGEST_HEADER):
                    raise ValueError(f"a header of {length} bytes")
                header = json.loads(file.read(length))
            for name, entry in header.items():
                if name != "__metadata__":
                    self._read[prefix + name] = _reader(path, size, 8 + length, **entry)
                    self.shapes[prefix + name] = tuple(entry["shape"])
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise ValueError(
                f"{path} is damaged, or not a safetensors file: {error!r}. {_advice(path)}"
            ) from error

    def _add_pickled(self, path, prefix):
        try:
            import torch
        except ImportError as error:
            raise ImportError(
                f"{path} is a pickled file, which PyTorch alone reads: pip install torch. Or ask "
                f"for {SAFETENSORS}, which needs no further library."
            ) from error
        options = {"map_location": "cpu", "weights_only": True}
        try:
            try:
                tensors = torch.load(path, mmap=True, **options)
            except (RuntimeError, ValueError):  # a file of the old format cannot be mapped
                tensors = torch.load(path, **options)
            shapes = {prefix + name: tuple(tensor.shape) for name, tensor in tensors.items()}
        except Exception as error:  # those of a damaged file are of many kinds
            raise ValueError(
                f"{path} is damaged, or holds something other than a dictionary of tensors, which "
                f"is not read because it could run code ({type(error).__name__}). {_advice(path)}"
            ) from error

        def read(tensor, first, last):
            tensor = tensor[first:last] if tensor.ndim else tensor
            is_half = tensor.dtype == torch.bfloat16
            return (tensor.float() if is_half else tensor).numpy()

        for name, tensor in tensors.items():
            self._read[prefix + name] = functools.partial(read, tensor)
        self.shapes |= shapes


def _paths(folder, name):
    """Returns the paths of a file, or of its shards."""
    index = folder / f"{name}.index.json"
    if not index.is_file():
        path = folder / name
        return [path] if path.is_file() else []
    try:
        names = sorted(set(read_json(index, LARGEST_HEADER)["weight_map"].values()))
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"{index} is damaged: {error!r}. {_advice(index)}") from error
    missing = [each for each in names if not _is_in(folder, each)]
    if missing:
        raise ValueError(
            f"{index} speaks of files that are not there: {', '.join(missing)}. Put all shards "
            "into one folder."
        )
    return [folder / each for each in names]


def _advice(path):
    """Returns how to get the file that a damaged one should be."""
    with open(path, "rb") as file:
        is_pointer = file.read(len(_POINTER)) == _POINTER
    return (
        "Git LFS put a pointer in its place: run `git lfs pull`." if is_pointer else "Get it again."
    )


def _is_in(folder, name):
    """Whether a file of this name is in the folder, and not elsewhere."""
    return os.path.basename(name) == name and (folder / name).is_file()


def _reader(path, size, start, dtype, shape, data_offsets):
    first, last = data_offsets
    if dtype not in _DTYPES:
        raise ValueError(f"tensors of type {dtype} are not implemented")
    dtype, count = np.dtype(_DTYPES[dtype]), math.prod(shape)
    if not 0 <= first <= last <= size - start or last - first != count * dtype.itemsize:
        raise ValueError(f"{count} numbers of {dtype} in the bytes {first} to {last}")

    def read(first_row, last_row):
        rows, *others = shape or [1]
        places = range(rows)[first_row:last_row]
        row = math.prod(others)
        offset = start + first + places.start * row * dtype.itemsize
        array = np.fromfile(path, dtype, len(places) * row, offset=offset)
        return array.reshape((len(places), *others) if shape else ())

    return read
