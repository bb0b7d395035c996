"""What `--full` adds to tests, and what saves time without it."""

import contextlib
import os
import sys

import pytest


def pytest_configure(config):
    # TensorFlow warns whenever `eagerly` is used with `tf.data`, which is intended here.
    config.addinivalue_line("filterwarnings", "ignore:Even though the `tf.config")
    starts_workers = config.getoption("numprocesses", None) and not hasattr(config, "workerinput")
    if not starts_workers and not config.getoption("--full"):
        take_data_sets_as_written()


def take_data_sets_as_written():
    """Saves half of the time that data sets take to start: TensorFlow does not optimize them.

    It decides so once, when it starts; calls of other functions follow the setting of their time.
    """
    if os.environ.get("KERAS_BACKEND", "tensorflow") != "tensorflow":
        return
    import tensorflow as tf
    from tensorflow.python.eager import context

    tf.config.optimizer.set_experimental_options({"disable_meta_optimizer": True})
    context.ensure_initialized()
    tf.config.optimizer.set_experimental_options({"disable_meta_optimizer": False})


def pytest_collection_finish(session):
    """Saves a tenth of the time: TensorFlow looks at the stack for each operation of a graph.

    It is for messages about operations that fail, and pytest's stack is deep.
    """
    if session.config.getoption("--full") or "tensorflow" not in sys.modules:
        return
    from tensorflow.python.util import tf_stack

    stack = tf_stack.extract_stack()
    tf_stack.extract_stack = lambda stacklevel: stack


@pytest.fixture(autouse=True, scope="session")
def untuned_data(request):
    """Keeps TensorFlow from tuning data sets, whose thread may be missed when an iterator ends.

    It then sleeps on, for up to a minute, and the test that frees the iterator waits for it.
    Without `--full`, data sets are not rewritten either.
    """
    if "tensorflow" not in sys.modules:  # other backends do not need it
        return
    import tensorflow as tf

    options = tf.data.Options()
    options.autotune.enabled = False
    if not request.config.getoption("--full"):
        options.experimental_optimization.apply_default_optimizations = False
    tf.data.Dataset._apply_debug_options = lambda dataset: dataset.with_options(options)


@pytest.fixture(autouse=True, scope="session")
def one_network(request):
    """Makes a network of `keras.applications` once, whose weights each backbone sets before use."""
    if request.config.getoption("--full") or "zoo.models.backbone" not in sys.modules:
        return
    module = sys.modules["zoo.models.backbone"]
    make, made = module.make_network, {}

    def make_once(name, image_size, weights):
        if weights is not None:
            return make(name, image_size, weights)
        key = name, image_size
        if key not in made:
            made[key] = make(name, image_size, None)
        return made[key]

    module.make_network = make_once


@pytest.fixture(autouse=True)
def every_form(request, monkeypatch):
    """With `--full`, every test of gradients computes them eagerly, in a graph and with XLA."""
    if request.config.getoption("--full"):
        monkeypatch.setattr("tests.attention.gradients.IN_EVERY_FORM", True)


@pytest.fixture
def eagerly(request):
    """Runs functions eagerly that take TensorFlow seconds to trace; traces them with `--full`.

    For tests of what a model returns: other tests trace, export and compile similar models.
    """
    with without_graphs(request.config):
        yield


@contextlib.contextmanager
def without_graphs(config):
    """Does for a module-scoped fixture what `eagerly` does for a test."""
    if config.getoption("--full"):
        yield
        return
    import tensorflow as tf  # here, as other backends do not need it

    kind = type(tf.function(lambda: None))
    concrete = kind.get_concrete_function

    def unless_for_tasks(function, *arguments, **options):
        """Tasks ask for the graph of what they call, which would trace it."""
        caller = sys._getframe(1)
        is_task = caller.f_globals["__name__"].startswith("zoo.tasks.")
        if is_task and caller.f_code.co_name != "_compiled_start":  # whose shapes streams read
            return function
        return concrete(function, *arguments, **options)

    tf.config.run_functions_eagerly(True)
    kind.get_concrete_function = unless_for_tasks
    try:
        yield
    finally:
        kind.get_concrete_function = concrete
        tf.config.run_functions_eagerly(False)


@pytest.fixture(autouse=True, scope="module")
def graphs_as_written(request):
    """Saves a fifth of the time of tests of tasks: TensorFlow takes their graphs as they are.

    It does not optimize them, nor convert the Python code that makes them, which has no control
    flow that depends on tensors. Both are covered in every run by the tests of layers and decoding,
    the examples, subprocesses and servers, and with `--full` by every test. Nor does it draw random
    numbers for a weight whose size alone is asked for.
    """
    spared = request.path.parent.name in ("zoo", "checkpoints", "serving")
    if request.config.getoption("--full") or not spared:
        yield
        return
    import keras
    import tensorflow as tf
    from tensorflow.python.autograph.core import config as autograph

    tf.config.optimizer.set_experimental_options({"disable_meta_optimizer": True})
    rules = autograph.CONVERSION_RULES
    kept = [autograph.DoNotConvert(package) for package in ("zoo", "keras_attention", "tests")]
    autograph.CONVERSION_RULES = (*kept, *rules)
    scaling = keras.initializers.VarianceScaling
    draw = scaling.__call__

    def unless_for_a_shape(initializer, shape, dtype=None):
        """Files limit what is made: a graph, in which nothing runs, tells the size of a weight."""
        if tf.executing_eagerly():
            return draw(initializer, shape, dtype)
        return tf.zeros(shape, dtype)

    scaling.__call__ = unless_for_a_shape
    yield
    scaling.__call__ = draw
    autograph.CONVERSION_RULES = rules
    tf.config.optimizer.set_experimental_options({"disable_meta_optimizer": False})
