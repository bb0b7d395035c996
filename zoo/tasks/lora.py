"""Low-rank updates of the dense layers of a model."""

import keras

from keras_attention._block import ResidualBlock
from keras_attention._checks import require_positive_integers
from keras_attention._keras import layers_in


def add_lora(core, rank):
    """Freezes the weights of a core, and adds trainable updates, see `Task.enable_lora`."""
    require_positive_integers("enable_lora", rank=rank)
    blocks = [layer for layer in layers_in(core) if isinstance(layer, ResidualBlock)]
    inner = [each for block in blocks for each in layers_in(block) if is_dense(each)]
    if not inner or any(each.lora_enabled for each in inner):
        state = "has LoRA already" if inner else "has no Transformer blocks"
        raise ValueError(
            "LoRA needs a model with Transformer blocks, and can be enabled only once. "
            f"{type(core).__name__} {state}. Load the model again, or train all of it with `fit`."
        )
    head = {id(weight) for each in core.layers if is_dense(each) for weight in each.weights}
    for weight in core.trainable_weights:
        weight.trainable = id(weight) in head
    for layer in inner:
        layer.enable_lora(rank)


def is_dense(layer):
    return isinstance(layer, keras.layers.Dense)
