"""Checks of arguments that many classes share."""

import math
from numbers import Integral, Real

import numpy as np


def require_positive_integers(owner, **sizes):
    """Raises a `ValueError` for the first argument that is not a positive integer."""
    for name, size in sizes.items():
        if not is_positive_integer(size):
            raise ValueError(
                f"`{name}` of {owner} must be a positive integer. Received: {name}={size!r}."
            )


def require_positive_integers_or_none(owner, **sizes):
    """Like `require_positive_integers`, for arguments that may be `None`."""
    for name, size in sizes.items():
        if size is not None and not is_positive_integer(size):
            raise ValueError(
                f"`{name}` of {owner} must be a positive integer or None. "
                f"Received: {name}={size!r}."
            )


def require_counts(owner, **counts):
    """Raises a `ValueError` for the first argument that is not an integer of at least 0."""
    for name, count in counts.items():
        if not is_positive_integer(count) and (count != 0 or isinstance(count, bool)):
            raise ValueError(
                f"`{name}` of {owner} must be an integer of at least 0. Received: {name}={count!r}."
            )


def require_fractions(owner, **fractions):
    """Raises a `ValueError` for the first argument that is not a fraction below 1."""
    for name, fraction in fractions.items():
        if not isinstance(fraction, Real) or not 0.0 <= fraction < 1.0:
            raise ValueError(
                f"`{name}` of {owner} must be at least 0 and below 1. Received: "
                f"{name}={fraction!r}. 0 means none."
            )


def require_numbers(owner, at_least=-math.inf, **numbers):
    """Raises a `ValueError` for the first argument that is not a finite number of this size."""
    for name, number in numbers.items():
        is_number = isinstance(number, Real) and not isinstance(number, bool)
        if not is_number or not math.isfinite(number) or number < at_least:
            limit = "" if at_least == -math.inf else f" of at least {at_least}"
            raise ValueError(
                f"`{name}` of {owner} must be a finite number{limit}. Received: {name}={number!r}."
            )


def require_positive_numbers(owner, **numbers):
    """Raises a `ValueError` for the first argument that is not a finite number above 0."""
    for name, number in numbers.items():
        if not is_positive_number(number):
            raise ValueError(
                f"`{name}` of {owner} must be a finite number above 0. Received: {name}={number!r}."
            )


def require_one_of(owner, known, **choices):
    """Raises a `ValueError` for the first argument that is not one of the known values."""
    for name, choice in choices.items():
        if choice not in tuple(known):  # which may be a dictionary, and the choice a list
            raise ValueError(
                f"`{name}` of {owner} must be one of {', '.join(known)}. "
                f"Received: {name}={choice!r}."
            )


def require_dense(name, tensor):
    """Raises a `ValueError` for a `tf.RaggedTensor`, whose sequences a reshape would mix."""
    if hasattr(tensor, "nested_row_splits"):
        raise ValueError(
            f"`{name}` must hold sequences of one length. Received: a tf.RaggedTensor of shape "
            f"{tuple(tensor.shape)}. Pad it with {name}.to_tensor(), and hide the padding with the "
            f"mask tf.sequence_mask({name}.row_lengths())."
        )


def parts_with_bias(owner, use_bias, parts):
    """Returns the argument `use_bias` of a layer: `True`, `False`, or a list of some of its parts.

    Raises:
        ValueError: If it names something else.
    """
    if isinstance(use_bias, bool):
        return use_bias
    is_collection = isinstance(use_bias, list | tuple | set | frozenset)
    if not is_collection or not set(use_bias) <= set(parts):
        raise ValueError(
            f"`use_bias` of {owner} must be True, False, or a collection of {', '.join(parts)}. "
            f"Received: use_bias={use_bias!r}."
        )
    return [name for name in parts if name in use_bias]


def has_bias(use_bias, part):
    """Whether a part of a layer adds a bias, by what `parts_with_bias` returned."""
    return use_bias if isinstance(use_bias, bool) else part in use_bias


def is_positive_integer(size):
    return isinstance(size, Integral) and not isinstance(size, bool) and size >= 1


def is_positive_number(number):
    return isinstance(number, Real) and not isinstance(number, bool) and 0 < number < math.inf


def pair_of_integers(owner, name, value, least=1):
    """Returns an argument for rows and columns as two integers; a single one counts for both.

    Raises:
        ValueError: If it is neither one integer nor two, or one is too small.
    """
    pair = tuple(value) if isinstance(value, list | tuple | np.ndarray) else (value, value)
    are_integers = all(isinstance(x, Integral) and not isinstance(x, bool) for x in pair)
    if len(pair) != 2 or not are_integers or min(pair) < least:
        raise ValueError(
            f"`{name}` of {owner} must be an integer of at least {least}, or two of them, for rows "
            f"and columns. Received: {name}={value!r}."
        )
    return tuple(map(int, pair))


def agree(shape, other):
    """Whether two shapes are equal in all sizes that are known."""
    pairs = zip(shape, other, strict=True)
    return all(None in pair or pair[0] == pair[1] for pair in pairs)


def fits(shape, expected):
    """Whether two shapes have as many axes and agree."""
    return len(shape) == len(expected) and agree(shape, expected)


def plain(number):
    """Converts a NumPy number to a Python number, as Keras needs for sizes."""
    return number.item() if isinstance(number, np.generic) else number
