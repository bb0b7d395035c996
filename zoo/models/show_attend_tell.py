"""Show, Attend and Tell: annotation vectors of an image to logits of words.

The task, image files to captions, is `zoo.tasks.captioning.Captioner`.
"""

import dataclasses
import math

import keras
from keras import ops

from keras_attention import Attention, AttentionCell, AttentionRNN, Memory
from keras_attention.normalizers import Hard
from zoo.models.checked_options import CheckedOptions
from zoo.models.core import Core
from zoo.models.initializers import Orthogonal
from zoo.models.network_tail import NetworkTail

BASELINE_MOMENTUM = 0.9


@dataclasses.dataclass(frozen=True)
class ShowAttendTellConfig(CheckedOptions):
    """Options of a captioner.

    Args:
        vocabulary_size: Number of tokens; 0 is padding.
        channels: Size of a vector of the backbone: an annotation vector, unless there is a tail.
        tail: Dictionary of the arguments of the `NetworkTail` that makes annotation vectors of
            those of the backbone, see `ShowAttendTell.refine`. By default, they are the same.
        size: Size of the embeddings, and of the annotations that the decoder sees.
        units: Size of the LSTM.
        attention: `"soft"` or `"hard"`.
        doubly_stochastic: Weight λ of the loss that makes soft attention cover the whole image, see
            `ShowAttendTell.attention_loss`.
        entropy: Weight λ_e of the entropy in the loss of hard attention, see the same.
        dropout: Dropout rate of annotations, embeddings and outputs.
        seed: Seed of the sampling in hard attention.

    Raises:
        ValueError: If a number is of another type or too small, or the attention is unknown.
    """

    vocabulary_size: int
    channels: int = 1280
    tail: dict | None = None
    size: int = 512
    units: int = 512
    attention: str = "soft"
    doubly_stochastic: float = 1.0
    entropy: float = 0.01
    dropout: float = 0.5
    seed: int | None = None

    def __post_init__(self):
        super().__post_init__()
        if self.attention not in ("soft", "hard"):
            raise ValueError(f"`attention` must be 'soft' or 'hard'. Received: {self.attention!r}.")


@keras.saving.register_keras_serializable(package="zoo")
class ShowAttendTell(Core):
    """A recurrent decoder that attends to the image before each word.

    With the annotation vectors `a_1 … a_L` of the image and the previous word `y_{t-1}`:

    $$ α_t = softmax_i(v^⊤ \\tanh(W_h h_{t-1} + W_a a_i)), \\quad
       z_t = σ(w^⊤ h_{t-1} + b) \\sum_i α_{ti} a_i $$
    $$ h_t = LSTM(h_{t-1}, [E y_{t-1}; z_t]), \\quad
       p(y_t) ∝ \\exp(E^⊤ (L_y E y_{t-1} + L_h h_t + L_z z_t)) $$

    Two networks compute the initial state from the mean annotation. With `attention="hard"` each
    word attends to only one annotation: one sampled from `α_t` in training, the one with the
    highest `α_ti` otherwise. The additional losses of the paper are in `attention_loss`.

    Paper: Xu et al. 2015, Show, Attend and Tell (https://arxiv.org/abs/1502.03044). Here the
    annotations, from a frozen network, first pass through a trained layer with ReLU, and input and
    output layer share one embedding table `E`, which requires the additional `L_y`.

    Args:
        vocabulary_size: Number of tokens; 0 is padding.
        **options: The fields of `ShowAttendTellConfig`.

    Call arguments:
        inputs: Dictionary of `annotations` `(images, positions, channels)`, as returned by
            `refine`, and int32 `target_ids` `(batch, length)`, beginning with the start token.
            There may be several captions of each image, equally many and side by side.

    Returns:
        Dictionary of float32 `logits` `(batch, length, vocabulary_size)` and `weights` `(batch,
        length, positions)`, the attention of each word; for hard attention also `scores`, from
        which the weights were computed.
    """

    Config = ShowAttendTellConfig
    architecture = "show_attend_tell"
    description = "LSTM captioning model with visual attention (Xu et al. 2015)"
    source = "annotations"
    longest = None  # an LSTM has room for any number of tokens

    def __init__(self, vocabulary_size, **options):
        super().__init__(vocabulary_size, **options)
        config = self.config
        self.is_hard = config.attention == "hard"
        dtype = self.dtype_policy
        self.tail = NetworkTail(**config.tail, name="tail") if config.tail else None
        if self.tail is not None:
            self.tail.trainable = False
        self.dropout = keras.layers.Dropout(config.dropout, dtype=dtype)
        self.embedding = keras.layers.Embedding(
            vocabulary_size,
            config.size,
            embeddings_initializer=keras.initializers.RandomNormal(stddev=config.size**-0.5),
            dtype=dtype,
        )
        self.annotate = keras.layers.Dense(config.size, "relu", dtype=dtype, name="annotate")
        self.initial_hidden = keras.layers.Dense(
            config.units, "tanh", dtype=dtype, name="initial_hidden"
        )
        self.initial_memory = keras.layers.Dense(
            config.units, "tanh", dtype=dtype, name="initial_memory"
        )
        drawn = Hard(stochastic=True, seed=config.seed, straight_through=False)
        self.decoder = AttentionRNN(
            AttentionCell(
                keras.layers.LSTMCell(
                    config.units, recurrent_initializer=Orthogonal(), dtype=dtype
                ),
                Attention("additive", normalizer=drawn if self.is_hard else "softmax", dtype=dtype),
                gated=True,
                dtype=dtype,
            ),
            dtype=dtype,
        )
        # L_y, L_h and L_z:
        self.readout = keras.layers.Dense(config.size, dtype=dtype, name="readout")
        self.output_bias = self.add_weight(
            name="output_bias", shape=(vocabulary_size,), initializer="zeros"
        )
        if self.is_hard:
            self.baseline = self.add_weight(
                name="baseline", shape=(), initializer="zeros", trainable=False
            )

    def build(self, input_shape=None):
        size = self.embedding.output_dim
        self.embedding.build((None, None))
        channels = self.config.channels if self.tail is None else self.tail.channels
        self.annotate.build((None, None, channels))
        self.initial_hidden.build((None, size))
        self.initial_memory.build((None, size))
        self.decoder.build((None, None, size), (None, None, size))
        self.readout.build((None, None, size + self.decoder.cell.output_size))

    def refine(self, vectors):
        """Returns the annotation vectors of images: the vectors of the backbone after the tail.

        The tail has the weights of another model, see `NetworkTail.start_from`, and is not trained
        here: so the annotations of an image are computed once for all of its captions.

        Args:
            vectors: `(batch, positions, channels)`, as returned by the backbone.
        """
        return vectors if self.tail is None else self.tail(vectors)

    def call(self, inputs, training=None):
        annotations, state = self._look(inputs["annotations"], training)
        images = ops.shape(annotations)[0]
        if not isinstance(images, int):  # in a graph, where a batch may turn out to be empty
            images = ops.maximum(images, 1)
        captions = ops.shape(inputs["target_ids"])[0] // images  # of an image
        annotations, *state = (ops.repeat(x, captions, axis=0) for x in (annotations, *state))
        embedded = self._embed(inputs["target_ids"], training)
        outputs, weights = self.decoder(
            embedded,
            annotations,
            initial_state=state,
            return_attention_scores=True,
            training=training,
        )
        told = {"logits": self._logits(outputs, embedded, training), "weights": weights}
        if self.is_hard:  # the state before a word is what asks
            hidden = outputs[:, :, : self.config.units]  # of [h_t; z_t]
            asked = ops.concatenate([state[0][:, None], hidden[:, :-1]], axis=1)
            scores = self.decoder.cell.attention.score(asked, annotations)
            told["scores"] = ops.cast(scores, "float32")
        return told

    def attention_loss(self, outputs, labels, is_word):
        """Returns the term that is added to the mean cross-entropy per word.

        Soft attention should cover the whole image in the course of a caption of T words:

        $$ λ \\sum_i (1 - \\sum_t α_{ti})^2 / T $$

        Hard attention learns with REINFORCE: `s_t` is the sampled position, `b` is a
        moving average of `log p(y_k)`, and `H` the entropy of `α_t`.

        $$ -\\frac{1}{T} \\sum_t \\left( \\log p(s_t) \\sum_{k ≥ t} (\\log p(y_k) - b)
           + λ_e H(α_t) \\right) $$

        In the paper, the reward of every sample is the sum over all words; but earlier words cannot
        depend on the sample, and only add noise.

        Args:
            outputs: Outputs of a call with `training=True`.
            labels: int32 `(batch, length)`, the words.
            is_word: `(batch, length)`: 1 for words, 0 for padding.
        """
        is_word = ops.cast(is_word, "float32")
        words = ops.maximum(ops.sum(is_word), 1.0)
        if not self.is_hard:
            looked_at = ops.sum(outputs["weights"] * is_word[:, :, None], axis=1)
            penalty = ops.sum(ops.square(1.0 - looked_at))
            return self.config.doubly_stochastic * penalty / words
        log_weights = ops.log_softmax(outputs["scores"], axis=-1)  # log α
        drawn = ops.sum(outputs["weights"] * log_weights, axis=-1)  # log p(s_t)
        entropy = -ops.sum(ops.exp(log_weights) * log_weights, axis=-1)
        of_words = -ops.sparse_categorical_crossentropy(labels, outputs["logits"], from_logits=True)
        of_words = ops.stop_gradient(of_words)
        rewards = (of_words - self.baseline) * is_word
        rewards = ops.flip(ops.cumsum(ops.flip(rewards, axis=1), axis=1), axis=1)
        mean = ops.sum(of_words * is_word) / words
        self.baseline.assign(BASELINE_MOMENTUM * self.baseline + (1.0 - BASELINE_MOMENTUM) * mean)
        told = rewards * drawn + self.config.entropy * entropy
        return -ops.sum(told * is_word) / words

    # The step protocol of zoo.decoding.

    def start(self, annotations, max_length):
        """Reads the images: returns the context, constant during decoding, and the first state.

        Args:
            annotations: `(batch, positions, channels)`, as in a call.
            max_length: Ignored: the size of a recurrent state does not depend on it.
        """
        annotations, state = self._look(annotations, training=False)
        cell = self.decoder.cell
        key, value, _ = cell.prepare(annotations)
        return {"key": key, "value": value}, cell.initial_state(state)

    def step(self, tokens, state, context):
        """Takes the previous tokens `(rows,)` and returns the logits of the next ones.

        Returns:
            `(logits, state, weights)`: `(rows, vocabulary_size)`, the next state, and the
            attention weights `(rows, positions)`.
        """
        embedded = self._embed(tokens, training=False)
        memory = Memory(context["key"], context["value"], None)
        output, state, weights = self.decoder.cell(embedded, state, memory, training=False)
        return self._logits(output, embedded, training=False), state, weights

    def _look(self, annotations, training):
        annotations = ops.cast(annotations, self.compute_dtype)
        annotations = self.annotate(self.dropout(annotations, training=training))
        mean = ops.mean(annotations, axis=1)
        return annotations, [self.initial_hidden(mean), self.initial_memory(mean)]

    def _embed(self, ids, training):
        scaled = self.embedding(ids) * math.sqrt(self.embedding.output_dim)
        return self.dropout(scaled, training=training)

    def _logits(self, outputs, embedded, training):
        features = ops.concatenate([embedded, self.dropout(outputs, training=training)], axis=-1)
        readout = self.dropout(self.readout(features), training=training)
        table = ops.cast(self.embedding.embeddings, readout.dtype)
        logits = ops.matmul(readout, ops.transpose(table))
        return ops.cast(logits, "float32") + ops.cast(self.output_bias, "float32")
