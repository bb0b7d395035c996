import keras


def independent(initializer):
    """Returns a copy of an initializer, so that two weights of one shape do not come out equal."""
    is_object = isinstance(initializer, keras.initializers.Initializer)
    return initializer.clone() if is_object else initializer
