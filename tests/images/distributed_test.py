"""Shards computed by a Dask cluster, if Dask is installed."""

import pytest

from tests.images import pictures
from tests.images.comparison import assert_same_features
from zoo.data import distributed_features as distributed
from zoo.data.feature_manifest import Manifest
from zoo.data.features import cache_features

dask = pytest.importorskip("distributed")


@pytest.fixture(scope="module")
def client():
    with (
        dask.LocalCluster(
            n_workers=2,
            threads_per_worker=1,
            processes=False,
            memory_limit=None,  # the memory of this process is that of all tests before
            dashboard_address=None,
        ) as cluster,
        dask.Client(cluster) as client,
    ):
        yield client


@pytest.mark.full
def test_a_cluster_writes_the_same_files(tmp_path, client, backbone, examples):
    for example in examples:
        (tmp_path / example["name"]).write_bytes(example["image"])
    by_path = [{**each, "image": str(tmp_path / each["name"])} for each in examples]
    alone = cache_features(backbone, by_path, tmp_path / "alone", views=2, shards=6)
    together = tmp_path / "together"
    folder = distributed.cache_features(client, backbone, by_path, together, views=2, shards=6)
    assert Manifest.read(alone) == Manifest.read(folder)
    for view in range(2):
        assert_same_features(folder, alone, view)


def test_errors_of_workers_come_through(tmp_path, client, backbone):
    broken = {"name": "broken.jpg", "image": pictures.FILES["JPEG"][:-99], "captions": []}
    with pytest.raises(ValueError, match=r"cannot be decoded: broken\.jpg"):
        distributed.cache_features(client, backbone, [broken], tmp_path)
