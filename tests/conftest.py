"""What every test begins with, what `--full` adds to tests, and how others save time."""

import contextlib
import random

import pytest


@pytest.fixture(autouse=True)
def seeded():
    """The same initial weights in every run: Keras seeds its initializers by Python's `random`.

    `keras.utils.set_random_seed` would also throw away what TensorFlow has compiled, each time.
    """
    random.seed(0)


def pytest_configure(config):
    # TensorFlow says so whenever `eagerly` meets `tf.data`, which is as it should be.
    config.addinivalue_line("filterwarnings", "ignore:Even though the `tf.config")


@pytest.fixture(autouse=True)
def every_form(request, monkeypatch):
    """With `--full`, every test of gradients finds them eager, in a graph and with XLA."""
    if request.config.getoption("--full"):
        monkeypatch.setattr("tests.attention.gradients.IN_EVERY_FORM", True)


@pytest.fixture
def eagerly(request):
    """Runs what TensorFlow would trace for a second or two as it is; with `--full`, traces it.

    For tests whose subject is what a model answers: others trace, export and compile its like.
    """
    with without_graphs(request.config):
        yield


@contextlib.contextmanager
def without_graphs(config):
    """Does for a fixture of a module what `eagerly` does for a test."""
    import tensorflow as tf  # not above: other backends need none

    tf.config.run_functions_eagerly(not config.getoption("--full"))
    try:
        yield
    finally:
        tf.config.run_functions_eagerly(False)


@pytest.fixture(autouse=True, scope="module")
def graphs_as_written(request):
    """Spares files of tasks a seventh of their time: TensorFlow runs their graphs as they are.

    Else it rewrites each graph before it runs, which those of layers and of decoding, all examples,
    processes and servers meet in every run, and every test with `--full`.
    """
    spared = request.path.parent.name in ("zoo", "checkpoints", "serving")
    if request.config.getoption("--full") or not spared:
        yield
        return
    import tensorflow as tf

    tf.config.optimizer.set_experimental_options({"disable_meta_optimizer": True})
    yield
    tf.config.optimizer.set_experimental_options({"disable_meta_optimizer": False})
