"""What every doctest may use without importing it, how many threads a worker has, and `--full`."""

import collections
import gc
import itertools
import os

if "PYTEST_XDIST_WORKER" in os.environ:  # they share the cores
    os.environ |= {"TF_NUM_INTRAOP_THREADS": "1", "OMP_NUM_THREADS": "1"}

import numpy as np
import pytest

LONG = ("tests/zoo/", "tests/serving/", "tests/backends/", "tests/readme_test.py")
# Examples that take seconds; tests show the same with tiny models.
DOCTESTS_WITH_FULL = ("recognition.Recognizer", "TextGenerator.stream_tokens")


def pytest_addoption(parser):
    parser.addoption("--full", action="store_true", help="Run every case of every test.")


def pytest_configure(config):
    config.addinivalue_line("markers", "full: a large product of cases, which only --full runs")
    config.addinivalue_line(
        "markers", "pairwise: without --full, cases in which each pair of parameters occurs"
    )
    config.addinivalue_line("markers", "few(n): without --full, n cases, spread evenly")
    if not config.getoption("--full"):  # else code that runs once is optimized for many runs
        os.environ.setdefault("XLA_FLAGS", "--xla_llvm_disable_expensive_passes=true")


def pytest_collection_finish(session):
    """Spares the collector what libraries brought along, which it looks through at each trace."""
    gc.freeze()
    if not session.config.getoption("--full"):  # whose garbage would not fit the memory
        gc.set_threshold(50_000, 20, 100)


def pytest_sessionfinish():
    """Spares pytest five searches for garbage in what ends with the process."""
    gc.freeze()


def pytest_collection_modifyitems(config, items):
    # Long files first: at the end, a worker without a file has to wait for the others.
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
    if cases[0].get_closest_marker("pairwise"):
        cases = _pairwise(cases)
    few = cases[0].get_closest_marker("few")
    if few:
        number = min(*few.args, len(cases))
        cases = [cases[(2 * place + 1) * len(cases) // (2 * number)] for place in range(number)]
    return [
        case
        for case in cases
        if not case.get_closest_marker("full") and not case.nodeid.endswith(DOCTESTS_WITH_FULL)
    ]


def _pairwise(cases):
    """Returns few cases of a test in which each pair of values of its parameters occurs.

    Greedily, the next case has as many new pairs as possible.
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
def _doctest_names(doctest_namespace):
    import keras  # not above: it takes seconds, and the process that hands out tests needs none

    doctest_namespace.update(np=np, keras=keras)
