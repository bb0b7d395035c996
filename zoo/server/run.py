"""The process of a server."""

import functools
import logging
import os
import signal
import socket
import sys

import uvicorn

from zoo.server.app import make_app
from zoo.server.connections import Connection
from zoo.server.limits import Limits

SECONDS_TO_FINISH = 30


def bind(host="127.0.0.1", port=8501):
    """Returns a socket that listens at an address, and holds it while models are loaded.

    Clients that connect before the models are there wait for them.

    Args:
        host: Address to listen on; by default only reachable from this machine.
        port: Port; 0 for any that is free.

    Raises:
        ValueError: If another program listens there, or this machine has no such address.
    """
    bound = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET)
    bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # right after a server has ended
    try:
        bound.bind((host, port))
        bound.listen()  # until then, others can take the same address
    except OSError as error:
        bound.close()
        raise ValueError(
            f"Cannot listen on port {port} of {host}: {error.strerror}. Choose another port or "
            "host."
        ) from error
    return bound


def run(models, bound, token=None, limits=None):
    """Serves models until the process is told to stop, and finishes running requests.

    SIGTERM then ends the process with status 0, without `finally` and `atexit`. Throughput is best
    with one thread per request. To set this, as `zoo serve` does, call
    `tf.config.threading.set_intra_op_parallelism_threads(1)` before models are loaded.

    Args:
        models: List of what `model_of` returns.
        bound: The socket to listen on, from `bind`.
        token, limits: As for `make_app`.
    """
    # uvicorn finishes what runs, and then hands the signal on to whoever handled it before.
    signal.signal(signal.SIGTERM, _exit)
    limits = limits or Limits()
    config = uvicorn.Config(
        make_app(models, limits, token),
        http=functools.partial(Connection, limits),
        log_level="warning",
        access_log=False,
        timeout_graceful_shutdown=SECONDS_TO_FINISH,
    )
    uvicorn.Server(config).run(sockets=[bound])


def _exit(*_):
    """Ends the process, without waiting for threads whose answers were given up, as Python does."""
    try:
        sys.stdout.flush()
        logging.shutdown()
    finally:
        os._exit(0)
