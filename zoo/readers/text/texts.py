"""Texts of a call: one, or several."""

import collections.abc
import os
import reprlib

import numpy as np

TEXT_FILES = ".txt", ".md", ".csv", ".tsv", ".json", ".jsonl"
LONGEST_PATH = 1000  # characters


def as_texts(texts):
    """Returns a list of texts for a text or a list of them, and whether it was one text.

    Half of a surrogate pair, as in an undecodable file name, counts as U+FFFD.
    """
    if isinstance(texts, str):
        return [_valid_unicode(texts)], True
    if not are_several(texts):
        raise ValueError(
            f"Expected a str or a list of str. Received: {reprlib.repr(texts)} of type "
            f"{type(texts).__name__}."
        )
    texts = entries_of(texts)
    for position, text in enumerate(texts):
        if not isinstance(text, str):
            raise ValueError(
                f"Expected a str or a list of str. Received: {reprlib.repr(text)} of type "
                f"{type(text).__name__} at position {position}."
            )
    return [_valid_unicode(text) for text in texts], False


def as_text(**argument):
    """Returns a text, given under the name of the argument, like an entry of `as_texts`.

    Raises:
        ValueError: If it is not a `str`.
    """
    ((name, text),) = argument.items()
    if not isinstance(text, str):
        raise ValueError(
            f"`{name}` must be one str. Received: {reprlib.repr(text)} of type "
            f"{type(text).__name__}."
        )
    return _valid_unicode(text)


def refuse_paths(texts):
    """Raises a `ValueError` for the path of a file or folder, or a list of paths of files.

    A single `str` such as `"data/novel.txt"` is a path even if there is no such file.

    Args:
        texts: What was given as texts to learn from.
    """
    if isinstance(texts, list | tuple):
        are_paths, path = texts and all(map(_is_file, texts)), next(iter(texts), None)
    else:
        is_folder = isinstance(texts, str) and os.path.isdir(texts)
        are_paths, path = is_folder or _is_file(texts) or _names_file(texts), texts
    if are_paths:
        raise ValueError(
            "The texts to learn from must be given themselves. Received: the path "
            f'{os.fspath(path)!r}. Read each file first: path.read_text(encoding="utf-8") of its '
            'pathlib.Path, with .strip().split("\\n") if each line is a text.'
        )


def as_texts_to_learn(**argument):
    """Returns a list of the texts to learn from, given under the name of the argument.

    Raises:
        ValueError: If it is a single text or a path, or an entry is not a `str`.
    """
    ((name, texts),) = argument.items()
    refuse_paths(texts)
    if isinstance(texts, str):
        raise ValueError(
            f"`{name}` must be several texts. Received: a single text, {reprlib.repr(texts)}. Put "
            "it into a list."
        )
    texts, _ = as_texts(texts)
    refuse_paths(texts)
    return texts


def require_scalar_strings(dataset):
    """Raises a `ValueError` unless the elements of a `tf.data.Dataset` are scalar strings."""
    spec = dataset.element_spec
    if getattr(spec, "dtype", None) != "string" or spec.shape.rank != 0:
        raise ValueError(
            "The model learns from texts: a tf.data.Dataset of scalar strings. Received: a data "
            f"set of {spec}. Unbatch batches with dataset.unbatch()."
        )


def are_several(texts):
    """Returns whether something is iterable and not a text; a scalar array or a dict is not."""
    is_one = isinstance(texts, str | bytes | collections.abc.Mapping)
    is_one = is_one or getattr(texts, "shape", None) == ()
    return isinstance(texts, collections.abc.Iterable) and not is_one


def entries_of(several):
    """Returns a list of the entries of something iterable.

    Raises:
        ValueError: If it is a table, such as a `pandas.DataFrame`, which iterates over the names of
            its columns, or not iterable at all.
    """
    if hasattr(several, "columns"):
        raise ValueError(
            f"Expected a list. Received: a table of type {type(several).__name__}. Pass one of its "
            "columns, such as table['text'], or, for several columns, table[[...]].to_numpy()."
        )
    if not isinstance(several, collections.abc.Iterable) or getattr(several, "shape", None) == ():
        raise ValueError(
            f"Expected a list. Received: {reprlib.repr(several)} of type {type(several).__name__}. "
            "Put one input into a list."
        )
    return list(several)


def is_row(each):
    """Returns whether an entry has entries of its own: a list, a tuple or an array with axes."""
    return isinstance(each, list | tuple) or (isinstance(each, np.ndarray) and each.ndim > 0)


def _is_file(text):
    return isinstance(text, str | os.PathLike) and os.path.isfile(text)


def _names_file(text):
    is_short = isinstance(text, str) and len(text) <= LONGEST_PATH
    return is_short and text.lower().endswith(TEXT_FILES) and not any(map(str.isspace, text))


def _valid_unicode(text):
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
