"""A layer that is recomputed in the backward pass, with the same masks and dropout."""

import inspect

import keras
from keras import ops

from keras_attention._keras import (
    get_keras_mask,
    is_recomputed,
    seed_generators,
    set_keras_mask,
)


class Recomputable(keras.layers.Layer):
    """A layer that is recomputed as a whole if it was created inside `keras.RematScope()`.

    It creates and calls its sublayers inside `keras.RematScope(mode=None)`: in the outer scope,
    some Keras operations would be recomputed separately.
    """

    def rematerialized_call(self, layer_call, *args, **kwargs):
        """Called by Keras instead of `call` if the layer was created inside `keras.RematScope`."""
        remat = super().rematerialized_call
        if not is_recomputed(self):
            return remat(layer_call, *args, **kwargs)
        return _recomputed(self, layer_call, lambda function: remat(function, *args, **kwargs))

    def compute_output_spec(self, *args, **kwargs):
        # The spec of what `call` returns, including the weights. `keras.layers.Layer` uses
        # `compute_output_shape`, which is enough for the size that `RematScope("larger_than")` asks
        # for, and the only way on JAX, where training hides the weights from another trace.
        if not any(isinstance(x, keras.KerasTensor) for x in keras.tree.flatten([args, kwargs])):
            return super().compute_output_spec(*args, **kwargs)
        with keras.RematScope(mode=None):
            return keras.Operation.compute_output_spec(self, *args, **kwargs)


def _recomputed(layer, layer_call, remat):
    """Returns a layer's `call` wrapped as a function that `remat` can handle.

    When TensorFlow builds a graph, it only recomputes functions of positional float tensors;
    dropout would draw new values when recomputed; and tensors lose their implicit masks. So
    everything except the float inputs and the weights is bound beforehand. The seed generators
    continue from a state that each of them draws for this call. Losses, such as those of an
    activity regularizer, are outputs of the function, and added to the layer outside of it.

    Args:
        layer: A Keras layer.
        layer_call: Its `call`.
        remat: Turns a function of tensors into one that is recomputed, or leaves it unchanged.
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
            scope = keras.StatelessScope([*fixed, *changing], collect_losses=True)
            with keras.RematScope(mode=None), scope:
                output = layer_call(**dict(zip(inputs, tensors, strict=False)), **others)
            return output, scope.losses

        output, losses = remat(on_tensors)(*inputs.values(), *map(ops.copy, weights))
        layer.add_loss([ops.copy(loss) for loss in losses])  # Keras knows losses by identity
        return output

    return call


def _drawn_state(generator):
    """Returns a state drawn by a generator, far from the states that it reaches by itself."""
    state = generator.state
    drawn = keras.random.randint(state.shape, 0, 2**31 - 1, dtype="int32", seed=generator)
    return ops.cast(drawn, state.dtype)


def _is_float_tensor(value):
    return hasattr(value, "dtype") and keras.backend.is_float_dtype(value.dtype)
