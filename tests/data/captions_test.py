"""Wrong data of captioners is told the way out."""

import pytest
import tensorflow as tf

from zoo.data.captions import pictured


def test_lists_and_batches_of_images_with_captions_are_told_the_way_out():
    with pytest.raises(ValueError, match=r"images, captions = zip\(\*pairs\)"):
        pictured([("cat.png", "a cat")])
    batches = tf.data.Dataset.from_tensors({"image": [b"cat"], "captions": [["a cat"]]})
    with pytest.raises(ValueError, match=r"a data set of .*dataset\.unbatch\(\)"):
        pictured(batches)
