"""The conformance suite on PyTorch; without `--full`, only part of it."""

import keras
import pytest

from tests.backends import conformance


@pytest.mark.skipif(keras.backend.backend() != "tensorflow", reason="it would call itself")
def test_layers_on_pytorch(request):
    is_full = request.config.getoption("--full")
    part = conformance.PART + " or weights_of_a_layer"
    part += " or steps_of_arrays or lengths0 and empty_lengths or no_rows"
    part += " or magnitude or softmax and (whatever_floatx_is or hidden_places and nan)"
    part += " or padding_changes_nothing or mask-image or (axes_may_be_empty and coarse)"
    part += " or (axes_may_be_empty and sparsemax)"
    part += " or axes_may_be_empty_or_one or not_convolved or (axes_may_be_empty and places)"
    conformance.run("torch", "not compile" if is_full else part, is_full)
