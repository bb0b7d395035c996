"""The front of models of samples: convolutions over waves, and positions by a convolution."""

import math

import keras
from keras import ops

from keras_attention import activations
from keras_attention.errors import unknown_name

WAVE_NORMS = ("group", "layer")
EPSILON = 1e-5  # of all normalizations between convolutions


@keras.saving.register_keras_serializable(package="zoo")
class WaveFeatures(keras.layers.Layer):
    """Convolutions that turn the samples of sounds into vectors, each followed by a GELU.

    Paper: Baevski et al. 2020, wav2vec 2.0, section 2 (https://arxiv.org/abs/2006.11477).

    Args:
        filters: Number of channels of each convolution.
        kernel_sizes, strides: Kernel size and stride of each convolution.
        norm: `"group"` to normalize each channel over time, after the first convolution only; or
            `"layer"` to normalize each vector, after every convolution.
        use_bias: Whether the convolutions add a bias.

    Call arguments:
        samples: `(batch, samples)`.
        lengths: int32 `(batch,)`, the number of samples of each without padding, which statistics
            over time then leave out; or `None`.

    Output shape:
        `(batch, tokens, filters[-1])`, where no token reaches beyond the end of the samples. There
        is at least one token: shorter waves are padded.
    """

    def __init__(self, filters, kernel_sizes, strides, norm="group", use_bias=False, **kwargs):
        super().__init__(**kwargs)
        if norm not in WAVE_NORMS:
            raise ValueError(unknown_name("norm of WaveFeatures", norm, WAVE_NORMS))
        self.filters, self.kernel_sizes = tuple(filters), tuple(kernel_sizes)
        self.strides, self.norm, self.use_bias = tuple(strides), norm, use_bias

    def build(self, samples_shape=None):
        dtype, channels = self.dtype_policy, 1
        self.convolutions, self.norms = [], []
        of_kind = {"group": NormalizationOverTime, "layer": keras.layers.LayerNormalization}
        options = zip(self.filters, self.kernel_sizes, self.strides, strict=True)
        for place, (filters, size, stride) in enumerate(options):
            convolution = keras.layers.Conv1D(
                filters,
                size,
                stride,
                data_format="channels_last",
                use_bias=self.use_bias,
                dtype=dtype,
                name=f"conv_{place}",
            )
            convolution.build((None, None, channels))
            self.convolutions.append(convolution)
            channels = filters
            if place == 0 or self.norm == "layer":
                norm = of_kind[self.norm](epsilon=EPSILON, dtype=dtype, name=f"norm_{place}")
                norm.build((None, None, channels))
                self.norms.append(norm)

    def call(self, samples, lengths=None, training=None):
        missing = ops.maximum(self.reach - ops.shape(samples)[1], 0)
        x = ops.cast(ops.pad(samples, [[0, 0], [0, missing]]), self.compute_dtype)[..., None]
        for place, convolution in enumerate(self.convolutions):
            x = convolution(x)  # (batch, times, channels)
            if place < len(self.norms) and self.norm == "group":
                x = self.norms[place](x, self._are_tokens(x, lengths))
            elif place < len(self.norms):
                x = self.norms[place](x)
            x = activations.in_float32(keras.activations.gelu, x, training)
        return x

    def tokens_of(self, lengths, number=None):
        """Returns the numbers of tokens for given numbers of samples.

        Args:
            lengths: Integers `(batch,)`.
            number: Number of convolutions, from the first; defaults to all of them.
        """
        lengths = ops.cast(lengths, "int32")
        for size, stride in zip(self.kernel_sizes[:number], self.strides[:number], strict=True):
            lengths = ops.maximum((lengths - size) // stride + 1, 0)
        return lengths

    @property
    def step(self):
        """Number of samples from token to token."""
        return math.prod(self.strides)

    @property
    def reach(self):
        """Number of samples that a token depends on."""
        steps = [math.prod(self.strides[:place]) for place in range(len(self.strides))]
        pairs = zip(self.kernel_sizes, steps, strict=True)
        return 1 + sum((size - 1) * step for size, step in pairs)

    def _are_tokens(self, x, lengths):
        """Returns which outputs of the first convolution are not padding."""
        if lengths is None:
            return None
        return ops.arange(ops.shape(x)[1]) < self.tokens_of(lengths, 1)[:, None]

    def get_config(self):
        return {
            **super().get_config(),
            "filters": self.filters,
            "kernel_sizes": self.kernel_sizes,
            "strides": self.strides,
            "norm": self.norm,
            "use_bias": self.use_bias,
        }


@keras.saving.register_keras_serializable(package="zoo")
class NormalizationOverTime(keras.layers.LayerNormalization):
    """Normalizes each channel over time: group normalization with a group for each channel.

    Paper: Wu and He 2018, Group Normalization (https://arxiv.org/abs/1803.08494).

    Call arguments:
        x: `(batch, times, channels)`.
        is_token: Boolean `(batch, times)`, the times that the statistics are of, or `None` for all.
    """

    def call(self, x, is_token=None):
        given, x = x, ops.cast(x, "float32")
        shares = ops.ones_like(x[..., :1])
        if is_token is not None:
            shares = ops.cast(is_token, "float32")[..., None]
        shares = shares / ops.maximum(ops.sum(shares, axis=1, keepdims=True), 1.0)
        centred = x - ops.sum(x * shares, axis=1, keepdims=True)
        variance = ops.sum(ops.square(centred) * shares, axis=1, keepdims=True)
        gamma, beta = (ops.cast(each, "float32") for each in (self.gamma, self.beta))
        return ops.cast(centred * ops.rsqrt(variance + self.epsilon) * gamma + beta, given.dtype)


@keras.saving.register_keras_serializable(package="zoo")
class ConvolutionalPosition(keras.layers.Layer):
    """Relative positions: a convolution over many neighbors, whose kernel has normalized weights.

    $$ y_t = GELU(b + \\sum_n K_n x_{t+n}), \\quad K_n = g_n \\frac{V_n}{‖V_n‖} $$

    for each group of channels. The sum runs over as many neighbors on both sides; an even number of
    them has one more on the left. The ends are padded with zeros.

    Papers: Mohamed et al. 2019, Transformers with Convolutional Context for ASR
    (https://arxiv.org/abs/1904.11660); Salimans and Kingma 2016, Weight Normalization
    (https://arxiv.org/abs/1602.07868).

    Args:
        kernel_size: Number of neighbors.
        groups: Number of groups of channels, each with its own kernel.

    Call arguments:
        x: `(batch, length, size)`.

    Output shape:
        `(batch, length, size)`.

    Raises:
        ValueError: If `groups` does not divide the size.
    """

    def __init__(self, kernel_size=128, groups=16, **kwargs):
        super().__init__(**kwargs)
        self.kernel_size, self.groups = kernel_size, groups

    def build(self, x_shape):
        size = x_shape[-1]
        if size % self.groups:
            raise ValueError(
                "ConvolutionalPosition splits the size of x into groups. Received: size "
                f"{size}, groups={self.groups}, which does not divide it."
            )
        inputs, deviation = size // self.groups, 2.0 / math.sqrt(self.kernel_size * size)
        # In float32, because the norms are sums of many squares.
        self.direction = self.add_weight(
            name="direction",
            shape=(self.kernel_size, inputs, size),
            initializer=keras.initializers.RandomNormal(stddev=deviation),
            autocast=False,
        )
        norm = keras.initializers.Constant(deviation * math.sqrt(inputs * size))
        self.scale = self.add_weight(
            name="scale", shape=(self.kernel_size,), initializer=norm, autocast=False
        )
        self.bias = self.add_weight(name="bias", shape=(size,), initializer="zeros")

    def call(self, x, training=None):
        direction = ops.cast(self.direction, "float32")
        norm = ops.sqrt(ops.sum(ops.square(direction), axis=(1, 2), keepdims=True))
        kernel = direction * (ops.cast(self.scale, "float32")[:, None, None] / norm)
        before = self.kernel_size // 2
        padded = ops.pad(x, [[0, 0], [before, self.kernel_size - 1 - before], [0, 0]])
        # TensorFlow has no convolution of groups on processors without XLA.
        parts = zip(
            ops.split(padded, self.groups, axis=-1),
            ops.split(ops.cast(kernel, x.dtype), self.groups, axis=-1),
            strict=True,
        )
        parts = [ops.conv(*each, data_format="channels_last") for each in parts]
        x = ops.concatenate(parts, axis=-1)
        x = x + ops.cast(self.bias, x.dtype)
        return activations.in_float32(keras.activations.gelu, x, training)

    def get_config(self):
        return {
            **super().get_config(),
            "kernel_size": self.kernel_size,
            "groups": self.groups,
        }
