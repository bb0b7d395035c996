"""What every test begins with, and what `--full` adds to each test of gradients."""

import random

import pytest


@pytest.fixture(autouse=True)
def seeded():
    """The same initial weights in every run: Keras seeds its initializers by Python's `random`.

    `keras.utils.set_random_seed` would also throw away what TensorFlow has compiled, each time.
    """
    random.seed(0)


@pytest.fixture(autouse=True)
def every_form(request, monkeypatch):
    """With `--full`, every test of gradients finds them eager, in a graph and with XLA."""
    if request.config.getoption("--full"):
        monkeypatch.setattr("tests.attention.gradients.IN_EVERY_FORM", True)
