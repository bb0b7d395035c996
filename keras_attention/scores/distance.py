"""Scores that decrease with the distance between queries and keys."""

import math

import keras
from keras import ops

from keras_attention._checks import is_positive_number
from keras_attention._products import matmul, transposed
from keras_attention.scores._vectors import squared_norm
from keras_attention.scores.base import Score

# Up to this many features, distances are summed feature by feature, which is exact.
FEW_FEATURES = 4


@keras.saving.register_keras_serializable(package="keras_attention")
class Euclidean(Score):
    """Negative squared Euclidean distance.

    $$ score(q, k) = -\\|q - k\\|^2 $$

    Paper: Snell et al. 2017, Prototypical Networks for Few-shot Learning, section 2
    (https://arxiv.org/abs/1703.05175).

    Queries and keys must have the same size. Time `O(Tq · Tk · d)`, no weights. With more than four
    features, the distance is computed as `‖q‖² + ‖k‖² - 2 qᵀk` in float32, without an array
    `(Tq, Tk, d)`.

    Example:

    >>> score = Euclidean()
    >>> score(np.array([[[1.0, 2.0]]]), np.array([[[1.0, 3.0], [4.0, 6.0]]])).numpy().tolist()
    [[[-1.0, -25.0]]]
    """

    uses_positions = False
    key_is_vector = False  # with its squared norm, which would no longer be right

    def build(self, query_shape, key_shape):
        self.require_equal_sizes(query_shape, key_shape)
        size = query_shape[-1]
        self.pair_size = size if size <= FEW_FEATURES else 1
        super().build(query_shape, key_shape)

    def prepare_query(self, query, positions):
        query = ops.cast(query, "float32")
        if query.shape[-1] <= FEW_FEATURES:
            return query
        return ops.concatenate([query, squared_norm(query)], axis=-1)

    def prepare_key(self, key, positions):
        return self.prepare_query(key, positions)

    def squared_distance(self, query, key):
        """Returns `‖q - k‖²` of prepared queries and keys, `(..., query_tile, key_tile)`."""
        self.require_equal_sizes(query.shape, key.shape)
        size = query.shape[-1]
        if size <= FEW_FEATURES:
            return sum(
                ops.square(query[..., :, None, i] - key[..., None, :, i]) for i in range(size)
            )
        # The last is the squared norm.
        (query, of_query), (key, of_key) = (ops.split(x, [size - 1], axis=-1) for x in (query, key))
        products = matmul(query, key, transpose_b=True)
        norms = of_query + transposed(of_key)
        return ops.maximum(norms - 2.0 * products, 0.0)  # rounding may go below 0

    def pairwise(self, query, key):
        return -self.squared_distance(query, key)


class OfWidth(Euclidean):
    """Base class of the scores that measure distances in units of a width.

    Args:
        width: The width, above 0, or its initial value if learned.
        learned_width: Whether the width is a weight, one for each head. Its logarithm is learned,
            so that it stays above 0.
    """

    def __init__(self, width=1.0, learned_width=False, **kwargs):
        super().__init__(**kwargs)
        if not is_positive_number(width):
            raise ValueError(
                f"`width` of the score {type(self).__name__} must be a number above 0. "
                f"Received: width={width!r}. To learn the width, give its initial value and "
                "learned_width=True."
            )
        self.width, self.learned_width = width, learned_width

    def build(self, query_shape, key_shape):
        super().build(query_shape, key_shape)
        if self.learned_width:
            self.log_width = self.add_weight(
                name="log_width",
                shape=(*self.heads, 1, 1),
                initializer=keras.initializers.Constant(math.log(self.width)),
                autocast=False,
            )

    def squared_width(self):
        """Returns the squared width, a scalar for all heads or `(*heads, 1, 1)`."""
        if self.learned_width:
            return ops.exp(2.0 * ops.cast(self.log_width, "float32"))
        return self.width**2

    def get_config(self):
        width = {"width": self.width, "learned_width": self.learned_width}
        return {**super().get_config(), **width}


@keras.saving.register_keras_serializable(package="keras_attention")
class Gaussian(OfWidth):
    """Logarithm of the Gaussian kernel, whose softmax is the normalized kernel.

    $$ score(q, k) = -\\|q - k\\|^2 / (2 \\sigma^2) $$

    Paper: Nadaraya 1964, On Estimating Regression (https://doi.org/10.1137/1109020); Watson 1964,
    Smooth Regression Analysis (https://www.jstor.org/stable/25049340).

    Args:
        width: The width `σ`, above 0, or its initial value if learned.
        learned_width: Whether the width is a weight, one for each head. Its logarithm is learned,
            so that it stays above 0.

    Raises:
        ValueError: If the width is not above 0, or queries and keys differ in size.

    Example:

    >>> score = Gaussian(width=2.0)
    >>> score(np.array([[[0.0]]]), np.array([[[2.0], [4.0]]])).numpy().tolist()
    [[[-0.5, -2.0]]]
    """

    def pairwise(self, query, key):
        return -0.5 * self.squared_distance(query, key) / self.squared_width()
