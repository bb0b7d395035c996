"""A plain function as a score."""

import inspect

import keras

from keras_attention.scores.base import Score


@keras.saving.register_keras_serializable(package="keras_attention")
class Function(Score):
    """Any function of queries and keys as a score. Layers wrap a callable in it automatically.

    $$ score(q, k) = function(q, k) $$

    The function is called with tiles of queries and keys, so it must not depend on anything outside
    of a tile or on trainable variables: for those, write a subclass of `Score`. To be saved, it
    must be registered with `keras.saving.register_keras_serializable`.

    Args:
        function: Takes queries `(batch, *heads, query_tile, size)` and keys
            `(batch, *heads, key_tile, size)`, float32 inside a layer, and returns their logits
            `(batch, *heads, query_tile, key_tile)`.

    Raises:
        ValueError: If it is not callable, returns the wrong shape, or is a lambda and is saved.

    Example:

    >>> from keras import ops
    >>> def half_dot(query, key):
    ...     return 0.5 * ops.matmul(query, ops.swapaxes(key, -1, -2))
    >>> Function(half_dot)(np.array([[[1.0, 2.0]]]), np.array([[[3.0, 4.0]]])).numpy().tolist()
    [[[5.5]]]
    """

    def __init__(self, function, **kwargs):
        super().__init__(**kwargs)
        if isinstance(function, dict):
            function = keras.saving.deserialize_keras_object(function)
        if not is_function(function):
            raise ValueError(
                "`function` of the score Function must be a function of queries and keys. "
                f"Received: {function!r} of type {type(function).__name__}. To use a layer or "
                "a class as a score, derive it from keras_attention.scores.Score."
            )
        self.function = function

    def pairwise(self, query, key):
        return self.function(query, key)

    def _described(self):
        return f"score function {_name(self.function)}"

    def get_config(self):
        name = getattr(self.function, "__name__", "<lambda>")
        if name == "<lambda>" and not hasattr(self.function, "get_config"):
            raise ValueError(
                f"The score function {_name(self.function)} cannot be saved, because it has no "
                "name to find it by. Received: a lambda or another function without a name. Define "
                "it with `def`, and register it with "
                '@keras.saving.register_keras_serializable(package="my_scores").'
            )
        function = keras.saving.serialize_keras_object(self.function)
        return {**super().get_config(), "function": function}


def is_function(candidate):
    """Whether it is callable, and neither a class nor a layer."""
    is_other = inspect.isclass(candidate) or isinstance(candidate, keras.layers.Layer)
    return callable(candidate) and not is_other


def _name(function):
    return repr(getattr(function, "__name__", function))
