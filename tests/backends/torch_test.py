"""The conformance suite on PyTorch."""

import keras
import pytest

from tests.backends import conformance


@pytest.mark.skipif(keras.backend.backend() != "tensorflow", reason="it would call itself")
def test_layers_on_pytorch(request):
    conformance.run("torch", "not compile", request.config.getoption("--full"))
