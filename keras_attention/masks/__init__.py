"""Masks: which queries may see which keys. Rules on positions that compose with `&`, `|`, `~`."""

from keras_attention.masks._arguments import as_boolean
from keras_attention.masks.arrays import Array, Document
from keras_attention.masks.base import And, Mask, Not, Or, combine, positions, registry
from keras_attention.masks.blocks import RandomBlocks
from keras_attention.masks.grid_windows import GridWindows
from keras_attention.masks.lengths import Lengths, Prefix
from keras_attention.masks.neighborhood import Neighborhood
from keras_attention.masks.padding import Keys, Queries
from keras_attention.masks.patterns import Causal, GlobalTokens
from keras_attention.masks.sparse import BigBird, Longformer
from keras_attention.masks.windows import Dilated, SlidingWindow

registry.add(big_bird=BigBird, causal=Causal, longformer=Longformer)
get = registry.get
names = registry.names

__all__ = [
    "And",
    "Array",
    "BigBird",
    "Causal",
    "Dilated",
    "Document",
    "GlobalTokens",
    "GridWindows",
    "Keys",
    "Lengths",
    "Longformer",
    "Mask",
    "Neighborhood",
    "Not",
    "Or",
    "Prefix",
    "Queries",
    "RandomBlocks",
    "SlidingWindow",
    "as_boolean",
    "combine",
    "get",
    "names",
    "positions",
]
