"""Wrong data of captioners is told the way out."""

import numpy as np
import pytest
import tensorflow as tf

from zoo.data.captions import examples_of_lists, pictured

IMAGE = np.zeros((2, 2, 3), "uint8")


def test_lists_and_batches_of_images_with_captions_are_told_the_way_out():
    with pytest.raises(ValueError, match=r"images, captions = zip\(\*pairs\)"):
        pictured([("cat.png", "a cat")])
    batches = tf.data.Dataset.from_tensors({"image": [b"cat"], "captions": [["a cat"]]})
    with pytest.raises(ValueError, match=r"a data set of .*dataset\.unbatch\(\)"):
        pictured(batches)


def test_the_keys_of_a_dictionary_are_no_captions():
    with pytest.raises(ValueError, match=r"list of captions. Received: \{'a.png': .* type dict"):
        examples_of_lists([IMAGE], {"a.png": "a cat"})
    with pytest.raises(ValueError, match=r"at position 0: \{'raw': 'a cat'\} of type dict"):
        examples_of_lists([IMAGE], [{"raw": "a cat"}])


def test_half_of_a_surrogate_pair_in_a_caption_is_a_replacement_character():
    (example,) = examples_of_lists([IMAGE], ["a \ud83d cat"])
    assert example["captions"].numpy().tolist() == ["a \ufffd cat".encode()]
