"""Workers that answer the rows of files: processes of this machine, or a Dask cluster.

The rows go out in order, and come back in order. The rows of a lost worker go to another one.
"""

import collections
import contextlib
import functools

CLUSTERS = "dask://", "tcp://"  # the second is what Dask prints


def require_workers(where):
    """Raises an error unless `workers` can be asked for.

    Raises:
        ImportError: If Dask is not installed.
        ValueError: If they are neither a number of processes nor a cluster.
    """
    try:
        import distributed  # noqa: F401
    except ImportError as error:
        raise ImportError(
            '--workers needs Dask: pip install "keras-attention-zoo[distributed]"'
        ) from error
    is_number = where.isdecimal() and int(where) > 0
    if not is_number and not where.startswith(CLUSTERS):
        raise ValueError(
            f"--workers must be a number of processes, or {CLUSTERS[0]}HOST:PORT. "
            f"Received: {where!r}."
        )


@contextlib.contextmanager
def workers(where):
    """Yields the `run` argument of `zoo.files.answer_file`, with which workers answer the chunks.

    Args:
        where: A number of processes of this machine, or `"dask://HOST:PORT"`, the scheduler of a
            cluster whose workers have this package and see the same models. `"tcp://HOST:PORT"` is
            the same.
    """
    from distributed import Client

    if where.startswith(CLUSTERS):
        client = Client(f"tcp://{where.partition('://')[2]}")
    else:
        client = Client(n_workers=int(where), threads_per_worker=1, dashboard_address=None)
    with client:
        yield functools.partial(_in_order, client)


def _in_order(client, function, chunks):
    """Yields pairs of a chunk and the result of a function for it on a worker."""
    ahead = 2 * max(1, sum(client.nthreads().values()))  # nobody waits, and not all wait in memory
    waiting = collections.deque()
    for chunk in chunks:
        waiting.append((chunk, client.submit(function, chunk, pure=False)))
        if len(waiting) == ahead:
            yield _done(*waiting.popleft())
    while waiting:
        yield _done(*waiting.popleft())


def _done(chunk, future):
    from distributed import KilledWorker

    try:
        return chunk, future.result()
    except KilledWorker as error:
        raise OSError(
            "Several workers died over the same rows, perhaps out of memory. Run the command "
            "again with fewer or larger workers: it goes on where it stopped."
        ) from error


class OnWorker:
    """A function that answers rows on a worker, with a model that is loaded once.

    Args:
        load: Function that loads the model.
        arguments: Tuple of its arguments.
        answer: Function of the model, contents, and the number of rows before them.
    """

    def __init__(self, load, arguments, answer):
        self.load, self.arguments, self.answer = load, arguments, answer

    def __call__(self, contents, before):
        return self.answer(_loaded(self.load, self.arguments), contents, before)


@functools.lru_cache(maxsize=1)
def _loaded(load, arguments):
    return load(*arguments)
