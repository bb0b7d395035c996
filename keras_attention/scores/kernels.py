"""Kernels: weights that decrease with the distance and are exactly 0 beyond a width."""

import keras
from keras import ops

from keras_attention.scores._vectors import distance
from keras_attention.scores.distance import OfWidth


class Kernel(OfWidth):
    """Base class of the kernels: scores that are already non-negative weights, not logits.

    They are meant for the normalizer `"sum"`, which keeps a weight of 0 at exactly 0. A custom
    kernel overrides `of_squared`.

    Args:
        width: Distance beyond which a kernel with bounded support is 0, or its initial value if
            learned.
        learned_width: Whether the width is a weight, one for each head.

    Example:

    The Cauchy kernel, which has unbounded support:

    >>> class Cauchy(Kernel):
    ...     def of_squared(self, u_squared):
    ...         return 1.0 / (1.0 + u_squared)
    >>> Cauchy(width=2.0)(np.array([[[0.0]]]), np.array([[[0.0], [2.0]]])).numpy().tolist()
    [[[1.0, 0.5]]]
    """

    def of_squared(self, u_squared):
        """Returns the value of the kernel at `u = ‖q - k‖ / width`, given `u²`."""
        raise NotImplementedError(f"{type(self).__name__} must implement `of_squared(u_squared)`.")

    def pairwise(self, query, key):
        return self.of_squared(self.squared_distance(query, key) / self.squared_width())


@keras.saving.register_keras_serializable(package="keras_attention")
class Boxcar(Kernel):
    """Boxcar kernel, also called uniform: all keys within the width have equal weight.

    $$ score(q, k) = 1[u \\le 1], \\quad u = \\|q - k\\| / width $$

    Paper: Wand and Jones 1995, Kernel Smoothing (https://doi.org/10.1201/b14876).

    Its gradient is zero, so queries and keys are not trained through it, and its width cannot be
    learned.

    Args:
        width: Distance, above 0, up to which the score is 1.

    Raises:
        ValueError: If the width is not above 0, or queries and keys differ in size.

    Example:

    >>> score = Boxcar(width=2.0)
    >>> score(np.array([[[0.0]]]), np.array([[[1.0], [2.0], [3.0]]])).numpy().tolist()
    [[[1.0, 1.0, 0.0]]]
    """

    def __init__(self, width=1.0, **kwargs):
        if kwargs.pop("learned_width", False):
            raise ValueError(
                "`learned_width` of the score Boxcar must be False: the kernel is flat, so its "
                "width has no gradient. Received: learned_width=True. Use score='epanechnikov' or "
                "score='triangular', whose width can be learned."
            )
        super().__init__(width, **kwargs)

    def of_squared(self, u_squared):
        return ops.cast(u_squared <= 1.0, "float32")


@keras.saving.register_keras_serializable(package="keras_attention")
class Triangular(Kernel):
    """Triangular kernel, often misnamed Epanechnikov.

    $$ score(q, k) = \\max(0, 1 - u), \\quad u = \\|q - k\\| / width $$

    Paper: Wand and Jones 1995, Kernel Smoothing (https://doi.org/10.1201/b14876).

    Args:
        width: Distance, above 0, from which on the score is 0, or its initial value if learned.
        learned_width: Whether the width is a weight, one for each head. Its logarithm is learned,
            so that it stays above 0.

    Raises:
        ValueError: If the width is not above 0, or queries and keys differ in size.

    Example:

    >>> score = Triangular(width=2.0)
    >>> score(np.array([[[0.0]]]), np.array([[[0.0], [1.0], [3.0]]])).numpy().tolist()
    [[[1.0, 0.5, 0.0]]]
    """

    def of_squared(self, u_squared):
        return ops.relu(1.0 - distance(u_squared))


@keras.saving.register_keras_serializable(package="keras_attention")
class Epanechnikov(Kernel):
    """Epanechnikov kernel, a parabola: the kernel with the smallest asymptotic squared error.

    $$ score(q, k) = \\tfrac{3}{4} \\max(0, 1 - u^2), \\quad u = \\|q - k\\| / width $$

    Paper: Epanechnikov 1969, Non-Parametric Estimation of a Multivariate Probability Density
    (https://doi.org/10.1137/1114019).

    Args:
        width: Distance, above 0, from which on the score is 0, or its initial value if learned.
        learned_width: Whether the width is a weight, one for each head. Its logarithm is learned,
            so that it stays above 0.

    Raises:
        ValueError: If the width is not above 0, or queries and keys differ in size.

    Example:

    >>> score = Epanechnikov(width=2.0)
    >>> score(np.array([[[0.0]]]), np.array([[[0.0], [1.0], [3.0]]])).numpy().tolist()
    [[[0.75, 0.5625, 0.0]]]
    """

    def of_squared(self, u_squared):
        return 0.75 * ops.relu(1.0 - u_squared)
