"""Padding masks: hidden keys and hidden queries."""

from keras_attention._backend import shape_of
from keras_attention.masks._arguments import as_boolean, look_up, refuse_to_save
from keras_attention.masks.base import Mask


class Keys(Mask):
    """Padding of keys: hides the same keys from every query and head.

    $$ visible(q, k) = visible_k $$

    Keys without an entry in the tensor are hidden. The mask contains data, so it cannot be saved.

    Args:
        visible: Boolean tensor `(batch, key_length)`, `True` for the keys that may be seen.

    Raises:
        ValueError: If `visible` has the wrong number of axes.

    Example:

    >>> from keras_attention.masks import Causal
    >>> (Causal() & Keys(np.array([[True, False]])))(2, 2)[0, 0].numpy().astype(int).tolist()
    [[1, 0], [1, 0]]
    """

    def __init__(self, visible):
        self.visible = as_boolean(visible, "visible", ranks=(2,))

    def tile(self, query_positions, key_positions):
        visible, inside = look_up(self.visible, key_positions, axis=1)
        return (visible & inside)[:, None, None, :]

    def _described(self):
        return {"shape": tuple(self.visible.shape)}

    def get_config(self):
        return refuse_to_save(self, "visible")


class Queries(Mask):
    """Padding of queries: hidden queries see no keys.

    $$ visible(q, k) = visible_q $$

    Queries without an entry in the tensor see nothing. The mask contains data, so it cannot be
    saved.

    Args:
        visible: Boolean tensor `(batch, query_length)`, `True` for the queries that may see keys.
        key_length: Length of the keys, to whose end the queries are aligned.

    Raises:
        ValueError: If `visible` has the wrong number of axes.

    Example:

    >>> Queries(np.array([[True, False]]), key_length=3)(2, 3)[0, 0].numpy().astype(int).tolist()
    [[1], [0]]
    """

    def __init__(self, visible, key_length):
        self.visible = as_boolean(visible, "visible", ranks=(2,))
        self.first_position = key_length - shape_of(self.visible)[1]

    def tile(self, query_positions, key_positions):
        visible, inside = look_up(self.visible, query_positions - self.first_position, axis=1)
        return (visible & inside)[:, None, :, None]

    def _described(self):
        return {"shape": tuple(self.visible.shape)}

    def get_config(self):
        return refuse_to_save(self, "visible")
