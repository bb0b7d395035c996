"""The trilinear score: terms of the query, of the key, and of their products."""

import keras
from keras import ops

from keras_attention._initializers import for_each_head
from keras_attention._products import matmul, transposed
from keras_attention._split import split_after
from keras_attention.scores.base import MatrixProduct


@keras.saving.register_keras_serializable(package="keras_attention")
class Trilinear(MatrixProduct):
    """Trilinear score: a weighted sum of query, key, and their product feature by feature.

    $$ score(q, k) = w_q^T q + w_k^T k + w_m^T (q \\odot k) $$

    Papers: Seo et al. 2017, Bidirectional Attention Flow for Machine Comprehension, section 2
    (https://arxiv.org/abs/1611.01603); Yu et al. 2018, QANet, section 2.2
    (https://arxiv.org/abs/1804.09541).

    Queries and keys must have the same size. It is computed as `(w_m ⊙ q + w_k)ᵀ k + w_qᵀ q`, a
    matrix product without an array `(Tq, Tk, d)`, and keys can be cached unchanged. A softmax
    cancels the term of the query; other normalizers keep it. Time `O(Tq · Tk · d)`, weights `3 d`
    per head.

    Args:
        kernel_initializer: Initializer of `w_q`, `w_k` and `w_m`.

    Raises:
        ValueError: If queries and keys differ in size.

    Example:

    >>> score = Trilinear(kernel_initializer="ones")
    >>> score(np.array([[[1.0, 2.0]]]), np.array([[[3.0, 4.0], [0.0, 1.0]]])).numpy().tolist()
    [[[21.0, 6.0]]]
    """

    uses_positions = False

    def __init__(self, kernel_initializer="glorot_uniform", **kwargs):
        super().__init__(**kwargs)
        self.kernel_initializer = keras.initializers.get(kernel_initializer)

    def build(self, query_shape, key_shape):
        super().build(query_shape, key_shape)
        self.require_equal_sizes(query_shape, key_shape)
        for name in ("query_kernel", "key_kernel", "product_kernel"):
            initializer = for_each_head(self.kernel_initializer)
            shape = (*self.heads, query_shape[-1], 1)
            setattr(self, name, self.add_weight(name=name, shape=shape, initializer=initializer))

    def prepare_query(self, query, positions):
        of_query, of_key, of_product = (
            ops.cast(kernel, query.dtype)
            for kernel in (self.query_kernel, self.key_kernel, self.product_kernel)
        )
        term = matmul(query, of_query)
        query = query * transposed(of_product) + transposed(of_key)
        return ops.concatenate([query, term], axis=-1)

    def pairwise(self, query, key):
        query, term = split_after(query, -1)
        return super().pairwise(query, key) + term

    @property
    def pairwise_weights(self):
        return []  # `prepare_query` has used them

    def get_config(self):
        initializer = keras.initializers.serialize(self.kernel_initializer)
        return {**super().get_config(), "kernel_initializer": initializer}
