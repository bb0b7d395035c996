"""`NetworkTail`: the upper layers of a pretrained network, for fine-tuning."""

import keras
from keras import ops

from zoo.models.networks import (
    grids_of,
    make_network,
    require_coarser,
    require_network,
    vectors_of,
)


@keras.saving.register_keras_serializable(package="zoo")
class NetworkTail(keras.layers.Layer):
    """The upper layers of a network of `keras.applications`, with trainable weights.

    Their input is the output of the lower layers, a frozen `zoo.Backbone`. So the features of the
    lower layers are computed once, and fine-tuning only costs as much as the upper ones. Batch
    normalization keeps its pretrained means and variances. All is computed in float32.

    Args:
        network: Class of the network in `keras.applications`.
        image_size: Rows and columns of the images.
        after: Name of the layer whose output is the input here.
        layers: Names of layers above it, whose outputs are joined as in a `Backbone`.
        grid: Rows and columns of a coarser grid, to which they are averaged; defaults to that of
            the first layer.

    Attributes:
        grid: Rows and columns of the grid.
        positions, channels: Number of vectors of an image, and their size.

    Call arguments:
        vectors: `(batch, rows * columns, channels)`, as returned by a `Backbone` of the layer
            `after`.

    Output shape:
        `(batch, positions, channels)`, float32.

    Raises:
        ValueError: If the network or a layer is unknown, a layer depends on more than the input, or
            the grid is not coarser.

    Example:

    >>> tail = NetworkTail("MobileNetV2", 64, "block_12_add", ["out_relu"])
    >>> tail(np.ones((1, 16, 96))).shape
    TensorShape([1, 4, 1280])
    """

    def __init__(self, network, image_size, after, layers, grid=None, **kwargs):
        super().__init__(**{**kwargs, "dtype": "float32"})
        require_network("NetworkTail", network, image_size)
        self.network, self.image_size = network, image_size
        self.after, self.layer_names = after, [layers] if isinstance(layers, str) else list(layers)
        whole = make_network(network, image_size, weights=None)
        (start,) = grids_of(whole, "NetworkTail", [after])
        grids = grids_of(whole, "NetworkTail", self.layer_names)
        finest = grids[0].shape[1:3]
        self.coarser = None if grid is None else require_coarser("NetworkTail", grid, finest)
        try:
            self.grid = self.coarser or finest
            annotations = vectors_of(grids, self.grid)
            self.upper = keras.Model(start, annotations, name="upper")
        except ValueError as error:
            raise ValueError(
                f"`layers` of NetworkTail must be computed from the output of `after` alone. "
                f"Received: after={after!r}, layers={self.layer_names}."
            ) from error
        self.positions, self.channels = annotations.shape[1:]

    def build(self, vectors_shape=None):
        """Does nothing: the network was built with its layers."""

    def start_from(self, weights="imagenet"):
        """Loads the weights of a pretrained network, or copies those of another tail.

        Args:
            weights: `"imagenet"`, the path of a weights file for `keras.applications`, or a
                `NetworkTail` of the same network that has all layers of this one.

        Raises:
            ConnectionError: If the weights are missing and cannot be downloaded.
            ValueError: If the other tail lacks a layer.
        """
        if isinstance(weights, NetworkTail):
            source = weights.upper
        else:
            source = make_network(self.network, self.image_size, weights)
        for layer in self.upper.layers:
            if layer.weights:
                layer.set_weights(source.get_layer(layer.name).get_weights())

    def require_taken(self, positions, channels):
        """Raises a `ValueError` unless it takes as many vectors of an image, and of this size."""
        rows, columns, size = self.upper.input.shape[1:]
        if (positions, channels) != (rows * columns, size):
            raise ValueError(
                f"The tail takes {rows * columns} vectors of size {size} per image, those of "
                f"Backbone({self.network!r}, [{self.after!r}], image_size={self.image_size}). "
                f"Received: positions={positions}, channels={channels}."
            )

    def call(self, vectors):
        grid = ops.reshape(vectors, (-1, *self.upper.input.shape[1:]))
        return self.upper(grid, training=False)

    def compute_output_shape(self, vectors_shape):
        return vectors_shape[0], self.positions, self.channels

    def get_config(self):
        return {
            **super().get_config(),
            "network": self.network,
            "image_size": self.image_size,
            "after": self.after,
            "layers": self.layer_names,
            "grid": self.coarser,
        }
