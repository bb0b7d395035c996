"""The process of a server."""

import signal
import sys

import uvicorn

from zoo.server.app import make_app

SECONDS_TO_FINISH = 30


def run(models, host="127.0.0.1", port=8501, token=None, limits=None):
    """Serves models until the process is told to stop, and finishes running requests.

    SIGTERM ends the process with status 0. Throughput is best with one thread per request. To set
    this, as `zoo serve` does, call `tf.config.threading.set_intra_op_parallelism_threads(1)`
    before models are loaded.

    Args:
        models: List of what `model_of` returns.
        host, port: Address to listen on; by default only reachable from this machine.
        token, limits: As for `make_app`.
    """
    # uvicorn finishes what runs, and then hands the signal on to whoever handled it before.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    uvicorn.run(
        make_app(models, limits, token),
        host=host,
        port=port,
        log_level="warning",
        access_log=False,
        timeout_graceful_shutdown=SECONDS_TO_FINISH,
    )
