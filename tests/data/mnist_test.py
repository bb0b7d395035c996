"""The splits of MNIST."""

import pytest

from zoo.data.mnist import load_mnist


def test_another_split_is_an_error():
    with pytest.raises(ValueError, match="split of MNIST 'valid'.*'validation'"):
        load_mnist("valid")
