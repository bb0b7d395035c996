"""A layer that is computed again in the backward pass, with the same masks and dropout."""

import inspect

import keras
from keras import ops
from keras.src.backend import get_keras_mask, set_keras_mask  # have no public names

DRAWS = 64  # more random numbers than one call of a layer asks of one generator


class Recomputable(keras.layers.Layer):
    """A layer that is computed again as a whole if it was made inside `keras.RematScope()`.

    What it makes itself, it makes inside `keras.RematScope(mode=None)`, where it is called as well:
    in the other scope some operations of Keras would be computed again on their own.
    """

    def rematerialized_call(self, layer_call, *args, **kwargs):
        """What Keras calls instead of `call` then."""
        remat = super().rematerialized_call
        return _recomputed(self, layer_call, lambda function: remat(function, *args, **kwargs))

    def compute_output_spec(self, *args, **kwargs):
        with keras.RematScope(mode=None):
            return super().compute_output_spec(*args, **kwargs)


def _recomputed(layer, layer_call, remat):
    """Returns a layer's `call` made of a function that `remat` can take.

    TensorFlow recomputes functions of float tensors only, given by position, when it builds a
    graph; dropout would draw anew when it is computed again; and tensors lose their implicit
    masks. So all but the float inputs and the weights is bound before, with the states of the
    generators of random numbers, which skip what has been used here.

    Args:
        layer: A Keras layer.
        layer_call: Its `call`.
        remat: What turns a function of tensors into one that is computed again, or leaves it.
    """

    def call(*args, **kwargs):
        bound = inspect.signature(layer_call).bind(*args, **kwargs).arguments
        inputs = {name: value for name, value in bound.items() if _is_float_tensor(value)}
        others = {name: value for name, value in bound.items() if name not in inputs}
        weights = layer.trainable_variables
        fixed = [(each, ops.copy(each)) for each in layer.non_trainable_variables]
        for variable, state in fixed:
            if variable.name == "seed_generator_state":
                variable.assign(state + ops.cast(DRAWS, state.dtype))

        def on_tensors(*tensors):
            for tensor, given in zip(tensors, inputs.values(), strict=False):
                set_keras_mask(tensor, get_keras_mask(given))
            changing = zip(weights, tensors[len(inputs) :], strict=True)
            with keras.RematScope(mode=None), keras.StatelessScope([*fixed, *changing]):
                return layer_call(**dict(zip(inputs, tensors, strict=False)), **others)

        return remat(on_tensors)(*inputs.values(), *map(ops.copy, weights))

    return call


def _is_float_tensor(value):
    return hasattr(value, "dtype") and keras.backend.is_float_dtype(value.dtype)
