"""The arrays of a weights file, by its metadata: the author of the file is not trusted."""

import math

import h5py

MOST_OBJECTS = 20_000  # groups and arrays in a file
_BROKEN = (OSError, RuntimeError, KeyError, TypeError, ValueError)  # what h5py raises


def arrays_in(path):
    """Returns a dictionary from the names of the float arrays in a weights file to their shapes.

    No array is read, and all of them together take no more memory than the file has bytes. The file
    may also contain integers, such as the step of an optimizer.

    Args:
        path: A `pathlib.Path` of a file as Keras writes it: each array once, in one piece.

    Raises:
        ValueError: If it is not an HDF5 file; if it contains a link, or an array that is not
            numeric, is compressed, chunked, stored externally, or not stored; if arrays share their
            bytes.
    """
    shapes, total = {}, 0
    try:
        with h5py.File(path) as file:
            for name, dataset in _datasets(file):
                problem = _problem_of(dataset)
                if problem:
                    raise ValueError(f"{name} {problem}")
                total += dataset.nbytes
                if dataset.dtype.kind not in "iu":
                    shapes[name] = dataset.shape
    except _BROKEN as error:
        raise ValueError(
            f"{path} is damaged, or is not a weights file written by Keras: {error}. Get it again, "
            "or have it written by model.save_weights or model.save_to_preset."
        ) from error
    if total > path.stat().st_size:
        raise ValueError(
            f"{path} is damaged: its arrays would take {total} bytes, and the whole file has "
            f"{path.stat().st_size}. Get it again."
        )
    return shapes


def _datasets(file):
    """Yields the name and the `h5py.Dataset` of each array, at any depth."""
    groups, seen = [("", file)], set()
    while groups:
        path, group = groups.pop()
        for name in group:
            place = f"{path}{name}"
            link = group.get(name, getlink=True)
            if not isinstance(link, h5py.HardLink):
                raise ValueError(f"{place} is not an array but a link, {type(link).__name__}")
            item = group[name]
            address = h5py.h5o.get_info(item.id).addr
            if address in seen:
                raise ValueError(f"{place} is in it under another name, too")
            seen.add(address)
            if len(seen) > MOST_OBJECTS:
                raise ValueError(f"it holds more than {MOST_OBJECTS} groups and arrays")
            if isinstance(item, h5py.Group):
                groups.append((f"{place}/", item))
            else:
                yield place, item


def _problem_of(dataset):
    """Returns what is wrong with an array, or `None`."""
    if not isinstance(dataset, h5py.Dataset) or dataset.shape is None:
        return "is not an array"
    if dataset.external or dataset.is_virtual:
        return "has its numbers elsewhere"
    if not _is_numeric(dataset):
        return f"should hold floats or integers, and holds {dataset.dtype}"
    stored = dataset.id.get_storage_size()
    if dataset.chunks is not None or stored != math.prod(dataset.shape) * dataset.dtype.itemsize:
        return (
            f"is compressed or stored in pieces: of shape {dataset.shape} and {dataset.dtype}, "
            f"with {stored} bytes in the file"
        )
    return None


def _is_numeric(dataset):
    """Whether it holds floats or integers; to HDF5, bfloat16 is two opaque bytes."""
    marked = None
    if "dtype" in dataset.attrs:
        is_scalar = dataset.attrs.get_id("dtype").shape == ()
        marked = dataset.attrs["dtype"] if is_scalar else "several"
    if marked is not None:
        return marked == "bfloat16" and dataset.dtype == "V2"
    return dataset.dtype.kind in "fiu" and dataset.dtype.itemsize <= 8
