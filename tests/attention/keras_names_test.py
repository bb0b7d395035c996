"""The private Keras names that the layers need still exist and do what they did."""

from pathlib import Path

import keras
import numpy as np
from keras import ops

import keras_attention
from keras_attention import _keras
from keras_attention._keras import get_keras_mask, in_symbolic_scope, set_keras_mask


def test_no_other_file_has_one():
    files = Path(keras_attention.__file__).parent.rglob("*.py")
    found = {file.name for file in files if "keras.src" in file.read_text(encoding="utf-8")}
    assert found == {"_keras.py"}


def test_a_mask_goes_with_a_tensor():
    tensor, mask = ops.ones((2, 3)), ops.ones((2, 3), "bool")
    assert get_keras_mask(tensor) is None
    set_keras_mask(tensor, mask)
    assert get_keras_mask(tensor) is mask


def test_scopes_tell_whether_they_are_symbolic():
    seen = []

    class Asks(keras.layers.Layer):
        def call(self, x):
            seen.append(in_symbolic_scope())
            return x

    layer = Asks()
    layer(keras.Input((3,)))
    layer(np.ones((2, 3)))
    assert seen == [True, False]


def test_every_generator_of_a_layer_is_found():
    block = keras_attention.EncoderBlock(2, 8, dropout=0.1, attention_dropout=0.1)
    block.build((None, 3, 4))
    found = _keras.seed_generators(block)
    states = [each for each in block.non_trainable_variables if "seed" in each.path]
    assert {each.state.path for each in found} == {each.path for each in states}
    assert len(found) > 1
