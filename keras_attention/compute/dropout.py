"""Dropout of weights that can be reproduced tile by tile."""

import keras
from keras import ops

from keras_attention._backend import shape_of, uniform_of_seed


class WeightDropout:
    """Drops weights and scales up the remaining ones.

    Args:
        rate: Fraction of the weights to drop.
        seed_generator: A `keras.random.SeedGenerator`.
    """

    def __init__(self, rate, seed_generator):
        self.rate, self.seed_generator = rate, seed_generator

    def __call__(self, weights):
        return keras.random.dropout(weights, self.rate, seed=self.seed_generator)

    def for_tiles(self):
        """Returns a function of the weights and the number of a tile.

        The same number drops the same weights, so that the gradient matches the output.
        """
        # The generator's next state differs by only 1, so tiles are numbered from a random offset.
        first = keras.random.randint(
            (2,), 0, 2**31 - 2**24, dtype="int32", seed=self.seed_generator
        )

        def drop(weights, tile):
            seed = ops.stack([first[0], first[1] + ops.cast(tile, "int32")])
            uniform = uniform_of_seed(shape_of(weights), seed)
            return ops.where(uniform >= self.rate, weights / (1.0 - self.rate), 0.0)

        return drop
