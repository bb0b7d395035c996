import keras
from keras import ops


def independent(initializer):
    """Returns a copy of an initializer, so that two weights of one shape do not come out equal."""
    is_object = isinstance(initializer, keras.initializers.Initializer)
    return initializer.clone() if is_object else initializer


def for_each_head(initializer):
    """Returns an initializer of shapes (*heads, rows, columns) that draws matrix by matrix.

    Keras takes the axis of heads for that of a convolution and would draw too small numbers.
    """

    def draw(shape, dtype=None):
        if len(shape) == 2:
            return _of_head(initializer, 0)(shape, dtype=dtype)
        heads = range(shape[0])
        return ops.stack([_of_head(initializer, h)(shape[1:], dtype=dtype) for h in heads])

    return draw


def _of_head(initializer, head):
    """Returns a copy whose seed, if it has one, is that of a head."""
    if not isinstance(initializer, keras.initializers.Initializer):
        return initializer
    config = initializer.get_config()
    if isinstance(config.get("seed"), int):
        config["seed"] += head
    return type(initializer).from_config(config)
