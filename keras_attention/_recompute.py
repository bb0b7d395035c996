"""A layer that is computed again in the backward pass, with the same masks and dropout."""

import inspect

import keras
from keras import ops

from keras_attention._keras import get_keras_mask, seed_generators, set_keras_mask


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
        # What `call` returns, weights included: a layer would ask `compute_output_shape`.
        with keras.RematScope(mode=None):
            return keras.Operation.compute_output_spec(self, *args, **kwargs)


def _recomputed(layer, layer_call, remat):
    """Returns a layer's `call` made of a function that `remat` can take.

    TensorFlow recomputes functions of float tensors only, given by position, when it builds a
    graph; dropout would draw anew when it is computed again; and tensors lose their implicit
    masks. So all but the float inputs and the weights is bound before. The generators of random
    numbers go on from a state that each of them draws for this call.

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
        drawn = {each.state.path: _drawn_state(each) for each in seed_generators(layer)}
        fixed = [
            (each, drawn[each.path] if each.path in drawn else ops.copy(each))
            for each in layer.non_trainable_variables
        ]

        def on_tensors(*tensors):
            for tensor, given in zip(tensors, inputs.values(), strict=False):
                set_keras_mask(tensor, get_keras_mask(given))
            changing = zip(weights, tensors[len(inputs) :], strict=True)
            with keras.RematScope(mode=None), keras.StatelessScope([*fixed, *changing]):
                return layer_call(**dict(zip(inputs, tensors, strict=False)), **others)

        return remat(on_tensors)(*inputs.values(), *map(ops.copy, weights))

    return call


def _drawn_state(generator):
    """Returns a state that a generator draws, far from those that it comes to by itself."""
    state = generator.state
    drawn = keras.random.randint(state.shape, 0, 2**31 - 1, dtype="int32", seed=generator)
    return ops.cast(drawn, state.dtype)


def _is_float_tensor(value):
    return hasattr(value, "dtype") and keras.backend.is_float_dtype(value.dtype)
