import keras
from keras import ops


def independent(initializer):
    """Returns a copy of an initializer, so that two weights of one shape get different values."""
    is_object = isinstance(initializer, keras.initializers.Initializer)
    return initializer.clone() if is_object else initializer


def for_each_head(initializer):
    """Returns an initializer of shapes (*heads, rows, columns) that draws each matrix separately.

    Keras would treat the axis of heads as that of a convolution and draw values that are too small.
    """

    def draw(shape, dtype=None):
        if len(shape) == 2:
            return _of_head(initializer, 0)(shape, dtype=dtype)
        heads = range(shape[0])
        return ops.stack([_of_head(initializer, h)(shape[1:], dtype=dtype) for h in heads])

    return draw


def _of_head(initializer, head):
    """Returns a copy whose seed, if it has one, is specific to a head."""
    if not isinstance(initializer, keras.initializers.Initializer):
        return initializer
    config = initializer.get_config()
    if isinstance(config.get("seed"), int):
        config["seed"] += head
    return type(initializer).from_config(config)
