"""Conversion of Keras' attention layers to ours, with their weights."""

import keras

from keras_attention import drop_in

# `keras.layers` exports the second one without the "ed" in its name.
TWINS = {
    keras.layers.MultiHeadAttention: drop_in.MultiHeadAttention,
    keras.layers.GroupQueryAttention: drop_in.GroupedQueryAttention,
    keras.layers.Attention: drop_in.Attention,
    keras.layers.AdditiveAttention: drop_in.AdditiveAttention,
}


def from_keras(layer):
    """Returns the layer of `keras_attention.drop_in` that is equivalent to a Keras layer.

    Outputs and attention scores are the same, except for the differences listed on the page "Coming
    from keras.layers". The new layer has its own weights, with the same values.

    Args:
        layer: A built `keras.layers.MultiHeadAttention`, `GroupQueryAttention`, `Attention` or
            `AdditiveAttention`; or a functional or sequential model, which is returned with all
            such layers of its graph replaced.

    Raises:
        TypeError: If it is anything else, including a subclass of one of these, which may compute
            something different.
        ValueError: If it has not been built.

    Example:

    Load a Keras model from a file and replace its attention layers:

    >>> from tempfile import mkdtemp
    >>> folder = mkdtemp()
    >>> inputs = keras.Input((5, 8))
    >>> attention = keras.layers.MultiHeadAttention(2, 4, name="attention")
    >>> model = keras.Model(inputs, keras.layers.Dense(3)(attention(inputs, inputs)))
    >>> model.save(f"{folder}/model.keras")
    >>> ours = from_keras(keras.saving.load_model(f"{folder}/model.keras"))
    >>> x = np.random.default_rng(0).normal(size=(2, 5, 8))
    >>> np.allclose(ours(x), model(x), atol=1e-5)
    True
    >>> isinstance(ours.get_layer("attention"), drop_in.MultiHeadAttention)
    True

    A model of `drop_in` layers also loads Keras' weight files directly:

    >>> model.save_weights(f"{folder}/model.weights.h5")
    >>> ours.load_weights(f"{folder}/model.weights.h5")
    """
    if isinstance(layer, keras.Sequential) or hasattr(layer, "operations"):  # of a functional model
        return _converted_model(layer)
    twin = TWINS.get(type(layer))
    if twin is None:
        known = ", ".join(each.__name__ for each in TWINS)
        raise TypeError(
            f"from_keras takes one of Keras' layers {known}, or a functional or sequential model. "
            f"Received: {layer!r} of type {type(layer).__name__}. For a subclass of one of these "
            "layers, write its difference from the parent as a score or a mask of "
            "keras_attention.MultiHeadAttention. In the code of your own layer or model, import "
            "its attention layers from keras_attention.drop_in: they load the same weights."
        )
    if not layer.built:
        raise ValueError(
            f"The layer {layer.name!r} has no weights yet. Received: a {type(layer).__name__} that "
            "is not built. Call it once, or use the layer from keras_attention.drop_in instead."
        )
    ours = twin.from_config(layer.get_config())
    ours.build_from_config(layer.get_build_config())
    ours.set_weights(layer.get_weights())
    return ours


def _converted_model(model):
    def converted(layer):
        return TWINS.get(type(layer), type(layer)).from_config(layer.get_config())

    ours = keras.models.clone_model(model, clone_function=converted, recursive=True)
    ours.set_weights(model.get_weights())
    return ours
