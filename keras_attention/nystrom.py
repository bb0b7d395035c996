"""Nyströmformer: attention through landmarks, the means of segments of queries and keys."""

from collections.abc import Collection
from typing import Any

import keras
from keras import ops

from keras_attention import masks
from keras_attention._approximation import Approximation
from keras_attention._backend import shape_of
from keras_attention._checks import (
    agree,
    plain,
    require_positive_integers,
    require_positive_integers_or_none,
)
from keras_attention._depthwise import DepthwiseConv2D
from keras_attention._memory import Memory, MemoryAttention
from keras_attention.compute import landmarks


@keras.saving.register_keras_serializable(package="keras_attention")
class NystromAttention(MemoryAttention, Approximation):
    """Multi-head attention by the Nyström method: from queries to keys through landmarks.

    $$ head_h = softmax(Q_h \\tilde K_h^T / \\sqrt{d}) \\, A_h^+ \\,
       softmax(\\tilde Q_h K_h^T / \\sqrt{d}) \\, V_h + c_h * V_h, \\quad
       A_h = softmax(\\tilde Q_h \\tilde K_h^T / \\sqrt{d}) $$

    $$ A^+ ≈ Z_n, \\quad
       Z_{i+1} = \\tfrac{1}{4} Z_i (13 I - A Z_i (15 I - A Z_i (7 I - A Z_i))), \\quad
       Z_0 = A^T / (|A|_1 |A|_∞) $$

    The landmarks, the rows of `Q̃` and `K̃`, are the means of `m` segments of the visible queries and
    keys, whose sizes differ by at most 1. With at most `m` visible queries or keys, the weights are
    exactly those of `MultiHeadAttention`. Time and memory are linear in the lengths. All softmaxes
    and the inverse are computed in float32.

    Landmarks are means over the whole sequence, so causal masks and masks of pairs are not
    supported. Padding is in no mean: the result is that of the sequence without it. For this,
    self-attention to padded sequences needs `query_mask` as well as `value_mask`, or Keras'
    implicit masks. In cross-attention, queries and keys may differ in length. The result for a
    query depends on the other queries of the call: one that comes alone gets exact attention.

    Paper: Xiong et al. 2021, Nyströmformer: A Nyström-Based Algorithm for Approximating
    Self-Attention (https://arxiv.org/abs/2102.03902).

    Args:
        num_heads, key_dim, value_dim, output_dim: As for `MultiHeadAttention`.
        num_landmarks: `m`, the number of landmarks of the queries, and of the keys.
        num_iterations: `n`, the number of steps of the iteration for the inverse. With more steps,
            `Z_n` comes closer to the inverse, but the output not always to exact attention: if
            landmarks are nearly equal, few steps leave out the smallest singular values of `A`.
        kernel_size: Number of positions of the depthwise convolution `c` of the values, the skip
            connection of the paper: one kernel per head, centered on each position, zeros beyond
            the ends. By default, there is none. It needs as many queries as keys.
        use_bias: As for `MultiHeadAttention`.
        **kwargs: Initializers, regularizers and constraints of the projections, as for
            `MultiHeadAttention`.

    Call arguments:
        As for `Attention`, but `attention_mask` and `use_causal_mask` are not supported.

    Output shape:
        `(batch, query_length, output_dim)`; with `return_attention_scores` also the equivalent
        weights without the convolution, float32 `(batch, num_heads, query_length, key_length)`,
        some of which may be below 0. They are meant for inspection and take quadratic time and
        memory.

    Raises:
        ValueError: If a size is not positive, a mask is not supported, or there is a convolution
            and query and value differ in length.

    Example:

    >>> layer = NystromAttention(num_heads=2, key_dim=4, num_landmarks=8, kernel_size=3)
    >>> x = np.ones((2, 50, 8))
    >>> output, weights = layer(x, x, return_attention_scores=True)
    >>> tuple(output.shape), tuple(weights.shape)
    ((2, 50, 8), (2, 2, 50, 50))
    """

    def __init__(
        self,
        num_heads: int,
        key_dim: int,
        value_dim: int | None = None,
        *,
        output_dim: int | None = None,
        num_landmarks: int = 64,
        num_iterations: int = 6,
        kernel_size: int | None = None,
        use_bias: bool | Collection[str] = True,
        **kwargs: Any,
    ) -> None:
        super().__init__(num_heads, key_dim, value_dim, use_bias, output_dim=output_dim, **kwargs)
        owner = type(self).__name__
        require_positive_integers(owner, num_landmarks=num_landmarks, num_iterations=num_iterations)
        require_positive_integers_or_none(owner, kernel_size=kernel_size)
        self.num_landmarks = plain(num_landmarks)
        self.num_iterations = plain(num_iterations)
        self.kernel_size = plain(kernel_size)

    def build(self, query_shape, value_shape, key_shape=None):
        key_shape = key_shape or value_shape
        self._require_fitting_shapes(query_shape, value_shape, key_shape)
        self._build_projections(query_shape, value_shape, key_shape)
        if self.kernel_size is not None:
            with keras.RematScope(mode=None):
                self.convolution = DepthwiseConv2D(
                    (self.kernel_size, 1),
                    padding="same",
                    data_format="channels_last",
                    use_bias=False,
                    dtype=self.dtype_policy,
                    name="convolution",
                )
            self.convolution.build((None, None, self.value_dim, self.num_heads))

    def _prepare(self, key, value, mask, start):
        key = self._project(self.key_projection, key, self.key_dim)
        value = self._project(self.value_projection, value, self.value_dim)
        return Memory(key, value, mask)

    def _attend(self, query, memory, query_mask, mask, training, start, return_attention_scores):
        is_causal = isinstance(mask, masks.Causal)
        self._require_possible(None, None if is_causal else mask, is_causal)
        self._require_equal_lengths(query.shape[1], memory.value.shape[2])
        query = self._project(self.query_projection, query, self.key_dim)
        visible = {"mask": memory.mask, "query_mask": query_mask}
        options = {"num_landmarks": self.num_landmarks, "num_iterations": self.num_iterations}
        context = landmarks.attend_by_landmarks(
            query, memory.key, memory.value, **visible, **options
        )
        if self.kernel_size is not None:
            # Of lengths that were unknown before, unequal ones must not be broadcast.
            convolved = self._convolve(memory.value, **visible)
            context = context + ops.reshape(convolved, shape_of(context))
        weights = None
        if return_attention_scores:
            weights = landmarks.weights(query, memory.key, **visible, **options)
        return self._merge(context), weights

    def _convolve(self, value, mask, query_mask):
        """Returns the skip connection, float32 `(batch, heads, length, value_dim)`."""
        if mask is not None:  # hidden inputs are zeros, but the projection adds its bias
            value = ops.where(mask[:, None, :, None], value, ops.cast(0.0, value.dtype))
        # (batch, length, value_dim, heads), and back
        value = ops.transpose(value, (0, 2, 3, 1))
        if value.shape[1] != 0:  # PyTorch cannot convolve an empty sequence
            value = self.convolution(value)
        value = ops.cast(ops.transpose(value, (0, 3, 1, 2)), "float32")
        return value if query_mask is None else ops.where(query_mask[:, None, :, None], value, 0.0)

    def _require_possible(self, key=None, attention_mask=None, use_causal_mask=False):
        self._refuse_pairs(
            attention_mask, use_causal_mask, "its landmarks are means over the whole sequence"
        )

    def _require_fitting_shapes(self, query_shape, value_shape, key_shape):
        super()._require_fitting_shapes(query_shape, value_shape, key_shape)
        self._require_equal_lengths(query_shape[1], value_shape[1])

    def _require_equal_lengths(self, query_length, key_length):
        if self.kernel_size is None or agree((query_length,), (key_length,)):
            return
        raise ValueError(
            f"{type(self).__name__} with a `kernel_size` adds a convolution of the values at the "
            f"places of the queries, so query and value must have the same length. Received: "
            f"query of length {query_length}, value of length {key_length}. For cross-attention, "
            "use kernel_size=None."
        )

    def get_config(self):
        return {
            **super().get_config(),
            "num_landmarks": self.num_landmarks,
            "num_iterations": self.num_iterations,
            "kernel_size": self.kernel_size,
        }
