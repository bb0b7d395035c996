"""Pairs of texts: what a translator learns from."""

import tensorflow as tf


def pairs_of_lists(sources, targets):
    """Returns a data set of pairs from a list of sources and one of their targets."""
    if isinstance(sources, str) or isinstance(targets, str):
        raise ValueError(
            "A translator learns from pairs of texts, given as two lists. Received: a str. Put it "
            "into a list."
        )
    sources, targets = list(sources), list(targets)
    if not sources or len(sources) != len(targets):
        raise ValueError(
            "A translator learns from pairs of texts, a target for each source. Received: "
            f"{len(sources)} sources and {len(targets)} targets."
        )
    return tf.data.Dataset.from_tensor_slices((sources, targets))


def require_pairs(pairs):
    """Raises a `ValueError` unless the elements are pairs of strings."""
    spec = getattr(pairs, "element_spec", None)
    is_pair = isinstance(spec, tuple) and len(spec) == 2
    if not is_pair or any(each.dtype != tf.string or each.shape.rank != 0 for each in spec):
        raise ValueError(
            "A translator learns from pairs of texts: a tf.data.Dataset whose "
            "elements are (source, target) scalar strings, or x=list of sources, y=list of "
            f"targets. Received: {'a data set of ' + str(spec) if spec else type(pairs)}. "
            "A data set of batches becomes one of pairs by dataset.unbatch()."
        )
