"""Dropout of weights that can be drawn again, tile by tile."""

import keras
from keras import ops

from keras_attention.compute._backend import uniform_of_seed


class WeightDropout:
    """Drops weights and scales those that stay.

    Args:
        rate: Fraction that is dropped.
        seed_generator: A `keras.random.SeedGenerator`.
    """

    def __init__(self, rate, seed_generator):
        self.rate, self.seed_generator = rate, seed_generator

    def __call__(self, weights):
        return keras.random.dropout(weights, self.rate, seed=self.seed_generator)

    def for_tiles(self):
        """Returns a function of weights and the number of a tile.

        The same number drops the same places, so that a gradient sees what the output saw.
        """
        # The next state is but 1 away: tiles are counted from a random number on, not from there.
        first = keras.random.randint(
            (2,), 0, 2**31 - 2**24, dtype="int32", seed=self.seed_generator
        )

        def drop(weights, tile):
            seed = ops.stack([first[0], first[1] + ops.cast(tile, "int32")])
            uniform = uniform_of_seed(ops.shape(weights), seed)
            return ops.where(uniform >= self.rate, weights / (1.0 - self.rate), 0.0)

        return drop
