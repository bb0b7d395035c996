"""Every score with each of its options, and random inputs and weights for them."""

import keras
import numpy as np
from keras import ops

from keras_attention import scores
from tests.attention import oracle

BATCH, HEADS, QUERIES, KEYS, SIZE = 2, 3, 4, 6, 5
RNG = np.random.default_rng(0)

# Every score with each of its options, and widths that only some pairs are within.
SCORES = {
    "dot": scores.Dot,
    "scaled_dot": scores.ScaledDot,
    "scaled_dot, scale": lambda: scores.ScaledDot(scale=0.3),
    "general": scores.General,
    "cosine": scores.Cosine,
    "cosine, sharpness": lambda: scores.Cosine(sharpness=3.0),
    "cosine, learned sharpness": lambda: scores.Cosine(2.0, learned_sharpness=True),
    "additive": scores.Additive,
    "additive, normalized": lambda: scores.Additive(units=7, normalized=True),
    "additive, leaky": lambda: scores.Additive(activation="leaky_relu"),
    "linear_additive": scores.LinearAdditive,
    "linear_additive, leaky": lambda: scores.LinearAdditive(activation="leaky_relu"),
    "trilinear": scores.Trilinear,
    "location": lambda: scores.Location(max_length=8),
    "dense_synthesizer": lambda: scores.DenseSynthesizer(max_length=8),
    "dense_synthesizer, units": lambda: scores.DenseSynthesizer(max_length=8, units=3),
    "random_synthesizer": lambda: scores.RandomSynthesizer(max_length=8),
    "random_synthesizer, rank": lambda: scores.RandomSynthesizer(max_length=8, rank=2),
    "euclidean": scores.Euclidean,
    "gaussian": lambda: scores.Gaussian(width=2.0),
    "gaussian, learned width": lambda: scores.Gaussian(2.0, learned_width=True),
    "boxcar": lambda: scores.Boxcar(width=2.9),
    "triangular": lambda: scores.Triangular(width=3.1),
    "triangular, learned width": lambda: scores.Triangular(3.1, learned_width=True),
    "epanechnikov": lambda: scores.Epanechnikov(width=3.1),
    "epanechnikov, learned width": lambda: scores.Epanechnikov(3.1, learned_width=True),
}


def random(*shape, dtype="float32"):
    """Random numbers that this dtype represents exactly, in float64."""
    return oracle.float64(ops.cast(RNG.normal(size=shape), dtype))


def tensor(x, dtype="float32"):
    return ops.cast(x, dtype)


def randomize(layer):
    """Perturbs every weight, so that zero biases matter, too."""
    for variable in layer.weights:
        variable.assign(variable + 0.3 * RNG.normal(size=variable.shape))


def built(name, heads=(), size=SIZE, dtype="float32"):
    """A score with random weights."""
    score = SCORES[name]()
    score.dtype_policy = keras.dtype_policies.get(dtype)
    score.build((BATCH, *heads, QUERIES, size), (BATCH, *heads, KEYS, size))
    randomize(score)
    return score
