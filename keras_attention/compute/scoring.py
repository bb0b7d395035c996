"""The logits of any tile of pairs as a single function of tensors."""

import keras
from keras import ops

from keras_attention.positions import Position
from keras_attention.scores.base import logits


class Scoring:
    """The second phase of a score, the bias of a position object, and the soft cap.

    Args:
        score: A `Score`.
        position: A position object with a bias, or `None`.
        soft_cap: `c` in `c · tanh(logits / c)`, or `None`.
        sink: Weight `(*heads, 1, 1)` that is subtracted from the logits at the end, or `None`.

    Attributes:
        variables: The weights that the logits of prepared queries and keys depend on.
        pair_size: Number of values held for one pair of query and key.
    """

    def __init__(self, score, position=None, soft_cap=None, sink=None):
        self.score, self.position, self.soft_cap, self.sink = score, position, soft_cap, sink
        self.pair_size = score.pair_size
        of_position = [] if position is None else position.weights
        of_sink = [] if sink is None else [sink]
        self.variables = [*_weights_of_pairs(score), *of_position, *of_sink]

    @property
    def has_bias(self):
        """Whether the position adds a bias to the scores."""
        return self.position is not None and type(self.position).bias is not Position.bias

    def weights(self):
        """Returns the weights that the logits depend on, as float32 tensors."""
        return [ops.cast(variable, "float32") for variable in self.variables]

    def __call__(self, queries, key, query_positions, key_positions, weights=None):
        """Returns the logits `(batch, *heads, query_tile, key_tile)`.

        Args:
            queries: Prepared queries of a tile and, if the position uses queries, its features.
            key: Prepared keys of a tile, joined with its features if the position uses keys.
            query_positions, key_positions: int32 vectors, the positions of queries and keys.
            weights: Values to use instead of those of `variables`, in the order of `weights()`.
        """
        if weights is not None:
            with keras.StatelessScope(list(zip(self.variables, weights, strict=True))):
                return self(queries, key, query_positions, key_positions)
        query, *features = queries
        features = features[0] if features else None
        if self.has_bias and self.position.uses_key:
            size = key.shape[-1] - self.position.num_key_features
            key, of_key = ops.split(key, [size], axis=-1)
            features = features, of_key
        pairs = logits(self.score, query, key)
        if self.has_bias:
            bias = self.position.bias(features, query_positions, key_positions)
            scale = self.position.score_scale
            pairs = (pairs if scale == 1.0 else scale * pairs) + ops.cast(bias, pairs.dtype)
        if self.soft_cap is not None:
            pairs = self.soft_cap * ops.tanh(pairs / self.soft_cap)
        if self.sink is not None:
            pairs = pairs - ops.cast(self.sink, pairs.dtype)
        return pairs


def _weights_of_pairs(score):
    """Returns the weights that `pairwise` of a score uses.

    A class's `pairwise_weights` describe its own `pairwise`: a subclass that overrides `pairwise`
    but not `pairwise_weights` may use any of its weights.
    """
    defining = {
        name: next(place for place, each in enumerate(type(score).__mro__) if name in vars(each))
        for name in ("pairwise", "pairwise_weights")
    }
    is_declared = defining["pairwise"] >= defining["pairwise_weights"]
    return score.pairwise_weights if is_declared else score.weights
