"""Scores that are a matrix product of queries and keys."""

import math

import keras
from keras import ops

from keras_attention._checks import is_positive_number
from keras_attention._initializers import for_each_head
from keras_attention._products import matmul
from keras_attention.scores._vectors import unit
from keras_attention.scores.base import MatrixProduct


@keras.saving.register_keras_serializable(package="keras_attention")
class Dot(MatrixProduct):
    """Dot product score.

    $$ score(q, k) = q^T k $$

    Paper: Luong et al. 2015, Effective Approaches to Attention-based Neural Machine Translation,
    equation 8, "dot" (https://aclanthology.org/D15-1166).

    Queries and keys must have the same size. Time `O(Tq · Tk · d)`, no weights.

    Example:

    >>> score = Dot()
    >>> score(np.array([[[1.0, 2.0]]]), np.array([[[3.0, 4.0], [0.0, 1.0]]])).numpy().tolist()
    [[[11.0, 2.0]]]
    """

    uses_positions = False

    def build(self, query_shape, key_shape):
        super().build(query_shape, key_shape)
        self.require_equal_sizes(query_shape, key_shape)


@keras.saving.register_keras_serializable(package="keras_attention")
class ScaledDot(Dot):
    """Scaled dot product score.

    $$ score(q, k) = q^T k / \\sqrt{d} $$

    Paper: Vaswani et al. 2017, Attention Is All You Need, equation 1
    (https://arxiv.org/abs/1706.03762).

    The query is scaled before the product, so that it does not overflow in half precision.
    Queries and keys must have the same size. Time `O(Tq · Tk · d)`, no weights.

    Args:
        scale: The factor in place of `1 / √d`, above 0, as in some Gemma models; `None` for `1 /
            √d`.

    Raises:
        ValueError: If the scale is not above 0, or queries and keys differ in size.

    Example:

    >>> score = ScaledDot()
    >>> score(np.array([[[1.0, 2.0, 0.0, 0.0]]]), np.array([[[3.0, 4.0, 9.0, 9.0]]])).numpy().item()
    5.5
    """

    def __init__(self, scale=None, **kwargs):
        super().__init__(**kwargs)
        if scale is not None and not is_positive_number(scale):
            raise ValueError(
                "`scale` of the score ScaledDot must be a number above 0, or None for 1 / √d. "
                f"Received: scale={scale!r}."
            )
        self.scale = scale

    def prepare_query(self, query, positions):
        if self.scale is not None:
            return query * self.scale
        return query / math.sqrt(query.shape[-1])

    def get_config(self):
        return {**super().get_config(), "scale": self.scale}


@keras.saving.register_keras_serializable(package="keras_attention")
class General(MatrixProduct):
    """General score, also called multiplicative or bilinear.

    $$ score(q, k) = q^T W k $$

    Paper: Luong et al. 2015, equation 8, "general" (https://aclanthology.org/D15-1166).

    Queries and keys may differ in size. Only the queries are projected, so keys can be cached
    unchanged. Time `O(Tq · Tk · d_k)`, weights `d_q · d_k` per head.

    Args:
        kernel_initializer: Initializer of `W`.

    Example:

    >>> score = General(kernel_initializer="ones")
    >>> score(np.array([[[1.0, 2.0]]]), np.array([[[3.0, 4.0, 5.0]]])).numpy().tolist()
    [[[36.0]]]
    """

    uses_positions = False

    def __init__(self, kernel_initializer="glorot_uniform", **kwargs):
        super().__init__(**kwargs)
        self.kernel_initializer = keras.initializers.get(kernel_initializer)

    def build(self, query_shape, key_shape):
        super().build(query_shape, key_shape)
        self.kernel = self.add_weight(
            name="kernel",
            shape=(*self.heads, query_shape[-1], key_shape[-1]),
            initializer=for_each_head(self.kernel_initializer),
        )

    def prepare_query(self, query, positions):
        return matmul(query, ops.cast(self.kernel, query.dtype))

    def get_config(self):
        initializer = keras.initializers.serialize(self.kernel_initializer)
        return {**super().get_config(), "kernel_initializer": initializer}


@keras.saving.register_keras_serializable(package="keras_attention")
class Cosine(Dot):
    """Cosine of the angle between query and key, also called content-based addressing.

    $$ score(q, k) = \\beta \\, q^T k / (\\|q\\| \\|k\\|) $$

    Paper: Graves et al. 2014, Neural Turing Machines, equations 5 and 6
    (https://arxiv.org/abs/1410.5401).

    Queries and keys must have the same size. The cosine with a vector of zeros is 0. Time
    `O(Tq · Tk · d)`.

    Args:
        sharpness: The factor `β`, above 0, or its initial value if learned.
        learned_sharpness: Whether `β` is a weight, one for each head. Its logarithm is learned, so
            that it stays above 0.

    Raises:
        ValueError: If the sharpness is not above 0, or queries and keys differ in size.

    Example:

    >>> score = Cosine(sharpness=5.0)
    >>> score(np.array([[[1.0, 0.0]]]), np.array([[[2.0, 0.0], [3.0, 4.0]]])).numpy().tolist()
    [[[5.0, 3.0]]]
    """

    def __init__(self, sharpness=1.0, learned_sharpness=False, **kwargs):
        super().__init__(**kwargs)
        if not is_positive_number(sharpness):
            raise ValueError(
                "`sharpness` of the score Cosine must be a number above 0. "
                f"Received: sharpness={sharpness!r}. To learn it, give its initial value and "
                "learned_sharpness=True."
            )
        self.sharpness, self.learned_sharpness = sharpness, learned_sharpness

    def build(self, query_shape, key_shape):
        super().build(query_shape, key_shape)
        if self.learned_sharpness:
            self.log_sharpness = self.add_weight(
                name="log_sharpness",
                shape=(*self.heads, 1, 1),
                initializer=keras.initializers.Constant(math.log(self.sharpness)),
                autocast=False,
            )

    def prepare_query(self, query, positions):
        sharpness = self.sharpness
        if self.learned_sharpness:
            sharpness = ops.cast(ops.exp(self.log_sharpness), query.dtype)
        return unit(query) * sharpness

    def prepare_key(self, key, positions):
        return unit(key)

    def get_config(self):
        sharpness = {"sharpness": self.sharpness, "learned_sharpness": self.learned_sharpness}
        return {**super().get_config(), **sharpness}
