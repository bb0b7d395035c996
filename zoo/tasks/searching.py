"""Search in a collection: its entries nearest to a query, with a part in memory at a time."""

import itertools
import os
import pathlib
import reprlib

import numpy as np

from keras_attention._checks import require_positive_integers
from zoo.readers import PICTURES
from zoo.readers.images import image_bytes
from zoo.readers.several import are_several, each_request
from zoo.readers.text.texts import as_texts
from zoo.tasks.match_results import Findings
from zoo.tasks.seeing import pictures_in

AT_ONCE = 256  # entries read and embedded at a time; in memory besides the best so far


def cosines(vectors, others):
    """Returns the cosine of each vector and each other one; that of a vector of zeros is 0.

    Args:
        vectors, others: Arrays (vectors × size) and (others × size).

    Returns:
        float32 array (vectors × others).

    Example:

    >>> cosines(np.array([[3.0, 4.0]]), np.array([[2.0, 0.0], [0.0, 0.0]])).tolist()
    [[0.6000000238418579, 0.0]]
    """
    return _unit(vectors) @ _unit(others).T


def find(query, vector, embed, k, **collection):
    """Finds the entries of a collection whose vectors have the largest cosines with a vector.

    Args:
        query: What is searched for, as `Findings` has it.
        vector: Its vector, an array `(size,)`.
        embed: Function of a list of entries that returns their vectors, an array (entries × size).
        k: Maximum number of entries to find.
        **collection: Under the name of the argument of `search`: pairs of a name and an entry, or
            vectors, an array (entries × size).

    Returns:
        The `Findings`. Of equal similarities, the entry that comes first in the collection is
        first.

    Raises:
        ValueError: If `k` is not a positive integer, vectors have another size, or there is no
            entry.
    """
    ((argument, entries),) = collection.items()
    require_positive_integers("search", k=k)
    are_vectors = isinstance(entries, np.ndarray)
    if are_vectors:
        _require_size(entries, len(vector), argument)
        parts = _parts_of_vectors(entries)
    else:
        parts = _parts_of_pairs(iter(entries), embed)
    best = []
    for names, some, vectors in parts:
        best += zip(names, cosines(vectors, vector[None])[:, 0], some, strict=True)
        order = np.argsort([-similarity for _, similarity, _ in best], kind="stable")
        best = [best[place] for place in order[:k]]
    if not best:
        raise ValueError(f"`{argument}` of search must hold at least one entry. Received: none.")
    names, similarities, found = zip(*best, strict=True)
    return Findings(
        query, list(names), np.array(similarities), None if are_vectors else list(found)
    )


def texts_to_search(**argument):
    """Returns a collection for `find`: texts with their indices, or vectors as they are.

    Args:
        **argument: Texts or vectors, under the name of the argument of `search`.

    Raises:
        ValueError: If it is one text, or an entry is not a `str`.
    """
    ((name, texts),) = argument.items()
    if _are_vectors(texts):
        return texts
    entries, is_one = as_texts(texts)
    if is_one:
        raise ValueError(
            f"`{name}` of search must be a list of texts, or vectors. Received: the text "
            f"{reprlib.repr(texts)}. Put it into a list; of a file, pass the lines."
        )
    return enumerate(entries)


def pictures_to_search(**argument):
    """Returns a collection for `find`: encoded images with their names, or vectors as they are.

    Args:
        **argument: A folder, images or vectors, under the name of the argument of `search`.

    Raises:
        ValueError: If it is one image.
    """
    ((name, images),) = argument.items()
    if _are_vectors(images):
        return images
    if isinstance(images, str | os.PathLike):
        return pictures_in(images, name)
    if not are_several(images, rank=3):
        raise ValueError(
            f"`{name}` of search must be a folder, a list of images, or vectors. Received: "
            f"{reprlib.repr(images)} of type {type(images).__name__}. Put one image into a list."
        )
    return enumerate(each_request(images, image_bytes, "the images"))


def picture_to_find(query):
    """Returns the encoded image of a query.

    Raises:
        ValueError: If there are several images, or it cannot be read.
    """
    if are_several(query, rank=3):
        raise ValueError(
            f"`query` of search must be one image. Received: {reprlib.repr(query)} of type "
            f"{type(query).__name__}. Search for each image on its own."
        )
    try:
        return image_bytes(query)
    except (ValueError, TypeError, OSError) as error:
        error.add_note("This is the `query` of search, which must be an image.")
        raise


def is_path_of_picture(query):
    """Whether a text looks like a path: it has the ending of an image, or is that of a file."""
    return pathlib.PurePath(query).suffix.lower() in PICTURES or os.path.isfile(query)


def _unit(vectors):
    vectors = np.asarray(vectors, "float32")
    return vectors / np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-12)


def _are_vectors(collection):
    is_array = isinstance(collection, np.ndarray)
    return is_array and collection.ndim == 2 and collection.dtype.kind == "f"


def _require_size(vectors, size, argument):
    if vectors.shape[1] != size:
        raise ValueError(
            f"`{argument}` of search is an array of vectors, which must have the size of those "
            f"that `embed` of this model returns, (entries, {size}). Received: shape "
            f"{vectors.shape}. Embed the collection with this model."
        )


def _parts_of_vectors(vectors):
    """Yields the indices, no entries, and the vectors of each part."""
    for first in range(0, len(vectors), AT_ONCE):
        some = vectors[first : first + AT_ONCE]
        yield range(first, first + len(some)), [None] * len(some), some


def _parts_of_pairs(pairs, embed):
    """Yields the names, the entries and their vectors of each part."""
    while some := list(itertools.islice(pairs, AT_ONCE)):
        names, entries = zip(*some, strict=True)
        yield names, entries, embed(list(entries))
