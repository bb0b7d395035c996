"""What the tests of users' mistakes share: inputs, and calls with them."""

import keras
import numpy as np
import pytest

from keras_attention import Attention, MultiHeadAttention

QUERY, VALUE = np.ones((2, 3, 4), "float32"), np.ones((2, 5, 4), "float32")
NARROW = np.ones((2, 5, 6), "float32")


def attend(layer=None, query=QUERY, value=VALUE, key=None, **arguments):
    return lambda: (layer or Attention())(query, value, key, **arguments)


def attend_again(query, value, layer=None):
    """Calls a layer that has been built with valid inputs."""
    layer = layer or Attention()
    layer(QUERY, VALUE)
    return layer(query, value)


def ones(*shape):
    return np.ones(shape, bool)


def gru():
    return keras.layers.GRUCell(8)


def share(**part):
    """Passes one object to layers with different numbers of heads."""
    Attention(**part)(QUERY, VALUE)
    return MultiHeadAttention(4, 3, **part)(QUERY, VALUE)


def check_message(make, fragments):
    """Makes a mistake, and looks for fragments in the message of the error."""
    with pytest.raises((ValueError, NotImplementedError)) as caught:
        make()
    for fragment in fragments:
        assert fragment in str(caught.value)
