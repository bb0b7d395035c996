"""Masks that are looked up: arbitrary arrays, and documents packed into one sequence."""

import keras
from keras import ops

from keras_attention._backend import shape_of
from keras_attention.masks._arguments import as_boolean, integers, look_up, refuse_to_save
from keras_attention.masks.base import Mask


@keras.saving.register_keras_serializable(package="keras_attention")
class Array(Mask):
    """An arbitrary mask, given as an array of booleans.

    $$ visible(q, k) = visible_{q k} $$

    Pairs without an entry in the array are hidden.

    Args:
        visible: Booleans, or numbers where 0 hides, as a tensor or nested lists: `(query_length,
            key_length)`, `(batch, query_length, key_length)` or `(batch, heads, query_length,
            key_length)`.

    Raises:
        ValueError: If `visible` has the wrong number of axes.

    Example:

    >>> Array([[True, False], [False, True]])(2, 2)[0, 0].numpy().astype(int).tolist()
    [[1, 0], [0, 1]]
    """

    def __init__(self, visible):
        visible = as_boolean(visible, "visible", ranks=(2, 3, 4))
        rank = len(visible.shape)
        if rank == 2:
            visible = visible[None, None]
        elif rank == 3:
            visible = visible[:, None]
        self.visible = visible
        self.first_position = shape_of(visible)[3] - shape_of(visible)[2]

    def tile(self, query_positions, key_positions):
        rows = query_positions - self.first_position
        visible, has_row = look_up(self.visible, rows, axis=2)
        visible, has_column = look_up(visible, key_positions, axis=3)
        return visible & (has_row[:, None] & has_column[None, :])

    def _described(self):
        return {"shape": tuple(self.visible.shape)}

    def get_config(self):
        return {"visible": ops.convert_to_numpy(self.visible).tolist()}


class Document(Mask):
    """Several documents packed into one sequence: attention stays within each document.

    $$ visible(q, k) = [document_q = document_k] $$

    Paper: Krell et al. 2021, Efficient Sequence Packing without Cross-contamination
    (https://arxiv.org/abs/2107.02027).

    Queries are aligned to the end of the keys and look up their document there; a query without an
    entry sees nothing. The mask contains data, so it cannot be saved.

    Args:
        ids: Integers `(batch, key_length)`, the document of each position. Positions with equal ids
            belong together, wherever they are.

    Raises:
        ValueError: If `ids` are not integers or have the wrong number of axes.

    Example:

    >>> Document([[7, 7, 8]])(3, 3)[0, 0].numpy().astype(int).tolist()
    [[1, 1, 0], [1, 1, 0], [0, 0, 1]]
    """

    def __init__(self, ids):
        ids = integers(self, "ids", ids, ranks=(2,), shape="integers (batch, key_length)")
        self.ids = ops.convert_to_tensor(ids)

    def tile(self, query_positions, key_positions):
        of_query, has_query = look_up(self.ids, query_positions, axis=1)
        of_key, has_key = look_up(self.ids, key_positions, axis=1)
        same = ops.equal(of_query[:, :, None], of_key[:, None, :])
        return (same & (has_query[:, None] & has_key[None, :]))[:, None]

    def _described(self):
        return {"shape": tuple(self.ids.shape)}

    def get_config(self):
        return refuse_to_save(self, "ids")
