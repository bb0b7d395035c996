"""Texts of a call: one, or several."""

import collections.abc


def as_texts(texts):
    """Returns a list of texts for a text or a list of them, and whether it was one text.

    Half of a surrogate pair, as in an undecodable file name, counts as U+FFFD.
    """
    if isinstance(texts, str):
        return [_valid_unicode(texts)], True
    if not are_several(texts) or isinstance(texts, collections.abc.Mapping):
        raise ValueError(
            f"Expected a str or a list of str. Received: {texts!r} of type {type(texts).__name__}."
        )
    texts = list(texts)
    for position, text in enumerate(texts):
        if not isinstance(text, str):
            raise ValueError(
                f"Expected a str or a list of str. Received: {text!r} of type "
                f"{type(text).__name__} at position {position}."
            )
    return [_valid_unicode(text) for text in texts], False


def are_several(texts):
    """Returns whether something is iterable and not a text; a scalar array is not."""
    is_scalar = isinstance(texts, str | bytes) or getattr(texts, "shape", None) == ()
    return isinstance(texts, collections.abc.Iterable) and not is_scalar


def _valid_unicode(text):
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
