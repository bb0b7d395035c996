"""A part of the conformance suite on JAX, which compiles every new shape for a second."""

import keras
import pytest

from tests.backends import conformance

PART = (
    "several and ((test_equals_the_equations and (nested or causal))"
    " or (hidden and chunked and (additive or cosine or boxcar))"
    " or (finite_differences and chunked and (additive or dot)))"
    " or trains_in_a_model"
    " or (equations and grouped and GRUCell and luong) or leaves_no_tile or empty_lengths"
    " or tiny_sums or other_places or closed_form"
)


@pytest.mark.skipif(keras.backend.backend() != "tensorflow", reason="it would call itself")
def test_layers_on_jax(request):
    is_full = request.config.getoption("--full")
    conformance.run("jax", PART, is_full, JAX_DISABLE_MOST_OPTIMIZATIONS="1")
