"""Part of the conformance suite on JAX, which takes a second to compile each new shape."""

import keras
import pytest

from tests.backends import conformance

WITH_FULL = (
    " or (several and ((test_equals_the_equations and (nested or gaussian))"
    " or (hidden and chunked and (cosine or boxcar))"
    " or (finite_differences and chunked and (additive or dot))))"
    " or steps_of_arrays or empty_lengths or leaves_no_tile or tiny_sums"
    " or exported_for_unknown_lengths or cross_covariance_test or mask-image"
)


@pytest.mark.skipif(keras.backend.backend() != "tensorflow", reason="it would call itself")
def test_layers_on_jax(request):
    is_full = request.config.getoption("--full")
    part = conformance.PART + WITH_FULL if is_full else conformance.PART
    conformance.run("jax", part, is_full, JAX_DISABLE_MOST_OPTIMIZATIONS="1")
