"""The description of a folder of features: its `manifest.json`."""

import dataclasses
import json
import pathlib

from zoo.atomic import whole
from zoo.data.feature_shards import DTYPE

NAME = "manifest.json"


@dataclasses.dataclass(frozen=True)
class Manifest:
    """The description of a folder of features.

    Args:
        examples: Number of images.
        digest: Hash of their names, contents and captions, in order.
        captions: Number of captions of every image, `None` if it varies.
        shape: Positions and channels of the features of an image.
        backbone: Config of the backbone, with its fingerprint.
        views: Number of views.
        shards: Number of files of each view.
        dtype: Data type of the features.
        version: Version of this format.
    """

    examples: int
    digest: str
    captions: int | None
    shape: tuple
    backbone: dict
    views: int
    shards: int
    dtype: str = DTYPE
    version: int = 1

    @classmethod
    def read(cls, folder):
        """Reads the manifest of a folder; raises a `FileNotFoundError` if there is none."""
        path = pathlib.Path(folder) / NAME
        if not path.is_file():
            raise FileNotFoundError(
                f"'{folder}' holds no features: there is no {NAME} in it. "
                "zoo.data.features.cache_features(backbone, images, folder) computes them."
            )
        return cls(**json.loads(path.read_text(encoding="utf-8")))

    def write(self, folder):
        """Writes the manifest into a folder, in place of an existing one."""
        with whole(pathlib.Path(folder) / NAME) as unfinished:
            text = json.dumps(dataclasses.asdict(self), indent=2)
            unfinished.write_text(text + "\n", encoding="utf-8")

    def paths(self, folder, view):
        """Returns the files of a view, in order."""
        folder = pathlib.Path(folder) / f"view-{view}"
        return [
            folder / f"{shard:05d}-of-{self.shards:05d}.tfrecord" for shard in range(self.shards)
        ]

    def sizes(self):
        """Returns the number of images of each shard."""
        ends = [self.examples * end // self.shards for end in range(self.shards + 1)]
        return [end - start for start, end in zip(ends, ends[1:], strict=False)]

    def require_backbone(self, backbone, folder):
        """Raises a `ValueError` unless the features are those of a backbone."""
        config = backbone.get_config()
        for name in ("name", "layers", "image_size", "grid"):
            asked, there = config.get(name), self.backbone.get(name)
            if asked != there:
                raise ValueError(
                    f"'{folder}' holds features of a backbone with {name}={there!r}. "
                    f"Received: {name}={asked!r}. Choose another folder, or that backbone."
                )
        try:
            backbone.check_fingerprint(self.backbone["fingerprint"])
        except ValueError as error:
            raise ValueError(f"'{folder}' holds features of other weights. {error}") from None
