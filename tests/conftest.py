"""What every test begins with."""

import keras
import pytest


@pytest.fixture(autouse=True)
def seeded():
    """The same random numbers in every run, whichever tests ran before."""
    keras.utils.set_random_seed(0)
