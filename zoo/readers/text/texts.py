"""Texts as callers give them: one, or several."""

import collections.abc


def as_texts(texts):
    """Returns a list of texts for a text or a list of them, and whether it was one text.

    Half of a surrogate pair, as in an undecodable file name, counts as U+FFFD.
    """
    if isinstance(texts, str):
        return [_valid_unicode(texts)], True
    is_several = isinstance(texts, collections.abc.Iterable)
    if not is_several or isinstance(texts, bytes | collections.abc.Mapping):
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


def _valid_unicode(text):
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
