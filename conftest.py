"""Names and seeds of doctests, the number of threads per worker, and `--full`."""

import collections
import gc
import itertools
import os
import random

if "PYTEST_XDIST_WORKER" in os.environ:  # workers share the cores
    os.environ |= {"TF_NUM_INTRAOP_THREADS": "1", "OMP_NUM_THREADS": "1"}

import numpy as np
import pytest

LONG = ("tests/zoo/", "tests/serving/", "tests/backends/", "tests/readme_test.py")
# Examples that take seconds; tests cover the same with tiny models.
DOCTESTS_WITH_FULL = (
    "recognition.Recognizer",
    "TextGenerator.continuations",
    "TextGenerator.stream_tokens",
    "backbone.Backbone",
)


def pytest_addoption(parser):
    parser.addoption("--full", action="store_true", help="Run every case of every test.")


def pytest_configure(config):
    config.addinivalue_line("markers", "full: a large product of cases, which only --full runs")
    config.addinivalue_line(
        "markers", "pairwise: without --full, cases in which each pair of parameters occurs"
    )
    config.addinivalue_line("markers", "few(n): without --full, n cases, spread evenly")
    if not config.getoption("--full"):  # do not optimize code that runs only once
        flags = "--xla_llvm_disable_expensive_passes=true --xla_backend_optimization_level=0"
        os.environ.setdefault("XLA_FLAGS", flags)


def pytest_collection_finish(session):
    """Excludes the objects of imported libraries from the garbage collection at every trace."""
    gc.freeze()
    if not session.config.getoption("--full"):  # with it, garbage would not fit in memory
        gc.set_threshold(50_000, 20, 100_000)  # everything is much, and rarely garbage


def pytest_sessionfinish():
    """Saves five garbage collections of objects that end with the process anyway."""
    gc.freeze()


def pytest_collection_modifyitems(config, items):
    # Long files first, so that no worker is idle for long while another finishes.
    items.sort(key=lambda item: not item.nodeid.startswith(LONG))
    if config.getoption("--full"):
        return
    tests = collections.defaultdict(list)
    for item in items:
        tests[item.nodeid.partition("[")[0]].append(item)
    kept = {item for cases in tests.values() for item in _chosen(cases)}
    left_out = [item for item in items if item not in kept]
    if left_out:
        config.hook.pytest_deselected(items=left_out)
        items[:] = [item for item in items if item in kept]


def _chosen(cases):
    """Returns the cases of a test that run without `--full`."""
    cases = [
        case
        for case in cases
        if not case.get_closest_marker("full") and not case.nodeid.endswith(DOCTESTS_WITH_FULL)
    ]
    if cases and cases[0].get_closest_marker("pairwise"):
        cases = _pairwise(cases)
    few = cases[0].get_closest_marker("few") if cases else None
    if few:
        number = min(*few.args, len(cases))
        cases = [cases[(2 * place + 1) * len(cases) // (2 * number)] for place in range(number)]
    return cases


def _pairwise(cases):
    """Returns a few cases of a test that cover every pair of its parameters' values.

    The choice is greedy: the next case is one with the most new pairs.
    """
    values = [enumerate(map(repr, case.callspec.params.values())) for case in cases]
    pairs = [set(itertools.combinations(each, 2)) for each in values]
    missing, chosen = set().union(*pairs), []
    while missing:
        best = max(range(len(cases)), key=lambda case: len(pairs[case] & missing))
        chosen.append(cases[best])
        missing -= pairs[best]
    return chosen or cases


@pytest.fixture(autouse=True)
def seeded():
    """Gives the same initial weights in every run: Keras seeds initializers with Python's `random`.

    `keras.utils.set_random_seed` would also discard everything that TensorFlow has compiled.
    """
    random.seed(0)


@pytest.fixture(autouse=True)
def _doctest_names(doctest_namespace):
    import keras  # here, as it takes seconds and xdist's controller does not need it

    doctest_namespace.update(np=np, keras=keras)
