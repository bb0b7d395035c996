"""Implementations: how is attention computed? Same numbers, other cost. The choice is made here."""

from keras_attention.compute import reference

IMPLEMENTATIONS = {"reference": reference.attend}


def choose(implementation):
    """Returns the name of the implementation that runs, `"auto"` resolved.

    Raises:
        ValueError: If the name is unknown.
    """
    if implementation == "auto":
        return "reference"
    if implementation not in IMPLEMENTATIONS:
        raise ValueError(
            f"`implementation` must be 'auto' or one of {', '.join(IMPLEMENTATIONS)}. "
            f"Received: {implementation!r}."
        )
    return implementation


def attend(implementation, *args, **kwargs):
    """Computes attention by the named implementation: see `reference.attend` for the arguments."""
    return IMPLEMENTATIONS[choose(implementation)](*args, **kwargs)
