"""Pictures: decoded in graphs, turned into annotation vectors, and these kept on disk."""

from zoo.images.backbone import Backbone
from zoo.images.features import cache_features, load_features
from zoo.images.reading import image_bytes, read_image, read_images

__all__ = [
    "Backbone",
    "cache_features",
    "image_bytes",
    "load_features",
    "read_image",
    "read_images",
]
