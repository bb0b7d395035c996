"""TensorFlow without the lines that it logs while it starts."""

import contextlib
import importlib
import os

LEVEL, NONE = "TF_CPP_MIN_LOG_LEVEL", "3"


def import_tensorflow():
    """Imports TensorFlow, whose C++ logs are off unless `TF_CPP_MIN_LOG_LEVEL` asks for some.

    The level counts as soon as TensorFlow is there, here and in processes that start from here.
    What TensorFlow logs before goes to the file descriptor of standard error, which points nowhere
    in the meantime.
    """
    if os.environ.setdefault(LEVEL, NONE) != NONE:
        return
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
