"""The argument `position` of layers that can only rotate their queries and keys."""

from keras_attention import positions


def get_rotary(owner, position, or_none=False):
    """Returns the `positions.Rotary` that an argument describes, or `None` if there may be none.

    Args:
        owner: Name of the class with the argument, for the error message.
        position: The argument.
        or_none: Whether `None` is allowed.

    Raises:
        ValueError: If it is something else.
    """
    found = None if position is None else positions.get(position)
    if isinstance(found, positions.Rotary) or (or_none and found is None):
        return found
    others = ", a positions.Rotary or None" if or_none else " or a positions.Rotary"
    raise ValueError(
        f"`position` of {owner} must be 'rotary'{others}. Received: position={position!r}. "
        "MultiHeadAttention takes other positions."
    )
