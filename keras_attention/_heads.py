"""What multi-head layers share: projections into the heads, and of the joined heads."""

import keras
from keras import ops

from keras_attention._checks import (
    has_bias,
    is_positive_integer,
    parts_with_bias,
    plain,
    require_positive_integers,
    require_positive_integers_or_none,
)
from keras_attention._dense import Dense
from keras_attention._initializers import independent
from keras_attention._layer import AttentionLayer
from keras_attention._shapes import heads_and_length_exchanged, sizes_of

PROJECTIONS = ("query", "key", "value", "output")
OF_DENSE = {  # arguments passed on to each projection, and the Keras module that resolves them
    "kernel_initializer": keras.initializers,
    "bias_initializer": keras.initializers,
    "kernel_regularizer": keras.regularizers,
    "bias_regularizer": keras.regularizers,
    "activity_regularizer": keras.regularizers,
    "kernel_constraint": keras.constraints,
    "bias_constraint": keras.constraints,
}


class MultiHeadLayer(AttentionLayer):
    """A layer that projects queries, keys and values into heads, and joins and projects outputs.

    Args:
        num_heads, key_dim, value_dim, output_dim, use_bias, kernel_initializer, bias_initializer,
            kernel_regularizer, bias_regularizer, activity_regularizer, kernel_constraint,
            bias_constraint: As for `MultiHeadAttention`.

    Class attributes:
        projections: Names of the projections.
    """

    projections = PROJECTIONS

    def __init__(
        self,
        num_heads,
        key_dim,
        value_dim=None,
        use_bias=True,
        *,
        output_dim=None,
        kernel_initializer="glorot_uniform",
        bias_initializer="zeros",
        kernel_regularizer=None,
        bias_regularizer=None,
        activity_regularizer=None,
        kernel_constraint=None,
        bias_constraint=None,
        **kwargs,
    ):
        super().__init__(**kwargs)
        owner = type(self).__name__
        require_positive_integers(owner, num_heads=num_heads, key_dim=key_dim)
        require_positive_integers_or_none(owner, value_dim=value_dim, output_dim=output_dim)
        self.num_heads = plain(num_heads)
        self.key_dim = plain(key_dim)
        self.value_dim = plain(value_dim or key_dim)
        self.output_dim = plain(output_dim)
        self.use_bias = parts_with_bias(owner, use_bias, self.projections)
        given = {
            "kernel_initializer": kernel_initializer,
            "bias_initializer": bias_initializer,
            "kernel_regularizer": kernel_regularizer,
            "bias_regularizer": bias_regularizer,
            "activity_regularizer": activity_regularizer,
            "kernel_constraint": kernel_constraint,
            "bias_constraint": bias_constraint,
        }
        self._of_dense = {name: OF_DENSE[name].get(value) for name, value in given.items()}

    def _groups(self, num_key_value_heads):
        """Returns the argument `num_key_value_heads` of a layer whose heads may share keys."""
        groups = self.num_heads if num_key_value_heads is None else num_key_value_heads
        if not is_positive_integer(groups) or self.num_heads % groups:
            raise ValueError(
                f"`num_key_value_heads` of {type(self).__name__} must divide num_heads="
                f"{self.num_heads}. Received: num_key_value_heads={num_key_value_heads!r}."
            )
        return plain(groups)

    def _build_projections(self, query_shape, value_shape, key_shape):
        """Creates the projections of a layer with as many heads of keys as of queries."""
        size, value_size = self.num_heads * self.key_dim, self.num_heads * self.value_dim
        self.query_projection = self._projection("query", size, query_shape)
        self.key_projection = self._projection("key", size, key_shape)
        self.value_projection = self._projection("value", value_size, value_shape)
        self._build_output(query_shape)

    def _projection(self, name, units, input_shape):
        """Returns the built dense layer of a projection."""
        with keras.RematScope(mode=None):
            layer = Dense(units, **self._dense_arguments(name))
        layer.build(input_shape)
        return layer

    def _dense_arguments(self, name):
        """Returns the arguments of the dense layer of a projection, except its size."""
        arguments = {
            argument: independent(value) if argument.endswith("initializer") else value
            for argument, value in self._of_dense.items()
        }
        return {
            **arguments,
            "activation": "sigmoid" if name == "gate" else None,
            "use_bias": has_bias(self.use_bias, name),
            "dtype": self.dtype_policy,
            "name": name,
        }

    def _project(self, projection, x, size):
        """Returns heads `(batch, heads, length, size)` of `x` `(batch, length, …)`."""
        return self._split_heads(projection(x), size)

    def _split_heads(self, x, size):
        """Returns heads `(batch, heads, length, size)` of a projection `(batch, length, …)`."""
        heads = ops.reshape(x, (*sizes_of(x)[:2], x.shape[2] // size, size))
        return heads_and_length_exchanged(heads)

    def _merge(self, context):
        """Joins the heads of a context `(batch, heads, length, value_dim)` and projects them."""
        context = heads_and_length_exchanged(ops.cast(context, self.compute_dtype))
        merged = ops.reshape(context, (*sizes_of(context)[:2], self.num_heads * self.value_dim))
        return self.output_projection(merged)

    def _build_output(self, query_shape):
        shape = (*query_shape[:2], self.num_heads * self.value_dim)
        size = self.output_dim or query_shape[-1]
        self.output_projection = self._projection("output", size, shape)

    def get_config(self):
        return {
            **super().get_config(),
            "num_heads": self.num_heads,
            "key_dim": self.key_dim,
            "value_dim": self.value_dim,
            "output_dim": self.output_dim,
            "use_bias": self.use_bias,
            **{name: OF_DENSE[name].serialize(value) for name, value in self._of_dense.items()},
        }
