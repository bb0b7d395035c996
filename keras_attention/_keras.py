"""Every private name of Keras that is needed; a test says when one has moved."""

from keras.src.backend import get_keras_mask, in_symbolic_scope, set_keras_mask

__all__ = ["get_keras_mask", "in_symbolic_scope", "seed_generators", "set_keras_mask"]


def seed_generators(layer):
    """Returns the generators of random numbers of a layer and of all layers in it."""
    return [each for part in layer._flatten_layers() for each in part._seed_generators]
