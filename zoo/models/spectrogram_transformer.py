"""The Audio Spectrogram Transformer: a Vision Transformer whose images are spectrograms.

The task, sounds to labels, is `zoo.tasks.classification.Classifier`.
"""

import dataclasses

import keras
from keras import ops

from keras_attention import EncoderBlock
from zoo.models.core import Core
from zoo.models.rollout import attention_rollout
from zoo.models.transformer import StackConfig, final_norm, make_blocks, make_norm, run_blocks

FRONT = 2  # tokens in front of the patches: of the class, and of distillation


@dataclasses.dataclass(frozen=True, kw_only=True)
class SpectrogramTransformerConfig(StackConfig):
    """Options of an Audio Spectrogram Transformer, in addition to those of `StackConfig`, whose
    defaults partly differ.

    Args:
        num_labels: Number of labels; `labels=` of `zoo.load` determines it.
        bands: Number of frequency bands; the reader determines it.
        frames: Number of frames; the reader determines it.
        patch_size: Bands and frames of a patch.
        band_stride, frame_stride: Steps from patch to patch. Patches overlap if they are smaller
            than `patch_size`.
    """

    num_labels: int
    bands: int = 128
    frames: int = 1024
    patch_size: int = 16
    band_stride: int = 10
    frame_stride: int = 10
    num_layers: int = 12
    size: int = 768
    num_heads: int = 12
    hidden: int = 3072
    normalize: str = "pre"
    position: str = "learned"
    activation: str = "gelu"
    dropout: float = 0.0
    epsilon: float = 1e-12

    def __post_init__(self):
        super().__post_init__()
        if self.patch_size > min(self.bands, self.frames):
            raise ValueError(
                "A patch must fit into the spectrogram. Received: patch_size="
                f"{self.patch_size}, bands={self.bands}, frames={self.frames}. Pass a smaller "
                "patch_size, or a reader with more bands or frames."
            )

    @property
    def grid(self):
        """Number of patches over the bands, and over time."""
        strides = (self.bands, self.band_stride), (self.frames, self.frame_stride)
        return tuple(1 + (side - self.patch_size) // stride for side, stride in strides)


@keras.saving.register_keras_serializable(package="zoo")
class SpectrogramTransformer(Core):
    """A stack of blocks over overlapping patches of a spectrogram.

    Paper: Gong, Chung and Glass 2021, AST: Audio Spectrogram Transformer
    (https://arxiv.org/abs/2104.01778). The defaults are those of the paper.

    Args:
        num_labels: Number of labels.
        **options: The other fields of `SpectrogramTransformerConfig`.

    Call arguments:
        sounds: Dictionary of `frames`, float32 `(batch, frames, bands)`, as returned by
            `SpectrogramReader`.
        return_attention_scores: Whether to also return the weights of all blocks.

    Output shape:
        Logits, float32 `(batch, num_labels)`; with `return_attention_scores` also a list of
        `(batch, num_heads, tokens, tokens)`, a tensor for each block. Two tokens precede those of
        the patches, which are in the order of bands, then of time.

    Example:

    >>> core = SpectrogramTransformer(10, bands=20, frames=36, patch_size=16, num_layers=1, size=8,
    ...                               num_heads=2, hidden=16)
    >>> core.config.grid
    (1, 3)
    >>> tuple(core({"frames": np.zeros((2, 36, 20), "float32")}).shape)
    (2, 10)
    """

    Config = SpectrogramTransformerConfig
    heads = ("head",)
    reader = "SpectrogramReader"
    architecture = "spectrogram_transformer"
    description = "Audio Spectrogram Transformer (Gong et al. 2021)"

    def __init__(self, num_labels, **options):
        super().__init__(num_labels=num_labels, **options)
        config, dtype = self.config, self.dtype_policy
        strides = config.band_stride, config.frame_stride
        self.patches = keras.layers.Conv2D(
            config.size,
            config.patch_size,
            strides,
            data_format="channels_last",
            dtype=dtype,
            name="patches",
        )
        self.drop = keras.layers.Dropout(config.dropout, dtype=dtype)
        self.blocks = make_blocks(EncoderBlock, "block", config, dtype=dtype)
        self.norm = final_norm(config, "norm", dtype)
        self.head_norm = make_norm(config, "head_norm", dtype)
        self.head = keras.layers.Dense(config.num_labels, dtype=dtype, name="head")

    def build(self, sounds_shape=None):
        config = self.config
        rows, columns = config.grid
        self.patches.build((None, config.bands, config.frames, 1))

        def table(name, *shape):
            normal = keras.initializers.TruncatedNormal(stddev=0.02)
            return self.add_weight(name=name, shape=(*shape, config.size), initializer=normal)

        self.class_token = table("class_token")
        self.distillation_token = table("distillation_token")
        self.places = table("places", FRONT + rows * columns)
        for block in self.blocks:
            block.build((None, None, config.size))
        self.norm.build((None, None, config.size))
        for layer in (self.head_norm, self.head):
            layer.build((None, config.size))

    def call(self, sounds, return_attention_scores=False, training=None):
        frames = self._require_sounds(sounds)
        x = ops.transpose(ops.cast(frames, self.compute_dtype), (0, 2, 1))[..., None]
        x = self.patches(x)  # (batch, rows, columns, size)
        x = ops.reshape(x, (-1, x.shape[1] * x.shape[2], x.shape[3]))
        x = self._placed(x)
        x, weights = run_blocks(
            self.blocks,
            self.drop(x, training=training),
            return_attention_scores=return_attention_scores,
            training=training,
        )
        pooled = ops.mean(self.norm(x)[:, :FRONT], axis=1)
        logits = ops.cast(self.head(self.head_norm(pooled)), "float32")
        return (logits, [each for (each,) in weights]) if return_attention_scores else logits

    def _placed(self, x):
        """Returns patches `(batch, patches, size)` behind two tokens, all with their positions."""
        tables = self.class_token, self.distillation_token, self.places
        *front, places = (ops.cast(ops.convert_to_tensor(each), x.dtype) for each in tables)
        front = ops.broadcast_to(ops.stack(front), (ops.shape(x)[0], FRONT, x.shape[-1]))
        return ops.concatenate([front, x], axis=1) + places

    def told(self, sounds, weights):
        """Explains an answer by attention, see `zoo.tasks.classification.Classifier.respond`.

        Args:
            sounds: Inputs of `call`, with `lengths`.
            weights: Weights that `call` returned for them.

        Returns:
            Dictionary of float32 `attention` `(batch, columns)`, the time steps that the answer
            comes from, by rollout; `heads` `(batch, blocks, heads, columns)`, the same for each
            head alone; and `tokens`, int32 `(batch,)`, the number of time steps of each sound. Each
            row sums to 1 over these.
        """
        config = self.config
        rows, columns = config.grid
        after_first = ops.cast(sounds["lengths"], "int32") - config.patch_size
        tokens = ops.clip(1 + after_first // config.frame_stride, 1, columns)

        def over_time(weights):
            found = ops.mean(ops.cast(weights, "float32")[..., :FRONT, FRONT:], axis=-2)
            found = ops.reshape(found, (-1, *found.shape[1:-1], rows, columns))
            found = ops.sum(found, axis=-2)  # (batch, ..., columns)
            is_heard = ops.arange(columns) < tokens[:, None]
            is_heard = ops.reshape(is_heard, (-1, *[1] * (len(found.shape) - 2), columns))
            found = found * ops.cast(is_heard, "float32")
            return found / ops.maximum(ops.sum(found, axis=-1, keepdims=True), 1e-9)

        return {
            "attention": over_time(attention_rollout(weights)),
            "heads": over_time(ops.stack(weights, axis=1)),
            "tokens": tokens,
        }

    def _require_sounds(self, sounds):
        config = self.config
        frames = sounds.get("frames") if isinstance(sounds, dict) else None
        shape = tuple(getattr(frames, "shape", ()))
        if shape[1:] != (config.frames, config.bands):
            raise ValueError(
                f"SpectrogramTransformer needs a dictionary of `frames` (batch, {config.frames}, "
                f"{config.bands}). Received: shape {shape}. Read sounds by zoo.SpectrogramReader, "
                "with as many frames and bands."
            )
        return frames
