"""What every doctest may use without importing it."""

import keras
import numpy as np
import pytest


@pytest.fixture(autouse=True)
def _doctest_names(doctest_namespace):
    doctest_namespace.update(np=np, keras=keras)
