"""Checks of the arguments that many layers have."""


def require_positive_integers(owner, **sizes):
    """Raises a `ValueError` that names the first of some arguments that is no positive integer."""
    for name, size in sizes.items():
        if not isinstance(size, int) or size < 1:
            raise ValueError(
                f"`{name}` of {owner} must be a positive integer. Received: {name}={size!r}."
            )


def require_fractions(owner, **fractions):
    """Raises a `ValueError` that names the first of some arguments that is no fraction below 1."""
    for name, fraction in fractions.items():
        if not 0.0 <= fraction < 1.0:
            raise ValueError(
                f"`{name}` of {owner} must be at least 0 and below 1. Received: {name}={fraction}."
            )
