"""What every doctest may use without importing it, and how many threads a worker has."""

import os

if "PYTEST_XDIST_WORKER" in os.environ:  # they share the cores
    os.environ |= {"TF_NUM_INTRAOP_THREADS": "1", "OMP_NUM_THREADS": "1"}

import keras
import numpy as np
import pytest


@pytest.fixture(autouse=True)
def _doctest_names(doctest_namespace):
    doctest_namespace.update(np=np, keras=keras)
