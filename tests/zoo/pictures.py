"""Toy pictures of two colors, their captions, and a backbone that needs no download."""

import keras
import numpy as np
from keras import ops

COLORS = {"red": (220, 30, 30), "green": (30, 200, 60), "blue": (40, 60, 220)}
SIZE, GRID, CHANNELS = 8, (2, 2), 4


@keras.saving.register_keras_serializable(package="tests")
class MeanColors(keras.layers.Layer):
    """A backbone that annotates each quarter of an image with its mean color and its side."""

    image_size, grid, channels = SIZE, GRID, CHANNELS

    def __init__(self, brightness=1.0):
        super().__init__(name="mean_colors", dtype="float32")
        self.brightness = brightness

    def call(self, images):
        quarters = ops.average_pool(images / 255.0, SIZE // 2, SIZE // 2)  # (batch, 2, 2, 3)
        side = ops.zeros_like(quarters[..., :1]) + ops.array([[0.0], [1.0]])
        quarters = ops.concatenate([quarters, side], axis=-1)
        return self.brightness * ops.reshape(quarters, (-1, 4, CHANNELS))

    def fingerprint(self):
        return [self.brightness]

    def check_fingerprint(self, expected):
        if expected != self.fingerprint():
            raise ValueError(f"The fingerprint should be {expected}.")

    def get_config(self):
        return {
            "name": self.name,
            "layers": [],
            "image_size": self.image_size,
            "fingerprint": self.fingerprint(),
        }

    @classmethod
    def from_config(cls, config):
        return cls(*config["fingerprint"])


def picture(left, right):
    pixels = np.zeros((10, 12, 3), "uint8")
    pixels[:, :6], pixels[:, 6:] = COLORS[left], COLORS[right]
    return pixels


NAMES = [(left, right) for left in COLORS for right in COLORS if left != right]
IMAGES = [picture(*names) for names in NAMES]
CAPTIONS = [f"{left} before {right}" for left, right in NAMES]
