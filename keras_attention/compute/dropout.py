"""Dropout of weights that can be drawn again, tile by tile."""

import keras
from keras import ops


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
        seed = self.seed_generator.next()
        # The next seed is but 1 away: tiles are counted from a random number on, not from there.
        first = keras.random.randint((2,), 0, 2**31 - 1, dtype="int32", seed=_Drawn(seed))
        first = ops.cast(first, seed.dtype)

        def drop(weights, tile):
            of_tile = ops.stack([first[0], first[1] + ops.cast(tile, seed.dtype)])
            shape = ops.shape(weights)
            uniform = keras.random.uniform(shape, dtype="float32", seed=_Drawn(of_tile))
            return ops.where(uniform >= self.rate, weights / (1.0 - self.rate), 0.0)

        return drop


class _Drawn(keras.random.SeedGenerator):
    """A seed that is known already, where Keras expects something that draws one."""

    def __init__(self, seed):
        self.seed = seed

    def next(self, ordered=True):
        return self.seed
