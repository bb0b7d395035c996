"""Every private name of Keras that is used; a test fails when one has moved."""

import keras
from keras import ops
from keras.src.backend import get_keras_mask, in_symbolic_scope, set_keras_mask

__all__ = [
    "BatchNormalization",
    "get_keras_mask",
    "in_symbolic_scope",
    "is_recomputed",
    "layers_in",
    "seed_generators",
    "set_keras_mask",
]


def layers_in(layer):
    """Returns a layer and all layers in it, at any depth."""
    return list(layer._flatten_layers())


def seed_generators(layer):
    """Returns the seed generators of a layer and of all layers in it."""
    return [each for part in layers_in(layer) for each in part._seed_generators]


def is_recomputed(layer):
    """Returns whether `keras.RematScope` around its creation lets a layer be recomputed."""
    scope = layer._remat_mode
    if scope is None:
        return False
    is_listed = scope.mode == "list_of_layers" and layer.name in scope.layer_names
    return is_listed or scope.mode in ("full", "larger_than")


class BatchNormalization(keras.layers.BatchNormalization):
    """Keras' layer, which learns nothing from a batch without a visible position.

    Moments of nothing are NaN, or 0 with a mask, and would stay in the moving statistics.
    """

    def _moments(self, inputs, mask):
        of_batch = super()._moments(inputs, mask)
        is_some = ops.size(inputs) > 0 if mask is None else ops.any(mask)
        moving = self.moving_mean, self.moving_variance
        return [
            ops.where(is_some, found, ops.cast(before, found.dtype))
            for found, before in zip(of_batch, moving, strict=True)
        ]
