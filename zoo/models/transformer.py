"""The shared parts of the Transformers in the zoo: embedding, options and stacks of blocks."""

import dataclasses
import math

import keras
from keras import ops

from keras_attention import positions
from keras_attention._backend import rows_of
from keras_attention._block import NORMS
from keras_attention.errors import unknown_name
from zoo.models.checked_options import CheckedOptions

EMBEDDED = ("sinusoidal", "learned")  # positions that are added here, not inside attention


@dataclasses.dataclass(frozen=True, kw_only=True)
class StackConfig(CheckedOptions):
    """Options of every stack of blocks.

    Args:
        num_layers: Number of blocks in a stack.
        size: Size of the vector of a token.
        num_heads: Number of attention heads.
        hidden: Hidden size of the feed-forward networks.
        normalize: `"post"`, `"pre"`, `"sandwich"` or `"output"`, the place of the normalizations in
            a block, as for `EncoderBlock`.
        position: `"sinusoidal"` or `"learned"`, added to the embedding; or `"rotary"`, `"alibi"`,
            `"kerple"`, `"t5"` or `"shaw"`, which act in self-attention, or the config of such a
            position.
        activation: Activation of the feed-forward networks.
        gated: Whether the feed-forward networks are gated, as in Llama.
        norm: `"layer"`, `"layer_without_bias"` or `"rms"`, the kind of normalization.
        key_dim: Size of a head; defaults to `size / num_heads`.
        num_key_value_heads: Number of heads of keys and values; defaults to `num_heads`.
        query_key_norm: Epsilon of a normalization of queries and keys, or `None` for none.
        joint_query_key_norm: Whether it is over all heads at once.
        dropout: Dropout rate of embeddings and of the residual branches of blocks.
        attention_dropout: Dropout rate of the attention weights.
        hidden_dropout: Dropout rate inside the feed-forward networks.
        use_bias: Whether projections and dense layers have a bias, or which of them, as for
            `EncoderBlock`.
        epsilon: Added to the variance in the normalizations.

    Raises:
        ValueError: If a number is of another type or too small, or the position is unknown.
    """

    num_layers: int = 6
    size: int = 512
    num_heads: int = 8
    hidden: int = 2048
    normalize: str = "post"
    position: str | dict = "sinusoidal"
    activation: str = "relu"
    gated: bool = False
    norm: str = "layer"
    key_dim: int | None = None
    num_key_value_heads: int | None = None
    query_key_norm: float | None = None
    joint_query_key_norm: bool = False
    dropout: float = 0.1
    attention_dropout: float = 0.0
    hidden_dropout: float = 0.0
    use_bias: bool | list = True
    epsilon: float = 1e-5

    def __post_init__(self):
        super().__post_init__()
        self._require_position()

    def _require_position(self):
        self._require_name("position", sorted([*EMBEDDED, *positions.names()]))

    def _require_name(self, option, known):
        """Raises a `ValueError` unless an option is a known name, a config or `None`.

        An object is refused, since it could not be saved with the options.
        """
        found = getattr(self, option)
        if isinstance(found, str) and found not in known:
            raise ValueError(unknown_name(option, found, known))
        if not isinstance(found, str | dict | None):
            raise ValueError(
                f"`{option}` of {type(self).__name__.removesuffix('Config')} must be a name or a "
                f"config. Received: {option}={found!r}. For the config of an object, pass "
                f"keras.saving.serialize_keras_object({option})."
            )


@dataclasses.dataclass(frozen=True)
class TransformerConfig(StackConfig):
    """Options of every Transformer that reads tokens, in addition to those of `StackConfig`.

    Args:
        vocabulary_size: Number of tokens.
        pad_id: Id of the padding token; -1 for a vocabulary without one.
    """

    vocabulary_size: int
    pad_id: int = 0


@dataclasses.dataclass(frozen=True)
class WriterConfig(TransformerConfig):
    """Options of every Transformer that generates tokens, in addition to `TransformerConfig`.

    Args:
        scaled: Whether embeddings are multiplied by the square root of `size`.
        tied: Whether the output layer shares the embedding table.
        output_bias: Whether the output layer has a bias.
    """

    scaled: bool = True
    tied: bool = True
    output_bias: bool = False


def make_blocks(kind, name, config, number=None, first=0, **arguments):
    """Returns the blocks of a stack.

    Args:
        kind: `EncoderBlock` or `DecoderBlock`.
        name: Prefix of their names.
        config: A `StackConfig`.
        number: Number of blocks; defaults to that in the config.
        first: Place of the first of them in the stack.
        **arguments: Additional arguments of a block, which override the config.
    """
    of_config = {
        "normalize": config.normalize,
        "epsilon": config.epsilon,
        "dropout": config.dropout,
        "attention_dropout": config.attention_dropout,
        "hidden_dropout": config.hidden_dropout,
        "activation": config.activation,
        "gated": config.gated,
        "norm": config.norm,
        "key_dim": config.key_dim,
        "num_key_value_heads": config.num_key_value_heads,
        "query_key_norm": config.query_key_norm,
        "joint_query_key_norm": config.joint_query_key_norm,
        "use_bias": config.use_bias,
        "position": None if config.position in EMBEDDED else config.position,
    }
    return [
        kind(config.num_heads, config.hidden, name=f"{name}_{place}", **of_config | arguments)
        for place in range(first, first + (number or config.num_layers))
    ]


def run_blocks(blocks, x, *args, return_attention_scores=False, **arguments):
    """Runs a stack.

    Args:
        blocks: The blocks, one after the other.
        x: Input of the first one, `(batch, length, size)`.
        *args, **arguments: Additional arguments of each block.

    Returns:
        `(x, weights)`; the weights are a list of the tuples of weights that each block returned,
        empty unless requested.
    """
    weights = []
    for block in blocks:
        x = block(x, *args, return_attention_scores=return_attention_scores, **arguments)
        if return_attention_scores:
            x, *of_block = x
            weights.append(of_block)
    return x, weights


def final_norm(config, name, dtype):
    """Returns the normalization after a stack, which blocks of kind "post" do not need."""
    if config.normalize == "post":
        return keras.layers.Identity(dtype=dtype, name=name)
    return make_norm(config, name, dtype)


def make_norm(config, name, dtype):
    """Returns a normalization as used in blocks."""
    norm = NORMS[config.norm](epsilon=config.epsilon, dtype=dtype, name=name)
    norm.supports_masking = True  # Keras would warn of an implicit mask that an RMS one gets
    return norm


@keras.saving.register_keras_serializable(package="zoo")
class TokenEmbedding(keras.layers.Layer):
    """One embedding table for the input and, with `logits`, the output layer (Vaswani et al. 2017,
    section 3.4): an input is scaled by the square root of its size.

    Args:
        vocabulary_size: Number of tokens.
        size: Size of a vector.
        position: `"sinusoidal"` or `"learned"` to add position embeddings; others add nothing.
        max_length: Number of learned positions.
        dropout: Dropout rate.
        scaled: Whether vectors are multiplied by the square root of their size; or a factor.
        tied, output_bias: As for `WriterConfig`.
        layout, max_wavelength: Of sinusoidal positions, as for `SinusoidalPosition`.
        norm: Kind of a normalization of the sums, as for `StackConfig`; `None` for none.
        epsilon: Added to the variance there.

    Call arguments:
        ids: int32 `(batch, length)`; negative ones count as 0.
        start: Position of the first token, an integer, a scalar or int32 `(batch,)`.
    """

    def __init__(
        self,
        vocabulary_size,
        size,
        position=None,
        max_length=None,
        dropout=0.0,
        scaled=True,
        tied=True,
        output_bias=False,
        layout="interleaved",
        norm=None,
        epsilon=1e-5,
        max_wavelength=10000.0,
        **kwargs,
    ):
        super().__init__(**kwargs)
        self.vocabulary_size, self.size = vocabulary_size, size
        self.position, self.max_length, self.dropout = position, max_length, dropout
        self.scaled, self.tied, self.output_bias = scaled, tied, output_bias
        self.layout, self.kind_of_norm, self.epsilon = layout, norm, epsilon
        self.max_wavelength = max_wavelength
        dtype = self.dtype_policy
        if position == "learned":
            self.place = positions.LearnedPosition(max_length, dtype=dtype)
        else:
            self.place = positions.SinusoidalPosition(
                max_wavelength=max_wavelength, layout=layout, dtype=dtype
            )
        self.norm = None
        if norm is not None:
            self.norm = NORMS[norm](epsilon=epsilon, dtype=dtype, name="norm")
        self.drop = keras.layers.Dropout(dropout, dtype=dtype)

    def build(self, ids_shape=None):
        def table(name):
            normal = keras.initializers.RandomNormal(stddev=self.size**-0.5)
            shape = self.vocabulary_size, self.size
            return self.add_weight(name=name, shape=shape, initializer=normal)

        self.table = table("table")
        self.output_table = self.table if self.tied else table("output_table")
        self.bias = None
        if self.output_bias:
            self.bias = self.add_weight(
                name="bias", shape=(self.vocabulary_size,), initializer="zeros", autocast=False
            )
        if self.position in EMBEDDED:
            self.place.build((None, None, self.size))
        if self.norm is not None:
            self.norm.build((None, None, self.size))

    def call(self, ids, start=0, training=None):
        ids = ops.cast(ids, "int32")  # to build under a strategy, Keras gives the mean of replicas
        ids = ops.maximum(ids, 0)
        x = rows_of(self.table, ids, training)
        if self.scaled:
            x = x * (math.sqrt(self.size) if self.scaled is True else self.scaled)
        if self.position in EMBEDDED:
            x = self.place(x, start=start)
        x = x if self.norm is None else self.norm(x)
        return self.drop(x, training=training)

    def laid_out(self):
        """Returns the output layer as a matrix `(size, vocabulary_size)`, for `logits` of steps.

        Otherwise each step would transpose the table, which takes as long as a product of few rows.
        """
        return ops.transpose(ops.cast(self.output_table, self.compute_dtype))

    def logits(self, x, table=None):
        """Returns float32 `(batch, length, vocabulary_size)`.

        Args:
            x: `(batch, length, size)`.
            table: Result of `laid_out`, or `None` to compute it here.
        """
        table = self.laid_out() if table is None else table
        logits = ops.cast(ops.matmul(x, ops.cast(table, x.dtype)), "float32")
        return logits if self.bias is None else logits + ops.cast(self.bias, "float32")

    def get_config(self):
        return {
            **super().get_config(),
            "vocabulary_size": self.vocabulary_size,
            "size": self.size,
            "position": self.position,
            "max_length": self.max_length,
            "dropout": self.dropout,
            "scaled": self.scaled,
            "tied": self.tied,
            "output_bias": self.output_bias,
            "layout": self.layout,
            "norm": self.kind_of_norm,
            "epsilon": self.epsilon,
            "max_wavelength": self.max_wavelength,
        }


def embedding_of(config, max_length, dtype, **options):
    """Returns the `TokenEmbedding` for the config of a Transformer, with other options of its
    positions; with the options of the output layer, if that is a `WriterConfig`.
    """
    if isinstance(config, WriterConfig):
        options = {"tied": config.tied, "output_bias": config.output_bias, **options}
    return TokenEmbedding(
        config.vocabulary_size,
        config.size,
        config.position if config.position in EMBEDDED else None,
        max_length,
        config.dropout,
        config.scaled,
        dtype=dtype,
        **options,
    )
