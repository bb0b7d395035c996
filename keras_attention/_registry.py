"""One way to turn a name, an object or a config into an object, with helpful errors."""

import inspect

import keras

from keras_attention.errors import unknown_name


class Part:
    """Base class of masks and normalizers: what a config holds of them."""

    def get_config(self):
        arguments = inspect.signature(type(self)).parameters
        if arguments and type(self).get_config is Part.get_config:
            name = type(self).__name__
            config = ", ".join(f"{argument!r}: self.{argument}" for argument in arguments)
            raise NotImplementedError(
                f"`get_config` of {name} must return its arguments: layers that are saved or "
                f"copied make a new {name} from them. Received: the arguments "
                f"{', '.join(arguments)}, but no `get_config`. Add one that returns {{{config}}}."
            )
        return {}

    @classmethod
    def from_config(cls, config):
        return cls(**config)


class Registry:
    """The objects of one kind that a layer accepts as a name, an object, or a config.

    Args:
        kind: What the objects are, for error messages: `"score"`, `"mask"`, ...
        base: The class that all of them derive from.
        classes: Dictionary from names to classes that can be created without arguments.
        hint: What else may help, at the end of error messages.
    """

    def __init__(self, kind, base, classes, hint=""):
        self.kind, self.base, self.classes, self.hint = kind, base, classes, hint

    def add(self, **classes):
        """Adds classes by name, for a base class whose module its subclasses import."""
        self.classes |= classes

    def names(self):
        """Returns the names that `get` knows, sorted."""
        return sorted(self.classes)

    def get(self, identifier, **arguments):
        """Returns the object for a name or a `keras.saving` config; returns an object unchanged.

        Args:
            identifier: A name, a config, or an object.
            **arguments: Constructor arguments of an object that is given by name.

        Raises:
            ValueError: For an unknown name, listing the closest names; for any other type.
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
            raise ValueError(unknown_name(self.kind, identifier, self.names()) + self.hint)
        if isinstance(identifier, type) and issubclass(identifier, self.base):
            raise ValueError(
                f"`{self.kind}` must be an object, not a class. Received: {identifier!r}. Call it, "
                f"with its arguments if it has any: {identifier.__name__}()."
            )
        raise ValueError(
            f"`{self.kind}` must be one of {', '.join(self.names())}, or an object of a subclass "
            f"of {self.base.__name__}. Received: {identifier!r} of type "
            f"{type(identifier).__name__}.{self.hint}"
        )


def serialize(part):
    """Returns the config of a part, which files keep shared among the layers that hold it.

    While Keras writes a file, it marks an object as shared in every config but the first. Without
    the mark in the first, each layer would load a part of its own, and the file fits only one.
    """
    config, second = (keras.saving.serialize_keras_object(part) for _ in range(2))
    if isinstance(second, dict) and "shared_object_id" in second:
        config["shared_object_id"] = second["shared_object_id"]
    return config
