"""What the results of tasks share."""

from numbers import Integral

import numpy as np

from zoo.decoding.base import require

OF_ATTENTION = "that of `Classifier.classify(..., return_attention=True)`"


def stacked(weights):
    """Returns `(layers, heads, queries, keys)` of the first example, from a list of layers."""
    return np.stack([np.asarray(of_layer)[0] for of_layer in weights]).astype("float32")


def stacked_rows(rows, name):
    """Stacks the values of all rows under a name; `None` if the rows lack it."""
    return np.stack([row[name] for row in rows]) if rows and name in rows[0] else None


def hypothesis_log_probs(log_probs):
    """Returns the log-probabilities of results, float32 `(inputs,)`, or `(inputs, n)` of several.

    Args:
        log_probs: List of an array for each input, with one entry per hypothesis.

    Example:

    >>> hypothesis_log_probs([[-1.0], [-2.0]]).shape
    (2,)
    >>> hypothesis_log_probs([[-1.0, -3.0], [-2.0, -4.0]]).shape
    (2, 2)
    """
    log_probs = np.array(log_probs, "float32")
    return log_probs[:, 0] if log_probs.shape[1:] == (1,) else log_probs


def require_entry(entries, position):
    """Raises a `ValueError` unless a position is that of one of the entries of a result."""
    count = len(entries)
    expected = f"the index of an entry, of which the result has {count}"
    is_index = isinstance(position, Integral) and -count <= position < count
    require(is_index, expected, position=position)


def without_files(result):
    """Returns the representation of a result, which tells the number of encoded files in it.

    Their content may have millions of bytes.

    Example:

    >>> import collections
    >>> Found = collections.namedtuple("Found", ["names", "images"])
    >>> without_files(Found(["dog.jpg"], [b"a long file"]))
    "Found(names=['dog.jpg'], images=<files: 1>)"
    """
    told = (f"{name}={_told(value)}" for name, value in result._asdict().items())
    return f"{type(result).__name__}({', '.join(told)})"


def _told(value):
    if isinstance(value, bytes):
        return f"<file of {len(value)} bytes>"
    entry = value
    while isinstance(entry, list) and entry:  # of the windows of a sound, in one more list
        entry = entry[0]
    return f"<files: {len(value)}>" if isinstance(entry, bytes) else repr(value)


def looks(result, position, layer, title):
    """Returns titles and maps: of all blocks together, or of each head of one of them."""
    if layer is None:
        return [title], result.attention[position][None]
    heads = result.heads[position]
    require(-len(heads) <= layer < len(heads), f"a layer from 0 to {len(heads) - 1}", layer=layer)
    return [f"head {number}" for number in range(len(heads[layer]))], heads[layer]


def joined(labels):
    """Returns the labels of one input as one `str`."""
    return labels if isinstance(labels, str) else ", ".join(labels)


def first(texts):
    """Returns the best of several texts, or the only one."""
    return texts if isinstance(texts, str) else texts[0]
