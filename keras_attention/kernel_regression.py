"""Kernel regression: attention without projections, based on distances only."""

from typing import Any

import keras

from keras_attention import scores
from keras_attention._layer import ChecksArguments
from keras_attention._recompute import Recomputable
from keras_attention._registry import serialize
from keras_attention.attention import Attention
from keras_attention.errors import unknown_name

KERNELS = {
    "boxcar": scores.Boxcar,
    "epanechnikov": scores.Epanechnikov,
    "gaussian": scores.Gaussian,
    "triangular": scores.Triangular,
}


@keras.saving.register_keras_serializable(package="keras_attention")
class NadarayaWatson(ChecksArguments, Recomputable):
    """Nadaraya-Watson kernel regression: a mean of known values, weighted by their proximity.

    $$ f(x) = \\sum_i \\frac{K((x - x_i) / width)}{\\sum_j K((x - x_j) / width)} y_i $$

    Papers: Nadaraya 1964, On Estimating Regression (https://doi.org/10.1137/1109020); Watson 1964,
    Smooth Regression Analysis (https://www.jstor.org/stable/25049340).

    This is attention: a kernel score compares queries with the known points, and the scores are
    divided by their sum. A query that is out of reach of every known point, or cannot see any, gets
    0. The Gaussian kernel has unbounded support and is computed as the softmax of its logarithm,
    which does not underflow however far away a query is.

    Args:
        kernel: `"gaussian"`, `"boxcar"`, `"triangular"` or `"epanechnikov"`, or a `Score`. A
            `scores.Kernel` is normalized by its sum, any other score by a softmax.
        width: Width of a kernel given by name, or its initial value if learned.
        learned_width: Whether the width is a trainable weight. That of the boxcar cannot be.
        implementation: As for `Attention`.

    Call arguments:
        query_x: Tensor `(batch, queries, features)`: the points at which to predict values.
        key_x: Tensor `(batch, points, features)`: the points at which values are known.
        value_y: Tensor `(batch, points, values)`: the known values.
        key_mask: Boolean `(batch, points)`: `False` for points to ignore.
        attention_mask: Boolean `(queries, points)` or `(batch, queries, points)`: `True` where a
            query may see a point. To train the width, let a point see all points except itself.
        return_attention_scores: Whether to also return the weights of the points.

    Output shape:
        `(batch, queries, values)`; with `return_attention_scores` also the weights, float32
        `(batch, queries, points)`.

    Raises:
        ValueError: If the kernel is unknown, the width is not above 0, or shapes do not match.

    Example:

    >>> key_x, value_y = np.array([[[0.0], [1.0], [2.0]]]), np.array([[[0.0], [10.0], [20.0]]])
    >>> query_x = np.array([[[1.5], [9.0]]])
    >>> NadarayaWatson("boxcar", width=0.75)(query_x, key_x, value_y).numpy().tolist()
    [[[15.0], [0.0]]]
    """

    def __init__(
        self,
        kernel: Any = "gaussian",
        width: float = 1.0,
        *,
        learned_width: bool = False,
        implementation: str = "auto",
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.supports_masking = True
        if isinstance(kernel, str):
            if kernel not in KERNELS:
                raise ValueError(unknown_name("kernel", kernel, KERNELS))
            score = KERNELS[kernel](width=width, learned_width=learned_width)
        else:
            if not isinstance(kernel, scores.Score | dict) and not scores.is_function(kernel):
                raise ValueError(
                    f"`kernel` of NadarayaWatson must be one of {', '.join(KERNELS)}, or an object "
                    f"of a subclass of Score. Received: kernel={kernel!r}."
                )
            score = scores.get(kernel)
            if width != 1.0 or learned_width:
                raise ValueError(
                    "`width` and `learned_width` of NadarayaWatson are only for a kernel given by "
                    f"name. Received: kernel={score!r}, width={width!r}, learned_width="
                    f"{learned_width!r}. Pass them to the kernel itself: "
                    f"{type(score).__name__}(width=...)."
                )
        self.kernel = kernel if isinstance(kernel, str) else score
        self.width, self.learned_width = width, learned_width
        with keras.RematScope(mode=None):
            self.attention = Attention(
                score,
                normalizer="sum" if isinstance(score, scores.Kernel) else "softmax",
                implementation=implementation,
                dtype=self.dtype_policy,
                name="attention",
            )

    def build(self, query_x_shape, key_x_shape, value_y_shape):
        self._require_sequences(query_x_shape, key_x_shape, value_y_shape)
        if not self.attention.built:  # already built if loaded from a file
            self.attention.build(query_x_shape, value_y_shape, key_x_shape)

    def call(
        self,
        query_x,
        key_x,
        value_y,
        key_mask=None,
        attention_mask=None,
        return_attention_scores=False,
    ):
        self._require_sequences(query_x.shape, key_x.shape, value_y.shape)
        return self.attention(
            query_x,
            value_y,
            key_x,
            key_mask=key_mask,
            attention_mask=attention_mask,
            return_attention_scores=return_attention_scores,
        )

    def compute_output_shape(self, query_x_shape, key_x_shape, value_y_shape):
        """Returns the shape of the output, without that of the weights."""
        return (*query_x_shape[:-1], value_y_shape[-1])

    def _require_sequences(self, *shapes):
        if any(len(shape) != 3 for shape in shapes):
            names = ("query_x", "key_x", "value_y")
            received = (f"{n} {tuple(shape)}" for n, shape in zip(names, shapes, strict=True))
            raise ValueError(
                "NadarayaWatson needs query_x, key_x and value_y of shape (batch, points, "
                f"features). Received: {', '.join(received)}. Turn a vector of numbers into "
                "one batch of points of one feature with x[None, :, None]."
            )

    def get_config(self):
        return {
            **super().get_config(),
            "kernel": serialize(self.kernel),
            "width": self.width,
            "learned_width": self.learned_width,
            "implementation": self.attention.implementation,
        }
