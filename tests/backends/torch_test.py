"""The conformance suite on PyTorch."""

import keras
import pytest

from tests.backends import conformance


@pytest.mark.skipif(keras.backend.backend() != "tensorflow", reason="it would call itself")
def test_layers_on_pytorch(request):
    is_full = request.config.getoption("--full")
    part = "not compile" if is_full else "not compile and not single and not learn_the_same"
    conformance.run("torch", part, is_full)
