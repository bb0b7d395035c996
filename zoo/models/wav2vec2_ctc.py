"""wav2vec 2.0 and HuBERT for speech recognition: samples to logits of tokens at each time step.

The task, sounds to texts, is `zoo.tasks.recognition.Recognizer`.
"""

import dataclasses

import keras

from zoo.models.heard import blank_after_the_end
from zoo.models.wav2vec2 import WaveEncoder, WaveEncoderConfig


@dataclasses.dataclass(frozen=True, kw_only=True)
class Wav2Vec2CTCConfig(WaveEncoderConfig):
    """Options of a recognizer of samples, in addition to those of `WaveEncoderConfig`.

    Args:
        head_dropout: Dropout rate of the outputs of the stack.
        blank_id: The label of a time at which no token begins; the tokenizer determines it.
    """

    head_dropout: float = 0.0
    blank_id: int = 0


@keras.saving.register_keras_serializable(package="zoo")
class Wav2Vec2CTC(WaveEncoder):
    """wav2vec 2.0 or HuBERT with a label at each time step: a token, or the blank.

    In connectionist temporal classification, the probability of a text is that of all sequences of
    labels that collapse to it, see `zoo.models.conformer_ctc.ConformerCTC`.

    Papers: Baevski et al. 2020, wav2vec 2.0: A Framework for Self-Supervised Learning of Speech
    Representations (https://arxiv.org/abs/2006.11477); Hsu et al. 2021, HuBERT
    (https://arxiv.org/abs/2106.07447), which differs in its training. The defaults are those of the
    base models.

    Args:
        num_labels: Number of tokens, the blank included.
        **options: The other fields of `Wav2Vec2CTCConfig`.

    Call arguments:
        sounds: Dictionary of `samples`, float32 `(batch, samples)`, and `lengths`, int32
            `(batch,)`, as returned by `WaveReader`.
        return_attention_scores: Whether to also return the weights of all blocks.

    Output shape:
        Logits, float32 `(batch, tokens, num_labels)`. After the end of a sound the blank has
        probability 1, so that a loss without lengths ignores the padding. With
        `return_attention_scores` also a list of `(batch, num_heads, tokens, tokens)`.

    Example:

    >>> sizes = {"num_layers": 1, "size": 8, "num_heads": 2, "hidden": 16, "position_groups": 2}
    >>> front = {"filters": (4, 4), "kernel_sizes": (10, 3), "strides": (5, 2)}
    >>> core = Wav2Vec2CTC(5, **sizes, **front)
    >>> sounds = {"samples": np.zeros((2, 400), "float32"), "lengths": np.array([400, 300])}
    >>> tuple(core(sounds).shape)
    (2, 39, 5)
    """

    Config = Wav2Vec2CTCConfig
    heads = ("head",)
    architecture = "wav2vec2_ctc"
    description = "wav2vec 2.0 for speech recognition (Baevski et al. 2020)"

    def __init__(self, num_labels, **options):
        super().__init__(num_labels, **options)
        config, dtype = self.config, self.dtype_policy
        self.head_drop = keras.layers.Dropout(config.head_dropout, dtype=dtype)
        self.head = keras.layers.Dense(config.num_labels, dtype=dtype, name="head")

    @property
    def blank_id(self):
        return self.config.blank_id

    def build(self, sounds_shape=None):
        super().build(sounds_shape)
        self.head.build((None, None, self.config.size))

    def call(self, sounds, return_attention_scores=False, training=None):
        states, _, weights = self.encode(sounds, return_attention_scores, training)
        x = self.head_drop(self.output_of(states), training=training)
        is_token = self._are_tokens(x, sounds["lengths"])
        logits = blank_after_the_end(self.head(x), is_token, self.blank_id)
        return (logits, weights) if return_attention_scores else logits
