"""TensorFlow without the lines that it logs while it starts."""

import contextlib
import importlib
import os

LEVEL = "TF_CPP_MIN_LOG_LEVEL"


def import_tensorflow():
    """Imports TensorFlow, whose C++ logs are off unless `TF_CPP_MIN_LOG_LEVEL` is set.

    The level counts as soon as TensorFlow is there. What it logs before goes to the file descriptor
    of standard error, which points nowhere in the meantime.
    """
    if LEVEL in os.environ:
        return
    os.environ[LEVEL] = "3"
    with _without_standard_error():
        importlib.import_module("tensorflow")


@contextlib.contextmanager
def _without_standard_error():
    try:
        kept = os.dup(2)
    except OSError:  # there is none
        yield
        return
    nowhere = os.open(os.devnull, os.O_WRONLY)
    try:
        os.dup2(nowhere, 2)
        yield
    finally:
        os.dup2(kept, 2)
        os.close(nowhere)
        os.close(kept)
