"""Translation with an attentive recurrent decoder: Bahdanau et al. 2015 and Luong et al. 2015.

The encoder layer and the model (token ids to logits, and the step protocol of `zoo.decoding`). The
task, strings to strings, is `zoo.tasks.translation.Translator`.
"""

import dataclasses
import math

import keras
from keras import ops

from keras_attention import Attention, AttentionCell, AttentionRNN, Coverage, scores
from keras_attention.errors import unknown_name
from zoo.models.checked_options import CheckedOptions
from zoo.models.core import Core
from zoo.models.initializers import Orthogonal

# ---------------------------------------------------------------------------------------- layers


@keras.saving.register_keras_serializable(package="zoo")
class BidirectionalEncoder(keras.layers.Layer):
    """Reads the source in both directions: one annotation vector per token, and their mean.

    Args:
        units: Size of the recurrent state in one direction; an annotation has twice that.
        cell: `"gru"` or `"lstm"`.
        dropout: Dropout rate of the annotations.

    Call arguments:
        embedded: Tensor `(batch, source_length, size)`.
        mask: Boolean `(batch, source_length)`, `True` for tokens, `False` for padding.

    Returns:
        `(annotations, mean)` of shapes `(batch, source_length, 2 · units)`, `(batch, 2 · units)`.
    """

    def __init__(self, units, cell="gru", dropout=0.0, **kwargs):
        super().__init__(**kwargs)
        self.units, self.cell = units, cell
        layers = {"gru": keras.layers.GRU, "lstm": keras.layers.LSTM}
        if cell not in layers:
            raise ValueError(unknown_name("cell", cell, layers))
        forward = layers[cell](
            units,
            recurrent_initializer=Orthogonal(),
            return_sequences=True,
            dtype=self.dtype_policy,
        )
        self.recurrent = keras.layers.Bidirectional(forward, dtype=self.dtype_policy)
        self.dropout = keras.layers.Dropout(dropout, dtype=self.dtype_policy)

    def build(self, embedded_shape):
        self.recurrent.build(embedded_shape)

    def call(self, embedded, mask, training=None):
        annotations = self.recurrent(embedded, mask=mask, training=training)
        annotations = self.dropout(annotations, training=training)
        visible = ops.cast(mask, annotations.dtype)[:, :, None]  # (batch, source_length, 1)
        mean = ops.sum(annotations * visible, axis=1) / ops.maximum(ops.sum(visible, axis=1), 1)
        return annotations, mean

    def get_config(self):
        own = {"units": self.units, "cell": self.cell, "dropout": self.dropout.rate}
        return {**super().get_config(), **own}


# ----------------------------------------------------------------------------------------- model

ORDERS = {
    "bahdanau": "GRU translator with attention before each step (Bahdanau et al. 2015)",
    "conditional": "GRU translator with attention between the two GRU transitions of each step "
    "(Sennrich et al. 2017)",
    "luong": "LSTM translator with attention after each step and input feeding (Luong et al. 2015)",
}


@dataclasses.dataclass(frozen=True)
class RecurrentNMTConfig(CheckedOptions):
    """Options of a recurrent translator.

    Args:
        vocabulary_size: Number of tokens; 0 is padding.
        embedding_dim: Size of the embeddings.
        encoder_units: Size of the encoder's recurrent state in one direction.
        decoder_units: Size of the decoder's recurrent state.
        score: Attention score: a name, an object or a config.
        order: `"bahdanau"`, `"conditional"` or `"luong"`, see `keras_attention.AttentionCell`.
        cell: `"gru"` or `"lstm"`.
        coverage: Whether the attention knows how much of it each source token has received so far,
            see `keras_attention.Coverage`.
        alignment: `"monotonic"`, `"stepwise"` or `"forward"`, for outputs that follow the source
            from its start to its end, such as pronunciations, or `None` for other outputs; see
            `keras_attention.alignments`.
        dropout: Dropout rate of embeddings, annotations and outputs.
    """

    vocabulary_size: int
    embedding_dim: int = 256
    encoder_units: int = 256
    decoder_units: int = 512
    score: str | dict = "additive"
    order: str = "bahdanau"
    cell: str = "gru"
    coverage: bool = False
    alignment: str | None = None
    dropout: float = 0.0

    def __post_init__(self):
        super().__post_init__()
        if not isinstance(self.score, str):
            score = keras.saving.serialize_keras_object(scores.get(self.score))
            object.__setattr__(self, "score", score)


@keras.saving.register_keras_serializable(package="zoo")
class AttentionRNNTranslator(Core):
    """Encoder and attentive recurrent decoder over token ids; one vocabulary for both languages.

    Source, target and output layer share one embedding table, scaled by the square root of its size
    for inputs (Vaswani et al. 2017, section 3.4). With the output `o_t` of the decoder, see
    `keras_attention.AttentionCell`, the logits are

    - `E · tanh(W [o_t; y_{t-1}])` for `order="bahdanau"` and `"conditional"`: the deep output of
      Bahdanau et al. 2015 (https://arxiv.org/abs/1409.0473), with tanh for maxout;
    - `E · W o_t` for `order="luong"` (Luong et al. 2015, https://aclanthology.org/D15-1166).

    Args:
        vocabulary_size: Number of tokens; 0 is padding.
        **options: The fields of `RecurrentNMTConfig`.

    Call arguments:
        inputs: Dictionary of int32 `source_ids` `(batch, source_length)` and `target_ids`
            `(batch, target_length)`, the latter beginning with the start token.

    Output shape:
        Logits, float32 `(batch, target_length, vocabulary_size)`.
    """

    Config = RecurrentNMTConfig

    def __init__(self, vocabulary_size, **options):
        super().__init__(vocabulary_size, **options)
        config = self.config
        dtype = self.dtype_policy
        # Output layer and input want vectors of different length: see `_embed`.
        small = keras.initializers.RandomNormal(stddev=config.embedding_dim**-0.5)
        self.embedding = keras.layers.Embedding(
            vocabulary_size, config.embedding_dim, embeddings_initializer=small, dtype=dtype
        )
        self.dropout = keras.layers.Dropout(config.dropout, dtype=dtype)
        self.encoder = BidirectionalEncoder(
            config.encoder_units, config.cell, config.dropout, dtype=dtype
        )
        self.initial_state = keras.layers.Dense(config.decoder_units, "tanh", dtype=dtype)
        cells = {"gru": keras.layers.GRUCell, "lstm": keras.layers.LSTMCell}
        self.decoder = AttentionRNN(
            AttentionCell(
                cells[config.cell](
                    config.decoder_units, recurrent_initializer=Orthogonal(), dtype=dtype
                ),
                Attention(config.score, dtype=dtype),
                order=config.order,
                coverage=Coverage(dtype=dtype) if config.coverage else None,
                alignment=config.alignment,
                dtype=dtype,
            ),
            dtype=dtype,
        )
        self.deep_output = config.order != "luong"
        self.readout = keras.layers.Dense(
            config.embedding_dim, "tanh" if self.deep_output else None, dtype=dtype
        )
        self.output_bias = self.add_weight(
            name="output_bias", shape=(vocabulary_size,), initializer="zeros"
        )

    def build(self, input_shape=None):
        size, encoder_units = self.embedding.output_dim, self.encoder.units
        annotations = (None, None, 2 * encoder_units)
        self.embedding.build((None, None))
        self.encoder.build((None, None, size))
        self.initial_state.build((None, 2 * encoder_units))
        self.decoder.build((None, None, size), annotations)
        readout_size = self.decoder.cell.output_size + (size if self.deep_output else 0)
        self.readout.build((None, None, readout_size))

    @property
    def architecture(self):
        return "luong_nmt" if self.config.order == "luong" else "bahdanau_nmt"

    @property
    def description(self):
        return ORDERS[self.config.order]

    def call(self, inputs, training=None):
        annotations, mask, state = self._encode(inputs["source_ids"], training)
        embedded = self._embed(inputs["target_ids"], training)
        outputs = self.decoder(
            embedded, annotations, initial_state=state, memory_mask=mask, training=training
        )
        return self._logits(outputs, embedded, training)

    # The step protocol of zoo.decoding.

    def start(self, source_ids, max_length):
        """Reads the source: returns the context, constant during decoding, and the first state.

        The size of a recurrent state does not depend on `max_length`.
        """
        annotations, mask, state = self._encode(source_ids, training=False)
        context = self.decoder.cell.prepare(annotations, mask)
        return context, self.decoder.cell.initial_state(state, context)

    def step(self, tokens, state, context):
        """Takes the previous tokens `(rows,)` and returns the logits of the next ones.

        Returns:
            `(logits, state, weights)`: `(rows, vocabulary_size)`, the next state, and the
            attention weights `(rows, source_length)`.
        """
        embedded = self._embed(tokens, training=False)
        output, state, weights = self.decoder.cell(embedded, state, context, training=False)
        return self._logits(output, embedded, training=False), state, weights

    def _embed(self, ids, training):
        scaled = self.embedding(ids) * math.sqrt(self.embedding.output_dim)
        return self.dropout(scaled, training=training)

    def _encode(self, source_ids, training):
        mask = ops.not_equal(source_ids, 0)
        embedded = self._embed(source_ids, training)
        annotations, mean = self.encoder(embedded, mask, training=training)
        return annotations, mask, self.initial_state(mean)

    def _logits(self, outputs, embedded, training):
        features = ops.concatenate([outputs, embedded], -1) if self.deep_output else outputs
        readout = self.dropout(self.readout(features), training=training)
        table = ops.cast(self.embedding.embeddings, readout.dtype)
        logits = ops.matmul(readout, ops.transpose(table))
        return ops.cast(logits, "float32") + ops.cast(self.output_bias, "float32")
