"""Activations by the names that transformers gives them."""

ACTIVATIONS = {
    "gelu": "gelu",
    "gelu_new": "tanh_gelu",
    "gelu_pytorch_tanh": "tanh_gelu",
    "quick_gelu": "quick_gelu",
    "relu": "relu",
    "silu": "silu",
    "swish": "silu",
    "tanh": "tanh",
}


def activation(settings, name):
    """Returns the name of an activation in the zoo.

    Raises:
        ValueError: If it is not implemented.
    """
    if name not in ACTIVATIONS:
        raise ValueError(
            f"{settings.path} asks for the activation {name!r}, which is not implemented. "
            f"Implemented: {', '.join(ACTIVATIONS)}."
        )
    return ACTIVATIONS[name]
