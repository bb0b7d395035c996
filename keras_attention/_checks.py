"""Checks of the arguments that many classes have."""

import numpy as np


def require_positive_integers(owner, **sizes):
    """Raises a `ValueError` that names the first of some arguments that is no positive integer."""
    for name, size in sizes.items():
        if not _is_positive_integer(size):
            raise ValueError(
                f"`{name}` of {owner} must be a positive integer. Received: {name}={size!r}."
            )


def require_positive_integers_or_none(owner, **sizes):
    """The same of arguments that may be left out."""
    for name, size in sizes.items():
        if size is not None and not _is_positive_integer(size):
            raise ValueError(
                f"`{name}` of {owner} must be a positive integer or None. "
                f"Received: {name}={size!r}."
            )


def require_fractions(owner, **fractions):
    """Raises a `ValueError` that names the first of some arguments that is no fraction below 1."""
    for name, fraction in fractions.items():
        if not 0.0 <= fraction < 1.0:
            raise ValueError(
                f"`{name}` of {owner} must be at least 0 and below 1. Received: {name}={fraction}."
            )


def _is_positive_integer(size):
    return isinstance(size, int | np.integer) and not isinstance(size, bool) and size >= 1
