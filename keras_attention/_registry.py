"""One way to turn a name, an object or a config into an object, with errors that help."""

import keras

from keras_attention.errors import unknown_name


class Registry:
    """The objects of one kind that a layer takes by name, as an object, or as a config.

    Args:
        kind: What the objects are, for error messages: `"score"`, `"mask"`, ...
        base: The class that all of them derive from.
        classes: Dictionary of names to classes that can be made without arguments.
    """

    def __init__(self, kind, base, classes):
        self.kind, self.base, self.classes = kind, base, classes

    def add(self, **classes):
        """Adds classes by their names, for a base whose subclasses import its module."""
        self.classes |= classes

    def names(self):
        """Returns the names that `get` knows, sorted."""
        return sorted(self.classes)

    def get(self, identifier, **arguments):
        """Returns the object for a name, a config made by `keras.saving`, or itself.

        Args:
            identifier: One of these.
            **arguments: Arguments of what is made of a name.

        Raises:
            ValueError: For an unknown name, with the nearest ones; for any other type.
        """
        if isinstance(identifier, self.base):
            return identifier
        if isinstance(identifier, dict):
            identifier = keras.saving.deserialize_keras_object(identifier)
            if isinstance(identifier, self.base):
                return identifier
        if isinstance(identifier, str):
            if identifier in self.classes:
                return self.classes[identifier](**arguments)
            raise ValueError(unknown_name(self.kind, identifier, self.names()))
        raise ValueError(
            f"`{self.kind}` must be one of {', '.join(self.names())}, or an object of a subclass "
            f"of {self.base.__name__}. Received: {identifier!r} of type "
            f"{type(identifier).__name__}."
        )
