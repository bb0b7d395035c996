"""Masks of the first keys: padding at the end, and prefixes."""

import keras
import numpy as np
from keras import ops

from keras_attention.masks._arguments import integers, is_static, refuse_to_save
from keras_attention.masks.base import Mask


class _FirstKeys(Mask):
    """Shows the first keys, up to a given number for each example."""

    name, ranks, shape = "lengths", (1,), "integers (batch,)"

    def __init__(self, lengths):
        lengths = integers(self, self.name, lengths, self.ranks, self.shape)
        if not ops.is_tensor(lengths) and (lengths < 0).any():
            raise ValueError(
                f"`{self.name}` of {type(self).__name__} must not be negative. Received: "
                f"{self.name}={lengths.tolist()}. 0 means no keys at all."
            )
        self.lengths = lengths

    def tile(self, query_positions, key_positions):
        lengths = ops.reshape(self.lengths, (-1, 1))
        return (key_positions[None, :] < lengths)[:, None, None, :]

    def may_see(self, queries, keys):
        if not ops.is_tensor(self.lengths):
            return keys[0] < int(np.max(self.lengths, initial=0))
        if is_static(queries, keys):
            return True
        return keys[0] < ops.max(self.lengths, initial=0)

    def sees_all(self, queries, keys):
        if ops.is_tensor(self.lengths) or self.lengths.size == 0:
            return False
        return keys[1] < int(np.min(self.lengths))

    def _described(self):
        if ops.is_tensor(self.lengths):
            return {"shape": tuple(self.lengths.shape)}
        return self.get_config()

    def get_config(self):
        if ops.is_tensor(self.lengths):
            refuse_to_save(self, self.name)
        return {self.name: self.lengths.tolist()}


@keras.saving.register_keras_serializable(package="keras_attention")
class Lengths(_FirstKeys):
    """Padding at the end, given by the length of each example.

    $$ visible(q, k) = [k < length_{example}] $$

    Args:
        lengths: Integers `(batch,)`, the number of visible keys. The mask can be saved if this is a
            list or a NumPy array, but not if it is a tensor.

    Raises:
        ValueError: If `lengths` are not integers, negative, or have the wrong number of axes.

    Example:

    >>> Lengths([1, 2])(1, 3).numpy().astype(int).tolist()
    [[[[1, 0, 0]]], [[[1, 1, 0]]]]
    """


@keras.saving.register_keras_serializable(package="keras_attention")
class Prefix(_FirstKeys):
    """All queries see the keys of the prefix: `Causal() | Prefix(length)` gives a prefix LM.

    $$ visible(q, k) = [k < length] $$

    Paper: Raffel et al. 2020, Exploring the Limits of Transfer Learning with a Unified
    Text-to-Text Transformer, section 3.2.1 (https://arxiv.org/abs/1910.10683).

    Args:
        length: Length of the prefix, an integer or integers `(batch,)`. The mask can be saved if
            these are plain numbers or a NumPy array, but not if they are a tensor.

    Raises:
        ValueError: If `length` is not an integer, negative, or has more than one axis.

    Example:

    >>> from keras_attention.masks import Causal
    >>> (Causal() | Prefix(2))(3, 3)[0, 0].numpy().astype(int).tolist()
    [[1, 1, 0], [1, 1, 0], [1, 1, 1]]
    """

    name, ranks, shape = "length", (0, 1), "an integer or integers (batch,)"

    def __init__(self, length):
        super().__init__(length)
