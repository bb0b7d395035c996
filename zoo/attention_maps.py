"""The attention of every layer and head of a model, to be looked at."""

from typing import NamedTuple

import numpy as np

from keras_attention.plotting import plot_alignment, plot_heads
from zoo.decoding.base import require


class AttentionMaps(NamedTuple):
    """Who looks at whom, in every layer and head.

    Attributes:
        weights: float32 array `(layers, heads, queries, keys)`; rows sum to 1.
        query_tokens: List of `str`, who looks.
        key_tokens: List of `str`, who is looked at.
    """

    weights: np.ndarray
    query_tokens: list
    key_tokens: list

    def plot(self, layer=-1, head=None):
        """Draws one head, or all heads of a layer side by side.

        Args:
            layer: Number of the layer, from 0; below 0 it counts from the last one.
            head: Number of the head, or `None` for all.

        Returns:
            The `matplotlib.figure.Figure`.

        Raises:
            ValueError: If there is no such layer or head.
        """
        layers, heads = self.weights.shape[:2]
        require(-layers <= layer < layers, f"a layer from 0 to {layers - 1}", layer=layer)
        if head is None:
            return plot_heads(self.weights[layer], self.key_tokens, self.query_tokens)
        require(-heads <= head < heads, f"a head from 0 to {heads - 1}", head=head)
        return plot_alignment(self.weights[layer, head], self.key_tokens, self.query_tokens)


class TranslationAttention(NamedTuple):
    """The three kinds of attention in an encoder and decoder, each an `AttentionMaps`.

    Attributes:
        encoder: Of source tokens to each other.
        decoder: Of target tokens to those before; each predicts the one after it.
        cross: Of target tokens to those of the source.
    """

    encoder: AttentionMaps
    decoder: AttentionMaps
    cross: AttentionMaps


def stacked(weights):
    """Returns `(layers, heads, queries, keys)` of the first example, from a list of layers."""
    return np.stack([np.asarray(of_layer)[0] for of_layer in weights]).astype("float32")
