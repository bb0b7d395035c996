"""Positions of tokens, encoded in embeddings or inside the heads of attention."""

from keras_attention._registry import Registry
from keras_attention.positions.alibi import ALiBi
from keras_attention.positions.base import Position
from keras_attention.positions.disentangled import Disentangled, DistanceEmbedding
from keras_attention.positions.embedding import PositionEmbedding
from keras_attention.positions.grid_bias import GridBias
from keras_attention.positions.grid_rotary import GridRotary
from keras_attention.positions.kerple import Kerple
from keras_attention.positions.learned import LearnedPosition
from keras_attention.positions.rotary import Rotary
from keras_attention.positions.scaling import (
    DynamicScaling,
    LinearScaling,
    Llama3Scaling,
    LongRoPE,
    RotaryScaling,
    YaRN,
)
from keras_attention.positions.shaw import Shaw
from keras_attention.positions.sinusoidal import SinusoidalPosition
from keras_attention.positions.t5 import T5Bias
from keras_attention.positions.transformer_xl import TransformerXL

_registry = Registry(
    "position",
    Position,
    {
        "alibi": ALiBi,
        "disentangled": Disentangled,
        "kerple": Kerple,
        "rotary": Rotary,
        "shaw": Shaw,
        "t5": T5Bias,
        "transformer_xl": TransformerXL,
    },
    " Those of images, GridBias and GridRotary, need the grid and are objects."
    " Sinusoidal and learned positions are layers for the embeddings: x = SinusoidalPosition()(x).",
)
get = _registry.get
names = _registry.names

__all__ = [
    "ALiBi",
    "Disentangled",
    "DistanceEmbedding",
    "DynamicScaling",
    "GridBias",
    "GridRotary",
    "Kerple",
    "LearnedPosition",
    "LinearScaling",
    "Llama3Scaling",
    "LongRoPE",
    "Position",
    "PositionEmbedding",
    "Rotary",
    "RotaryScaling",
    "Shaw",
    "SinusoidalPosition",
    "T5Bias",
    "TransformerXL",
    "YaRN",
    "get",
    "names",
]
