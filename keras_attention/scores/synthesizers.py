"""Synthesizers: scores that are computed from the queries only, or learned directly."""

import keras
from keras import ops

from keras_attention._backend import shape_of
from keras_attention._checks import require_positive_integers_or_none
from keras_attention._initializers import for_each_head
from keras_attention._keras import in_symbolic_scope
from keras_attention._products import matmul
from keras_attention.scores.positional import OfPositions


@keras.saving.register_keras_serializable(package="keras_attention")
class DenseSynthesizer(OfPositions):
    """Dense Synthesizer: the scores of all positions are computed from the query only.

    $$ score(q, k_j) = (W_2 \\max(0, W_1 q))_j $$

    Paper: Tay et al. 2020, Synthesizer: Rethinking Self-Attention for Transformer Models,
    section 3.1 (https://arxiv.org/abs/2005.00743).

    Time `O(Tq · Tk · units)`, weights `(d + max_length) · units` per head.

    Args:
        max_length: Maximum number of keys. `W_2` has a row for each key position.
        units: Size of the hidden layer between `W_1` and `W_2`. `None` uses the query size.
        kernel_initializer: Initializer of `W_1` and `W_2`.

    Raises:
        ValueError: If there are more keys than `max_length`.

    Example:

    >>> score = DenseSynthesizer(max_length=4, kernel_initializer="identity")
    >>> score(np.array([[[7.0, -8.0, 9.0]]]), np.ones((1, 3, 5))).numpy().tolist()
    [[[7.0, 0.0, 9.0]]]
    """

    def __init__(self, max_length=512, units=None, kernel_initializer="glorot_uniform", **kwargs):
        super().__init__(max_length, kernel_initializer, **kwargs)
        require_positive_integers_or_none("the score DenseSynthesizer", units=units)
        self.units = units

    def build(self, query_shape, key_shape):
        super().build(query_shape, key_shape)
        units = self.units or query_shape[-1]
        self.hidden_kernel = self.add_weight(
            name="hidden_kernel",
            shape=(*self.heads, query_shape[-1], units),
            initializer=for_each_head(self.kernel_initializer),
        )
        self.kernel = self.add_rows("kernel", units)

    def prepare_query(self, query, positions):
        return ops.relu(matmul(query, ops.cast(self.hidden_kernel, query.dtype)))

    def prepare_key(self, key, positions):
        return self.rows(self.kernel, positions, key)

    def get_config(self):
        return {**super().get_config(), "units": self.units}


@keras.saving.register_keras_serializable(package="keras_attention")
class RandomSynthesizer(OfPositions):
    """Random Synthesizer: a learned table of scores, the same for all inputs.

    $$ score(q_i, k_j) = R_{ij}, \\quad R = R_1 R_2^T \\text{ if a rank is given} $$

    Paper: Tay et al. 2020, Synthesizer: Rethinking Self-Attention for Transformer Models,
    sections 3.2 and 3.3 (https://arxiv.org/abs/2005.00743).

    Rows belong to query positions, which are aligned to the end of the keys; a query before the
    first key takes its row from the end of the table. With `trainable=False`, the table is not
    learned. Time `O(Tq · Tk)`, or `O(Tq · Tk · rank)`; weights `max_length²` per head, or
    `2 · max_length · rank`.

    Args:
        max_length: Maximum number of queries and keys, the number of rows and columns of the table.
        rank: Number of columns of the factors `R_1` and `R_2`, or `None` for a full table.
        kernel_initializer: Initializer of the table, or of its factors.

    Raises:
        ValueError: If there are more queries or keys than `max_length`.

    Example:

    >>> score = RandomSynthesizer(max_length=4, kernel_initializer="identity")
    >>> score(np.ones((1, 2, 5)), np.ones((1, 3, 5))).numpy().tolist()
    [[[0.0, 1.0, 0.0], [0.0, 0.0, 1.0]]]
    """

    uses_query = False

    def __init__(self, max_length=512, rank=None, kernel_initializer="glorot_uniform", **kwargs):
        super().__init__(max_length, kernel_initializer, **kwargs)
        require_positive_integers_or_none("the score RandomSynthesizer", rank=rank)
        self.rank = rank

    def build(self, query_shape, key_shape):
        super().build(query_shape, key_shape)
        self.require_length(query_shape[-2], "queries")
        if self.rank is None:
            self.table = self.add_rows("table", self.max_length)
        else:
            self.query_factor = self.add_rows("query_factor", self.rank)
            self.key_factor = self.add_rows("key_factor", self.rank)

    def prepare_query(self, query, positions):
        table = self.table if self.rank is None else self.query_factor
        return self.rows(table, positions, query, "queries")

    def prepare_key(self, key, positions):
        if self.rank is not None:
            return self.rows(self.key_factor, positions, key)
        if not in_symbolic_scope():
            self.require_length(key.shape[-2])
        return ops.broadcast_to(positions[:, None], (*shape_of(key)[:-1], 1))

    def pairwise(self, query, key):
        if self.rank is not None:
            return super().pairwise(query, key)
        # All sequences have the same positions. There may be no sequence, so one is added.
        key = ops.pad(ops.cast(key, "int32"), [(0, 1), *[(0, 0)] * (len(key.shape) - 1)])
        columns = key[(0,) * (len(key.shape) - 2)][:, 0]  # (key_tile,)
        found = ops.take(query, ops.minimum(columns, self.max_length - 1), axis=-1)
        return ops.where(columns < self.max_length, found, ops.cast(float("nan"), found.dtype))

    def get_config(self):
        return {**super().get_config(), "rank": self.rank}
