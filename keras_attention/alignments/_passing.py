"""Weights that move along the keys, computed for all keys at once."""

from keras import ops

from keras_attention._backend import shape_of


def passed_on(x, fractions):
    """Returns what each key gets if every key passes on a fraction of it to the next one.

        y_j = x_j + fraction_{j-1} y_{j-1} = sum over k ≤ j of x_k fraction_k … fraction_{j-1}

    Each of about `log2(key_length)` rounds doubles the number of keys that `y_j` looks back on. It
    only adds and multiplies, so that weights and fractions, which are not negative, keep the full
    precision of float32: quotients of cumulative products, which are faster, underflow after a few
    dozen keys.

    Args:
        x, fractions: Tensors `(..., key_length)` of one shape.
    """
    return ops.custom_gradient(_passed_on)(x, fractions)


def _passed_on(x, fractions):
    total = _total(x, fractions)

    def gradient(*arguments, upstream=None):
        # The gradient of a key is its own and a fraction of that of the next key.
        upstream = arguments[0] if upstream is None else upstream
        back = _total(ops.flip(upstream, axis=-1), ops.flip(_shifted(fractions, 1), axis=-1))
        of_x = ops.flip(back, axis=-1)
        return of_x, _shifted(of_x, -1) * total

    return total, gradient


def _total(x, fractions):
    def look_further(distance, total, product):
        total = total + product * _shifted(total, distance)
        return distance * 2, total, product * _shifted(product, distance)

    length, distance, product = shape_of(x)[-1], 1, _shifted(fractions, 1)
    if not isinstance(length, int):
        start = ops.convert_to_tensor(distance, "int32"), x, product
        return ops.while_loop(lambda distance, *_: distance < length, look_further, start)[1]
    while distance < length:
        distance, x, product = look_further(distance, x, product)
    return x


def moved(weights, visible=None):
    """Returns weights moved from each key to the next visible one; those of the last are lost.

    Args:
        weights: Tensor `(..., key_length)`.
        visible: Boolean tensor that broadcasts to `weights`, or `None` for all visible.
    """
    weights = _shifted(weights, 1)
    if visible is None:
        return weights
    past_hidden = ops.where(visible, 0.0, ops.ones_like(weights))
    return ops.where(visible, passed_on(weights, past_hidden), 0.0)


def _shifted(x, distance):
    """Returns `x` moved towards the end, or towards the start if negative, with zeros behind."""
    length = shape_of(x)[-1]
    places = ops.arange(length, dtype="int32") - distance
    is_inside = ops.logical_and(places >= 0, places < length)
    return ops.where(is_inside, ops.take(x, ops.clip(places, 0, length - 1), axis=-1), 0.0)
