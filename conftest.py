"""What every doctest may use without importing it, how many threads a worker has, and `--full`."""

import os

if "PYTEST_XDIST_WORKER" in os.environ:  # they share the cores
    os.environ |= {"TF_NUM_INTRAOP_THREADS": "1", "OMP_NUM_THREADS": "1"}

import keras
import numpy as np
import pytest


def pytest_addoption(parser):
    parser.addoption("--full", action="store_true", help="Also run the tests marked `full`.")


def pytest_configure(config):
    config.addinivalue_line("markers", "full: a large product of cases, which only --full runs")


def pytest_collection_modifyitems(config, items):
    if config.getoption("--full"):
        return
    left_out = [item for item in items if item.get_closest_marker("full")]
    if left_out:
        config.hook.pytest_deselected(items=left_out)
        items[:] = [item for item in items if not item.get_closest_marker("full")]


@pytest.fixture(autouse=True)
def _doctest_names(doctest_namespace):
    doctest_namespace.update(np=np, keras=keras)
