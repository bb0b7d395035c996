"""Features of collections that outgrow one machine, computed with Dask.

Dask is pure Python and pins nothing that TensorFlow needs. Apache Beam keeps protobuf below 7, and
thereby holds back Pillow and pyarrow; Ray brings a runtime of 70 MB and its own servers. A cluster
may be processes of one machine, a batch system, Kubernetes or a cloud; if a worker is lost, others
compute its shards.

Install it with `pip install "keras-attention-zoo[distributed]"`.
"""

import functools
import itertools
import json

from zoo.data.feature_shards import compute_shard
from zoo.data.features import begin, finish, missing_shards, progress_bar
from zoo.models.backbone import Backbone


def cache_features(client, backbone, images, folder, views=1, batch_size=32, shards=None):
    """Does the same as `zoo.data.features.cache_features`, on a cluster.

    Every worker makes the backbone from its config and checks its fingerprint, so it needs the same
    weights. All workers must see the same folder and the same files that `images` names, as on a
    network drive. Workers with one thread each are best: TensorFlow uses all cores anyway.

    Args:
        client: `distributed.Client` of the cluster.
        backbone, images, folder, views, batch_size, shards: As for
            `zoo.data.features.cache_features`.
            `"image"` should be paths: contents would all pass through this process.

    Returns:
        `pathlib.Path` of the folder.

    Raises:
        ValueError: As by `zoo.data.features.cache_features`.

    Example:

    >>> from distributed import Client  # doctest: +SKIP
    >>> client = Client("tcp://scheduler:8786")  # doctest: +SKIP
    >>> cache_features(client, Backbone(), images, "/mnt/features", views=8)  # doctest: +SKIP
    """
    from distributed import as_completed  # is there if a client is

    manifest = begin(backbone, images, folder, views, batch_size, shards)
    progress = progress_bar(manifest, folder, views)
    config = json.dumps(backbone.get_config())

    def submit(examples, path, view):
        return client.submit(_compute, config, examples, str(path), view, batch_size, pure=False)

    # A few more shards than threads: no worker is idle, and memory does not hold all shards.
    missing = missing_shards(manifest, images, folder, views)
    ahead = 2 * max(1, sum(client.nthreads().values()))
    running = as_completed(submit(*job) for job in itertools.islice(missing, ahead))
    for done in running:
        progress(done.result())
        for job in itertools.islice(missing, 1):
            running.add(submit(*job))
    return finish(folder)


def _compute(config, examples, path, view, batch_size):
    return compute_shard(_backbone(config), examples, path, view, batch_size)


@functools.lru_cache(maxsize=1)
def _backbone(config):
    """Returns the backbone, which each worker makes only once."""
    return Backbone(**json.loads(config))
