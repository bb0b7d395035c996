"""What every test begins with."""

import random

import pytest


@pytest.fixture(autouse=True)
def seeded():
    """The same initial weights in every run: Keras seeds its initializers by Python's `random`.

    `keras.utils.set_random_seed` would also throw away what TensorFlow has compiled, each time.
    """
    random.seed(0)
