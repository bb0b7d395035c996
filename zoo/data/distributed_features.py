"""Features of collections that outgrow one machine, by Dask.

Dask is chosen because it is Python alone and pins nothing that TensorFlow needs: Apache Beam holds
protobuf below 7 and Pillow and pyarrow back with it, Ray brings a runtime of 70 MB and servers of
its own. A cluster may be processes of one machine, a batch system, Kubernetes or a cloud; the
shards of a worker that is lost are computed by others.

Install it with `pip install "keras-attention-zoo[distributed]"`.
"""

import functools
import itertools
import json

from zoo.data.feature_shards import compute_shard
from zoo.data.features import begin, finish, missing_shards, progress_bar
from zoo.models.backbone import Backbone


def cache_features(client, backbone, images, folder, views=1, batch_size=32, shards=None):
    """Does what `zoo.data.features.cache_features` does, on a cluster.

    Every worker makes the backbone from its config, and checks its fingerprint, so it needs the
    same weights. The folder, and the files that `images` names, must be the same for all, as on a
    network drive. Workers of one thread each are best: TensorFlow takes the cores it finds.

    Args:
        client: `distributed.Client` of the cluster.
        backbone, images, folder, views, batch_size, shards: As for
            `zoo.data.features.cache_features`.
            Let `"image"` be paths: contents would all pass through this process.

    Returns:
        `pathlib.Path` of the folder.

    Raises:
        ValueError: As by `zoo.data.features.cache_features`.

    Example:

    >>> from distributed import Client  # doctest: +SKIP
    >>> client = Client("tcp://scheduler:8786")  # doctest: +SKIP
    >>> cache_features(client, Backbone(), images, "/mnt/features", views=8)  # doctest: +SKIP
    """
    from distributed import as_completed  # whoever has a client has it

    manifest = begin(backbone, images, folder, views, batch_size, shards)
    progress = progress_bar(manifest, folder, views)
    config = json.dumps(backbone.get_config())

    def submit(examples, path, view):
        return client.submit(_compute, config, examples, str(path), view, batch_size, pure=False)

    # Some shards more than there are threads: nobody waits, and not all wait here in memory.
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
    """A worker makes its backbone once."""
    return Backbone(**json.loads(config))
