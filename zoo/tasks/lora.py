"""Low-rank updates of the dense layers of a model."""

import keras

from keras_attention._block import ResidualBlock
from keras_attention._checks import require_positive_integers
from keras_attention._keras import layers_in
from zoo.storage.weights import is_quantized


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


def has_lora(core):
    """Whether a core has updates that can be added to its weights: quantized ones stay apart."""
    layers = filter(is_dense, layers_in(core))
    return any(each.lora_enabled for each in layers) and not is_quantized(core)


def merged(task):
    """Returns a task like another one, but without LoRA: its weights hold the updates."""
    core = type(task.core).from_config(task.core.get_config())
    core.build()
    layers = list(layers_in(task.core))
    lora = [each for each in layers if is_dense(each) and each.lora_enabled]
    updates = {id(weight) for each in lora for weight in (each.lora_kernel_a, each.lora_kernel_b)}
    weights = [weight for weight in task.core.weights if id(weight) not in updates]
    for to, of in zip(core.weights, weights, strict=True):
        to.assign(of)
    for to, of in zip(layers_in(core), layers, strict=True):
        if is_dense(of) and of.lora_enabled:
            to.kernel.assign(of.kernel)
    return type(task)(**{**task.settings, **task.parts, "core": core})


def is_dense(layer):
    return isinstance(layer, keras.layers.Dense)
