"""wav2vec 2.0 and HuBERT: the samples of sounds to logits.

The task, sounds to labels, is `zoo.tasks.classification.Classifier`.
"""

import dataclasses

import keras
from keras import ops

from keras_attention import EncoderBlock
from keras_attention._checks import is_positive_integer
from keras_attention.errors import unknown_name
from zoo.models.core import Core
from zoo.models.heard import mean_of_tokens, told_over_time
from zoo.models.transformer import StackConfig, make_blocks, make_norm
from zoo.models.wave_layers import WAVE_NORMS, ConvolutionalPosition, WaveFeatures


@dataclasses.dataclass(frozen=True, kw_only=True)
class WaveEncoderConfig(StackConfig):
    """Options of every model of samples, in addition to those of `StackConfig`, whose defaults
    partly differ.

    Args:
        num_labels: Number of labels.
        position: `"convolutional"`.
        filters: Number of channels of the convolutions over the samples.
        kernel_sizes, strides: Kernel size and stride of each of them.
        convolution_norm: `"group"` or `"layer"`, the normalization after the first or after each of
            them, as for `zoo.models.wave_layers.WaveFeatures`.
        convolution_bias: Whether they have a bias.
        position_kernel_size, position_groups: Kernel size and number of groups of the convolution
            for positions.
        feature_dropout: Dropout rate of the inputs of the stack.
        mask_padding: Whether padding is ignored, so that other sounds in a batch change nothing;
            otherwise zeros behind a sound are heard like silence.
    """

    num_labels: int
    num_layers: int = 12
    size: int = 768
    num_heads: int = 12
    hidden: int = 3072
    position: str = "convolutional"
    activation: str = "gelu"
    filters: tuple = (512, 512, 512, 512, 512, 512, 512)
    kernel_sizes: tuple = (10, 3, 3, 3, 3, 2, 2)
    strides: tuple = (5, 2, 2, 2, 2, 2, 2)
    convolution_norm: str = "group"
    convolution_bias: bool = False
    position_kernel_size: int = 128
    position_groups: int = 16
    feature_dropout: float = 0.0
    mask_padding: bool = True

    def __post_init__(self):
        super().__post_init__()
        if self.convolution_norm not in WAVE_NORMS:
            raise ValueError(unknown_name("convolution_norm", self.convolution_norm, WAVE_NORMS))
        names = "filters", "kernel_sizes", "strides"
        rows = [getattr(self, name) for name in names]
        if not all(map(_are_positive, rows)) or len({*map(len, rows)}) > 1:
            raise ValueError(
                "`filters`, `kernel_sizes` and `strides` must be lists of an integer of at least 1 "
                f"for each convolution. Received: filters={self.filters!r}, kernel_sizes="
                f"{self.kernel_sizes!r}, strides={self.strides!r}."
            )
        for name, row in zip(names, rows, strict=True):
            object.__setattr__(self, name, tuple(int(each) for each in row))  # as JSON has them

    def _require_position(self):
        if self.position != "convolutional":
            raise ValueError(unknown_name("position", self.position, ["convolutional"]))


class WaveEncoder(Core):
    """Convolutions over samples, a convolution for positions, and a stack of blocks.

    Args:
        num_labels: Number of labels.
        **options: The fields of the `Config`.
    """

    reader = "WaveReader"

    def __init__(self, num_labels, **options):
        super().__init__(num_labels=num_labels, **options)
        config, dtype = self.config, self.dtype_policy
        self.subsampling = WaveFeatures(
            config.filters,
            config.kernel_sizes,
            config.strides,
            config.convolution_norm,
            config.convolution_bias,
            dtype=dtype,
        )
        self.feature_norm = make_norm(config, "feature_norm", dtype)
        self.projection = keras.layers.Dense(config.size, dtype=dtype, name="projection")
        self.feature_drop = keras.layers.Dropout(config.feature_dropout, dtype=dtype)
        self.place = ConvolutionalPosition(
            config.position_kernel_size, config.position_groups, dtype=dtype, name="place"
        )
        self.norm = make_norm(config, "norm", dtype)
        self.drop = keras.layers.Dropout(config.dropout, dtype=dtype)
        self.blocks = make_blocks(EncoderBlock, "block", config, position=None, dtype=dtype)

    def build(self, sounds_shape=None):
        config = self.config
        self.subsampling.build((None, None))
        for layer in (self.feature_norm, self.projection):
            layer.build((None, None, config.filters[-1]))
        for layer in (self.place, self.norm, *self.blocks):
            layer.build((None, None, config.size))

    def encode(self, sounds, return_attention_scores=False, training=None):
        """Returns the states before, between and after the blocks.

        Args:
            sounds: Dictionary of `samples`, float32 `(batch, samples)`, and `lengths`, int32
                `(batch,)`, as returned by `zoo.WaveReader`.
            return_attention_scores: Whether to also return the weights of all blocks.
            training: Whether to apply dropout.

        Returns:
            `(states, is_token, weights)`: a list of `(batch, tokens, size)`, the mask of the tokens
            that are not padding, boolean `(batch, tokens)` or `None` for all, and the list of
            weights, empty unless requested.
        """
        samples, lengths = self._require_sounds(sounds)
        masked = lengths if self.config.mask_padding else None
        x = self.subsampling(samples, masked, training=training)
        is_token = None if masked is None else self._are_tokens(x, lengths)
        x = self.feature_drop(self.projection(self.feature_norm(x)), training=training)
        if is_token is not None:
            x = ops.where(is_token[..., None], x, ops.cast(0.0, x.dtype))
        x = x + self.place(x, training=training)
        x = self.norm(x) if self.config.normalize == "post" else x
        states, weights = [self.drop(x, training=training)], []
        for block in self.blocks:
            flags = {"return_attention_scores": return_attention_scores, "training": training}
            x = block(states[-1], mask=is_token, **flags)
            if return_attention_scores:
                x, of_block = x
                weights.append(of_block)
            states.append(x)
        return states, is_token, weights

    def output_of(self, states):
        """Returns the output of the stack, `(batch, tokens, size)`, for the states of `encode`."""
        return states[-1] if self.config.normalize == "post" else self.norm(states[-1])

    def _are_tokens(self, x, lengths):
        return ops.arange(ops.shape(x)[1]) < self.subsampling.tokens_of(lengths)[:, None]

    def _require_sounds(self, sounds):
        is_dictionary = isinstance(sounds, dict) and {"samples", "lengths"} <= sounds.keys()
        samples = sounds["samples"] if is_dictionary else sounds
        received = "samples" if is_dictionary else type(sounds).__name__
        shape = tuple(getattr(samples, "shape", ()))
        if not is_dictionary or len(shape) != 2:
            raise ValueError(
                f"{type(self).__name__} needs a dictionary of `samples` (batch, samples) and "
                f"`lengths` (batch,). Received: {received} of shape {shape}. Read sounds by "
                "zoo.WaveReader."
            )
        return samples, sounds["lengths"]


@dataclasses.dataclass(frozen=True, kw_only=True)
class Wav2Vec2Config(WaveEncoderConfig):
    """Options of a classifier of samples, in addition to those of `WaveEncoderConfig`.

    Args:
        projection_size: Size of the vectors that are averaged over time.
        mixes_states: Whether they are projected from a learned mean of the states before, between
            and after the blocks, rather than from the output of the last one.
    """

    projection_size: int = 256
    mixes_states: bool = False


@keras.saving.register_keras_serializable(package="zoo")
class Wav2Vec2(WaveEncoder):
    """wav2vec 2.0 or HuBERT with labels: a projection, the mean over time, and a dense layer.

    Papers: Baevski et al. 2020, wav2vec 2.0: A Framework for Self-Supervised Learning of Speech
    Representations (https://arxiv.org/abs/2006.11477); Hsu et al. 2021, HuBERT
    (https://arxiv.org/abs/2106.07447), which differs in its training; Yang et al. 2021, SUPERB, on
    the heads (https://arxiv.org/abs/2105.01051). The defaults are those of the base models.

    Args:
        num_labels: Number of labels.
        **options: The other fields of `Wav2Vec2Config`.

    Call arguments:
        sounds: Dictionary of `samples`, float32 `(batch, samples)`, and `lengths`, int32
            `(batch,)`, as returned by `WaveReader`.
        return_attention_scores: Whether to also return the weights of all blocks.

    Output shape:
        Logits, float32 `(batch, num_labels)`; with `return_attention_scores` also a list of
        `(batch, num_heads, tokens, tokens)`, a tensor for each block.

    Example:

    >>> sizes = {"num_layers": 1, "size": 8, "num_heads": 2, "hidden": 16, "position_groups": 2}
    >>> front = {"filters": (4, 4), "kernel_sizes": (10, 3), "strides": (5, 2)}
    >>> core = Wav2Vec2(3, **sizes, **front)
    >>> sounds = {"samples": np.zeros((2, 400), "float32"), "lengths": np.array([400, 300])}
    >>> tuple(core(sounds).shape)
    (2, 3)
    """

    Config = Wav2Vec2Config
    heads = ("head",)
    architecture = "wav2vec2"
    description = "wav2vec 2.0 for audio classification (Baevski et al. 2020)"

    def __init__(self, num_labels, **options):
        super().__init__(num_labels, **options)
        config, dtype = self.config, self.dtype_policy
        self.projector = keras.layers.Dense(config.projection_size, dtype=dtype, name="projector")
        self.head = keras.layers.Dense(config.num_labels, dtype=dtype, name="head")

    def build(self, sounds_shape=None):
        super().build(sounds_shape)
        config = self.config
        if config.mixes_states:
            self.shares = self.add_weight(
                name="shares", shape=(1 + config.num_layers,), initializer="zeros"
            )
        self.projector.build((None, None, config.size))
        self.head.build((None, config.projection_size))

    def call(self, sounds, return_attention_scores=False, training=None):
        states, is_token, weights = self.encode(sounds, return_attention_scores, training)
        x = self._mixed(states) if self.config.mixes_states else self.output_of(states)
        x = self.projector(x)  # (batch, tokens, projection_size)
        pooled = ops.mean(x, axis=1) if is_token is None else mean_of_tokens(x, is_token)
        logits = ops.cast(self.head(pooled), "float32")
        return (logits, weights) if return_attention_scores else logits

    def told(self, sounds, weights):
        """Explains an answer by attention, see `zoo.models.heard.told_over_time`.

        Args:
            sounds: Inputs of `call`.
            weights: Weights that `call` returned for them.
        """
        tokens = self.subsampling.tokens_of(sounds["lengths"])
        if not self.config.mask_padding:
            tokens = ops.full_like(tokens, ops.shape(weights[0])[-1])
        return told_over_time(weights, tokens)

    def _mixed(self, states):
        shares = ops.softmax(ops.cast(self.shares, "float32"))
        shares = ops.cast(shares, states[0].dtype)
        return ops.sum(ops.stack(states) * shares[:, None, None, None], axis=0)


def _are_positive(numbers):
    is_list = isinstance(numbers, list | tuple) and len(numbers) > 0
    return is_list and all(map(is_positive_integer, numbers))
