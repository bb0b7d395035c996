"""`config.json`: an architecture of the zoo and its arguments, and nothing that imports code."""

import inspect
import json

import keras

from zoo.storage import CONFIG


def read_config(folder):
    """Returns the name of the architecture of a preset, and all arguments.

    Raises:
        ValueError: If it is no config, or names a class that the program has not registered.
    """
    path = folder / CONFIG
    try:
        config = json.loads(path.read_text(encoding="utf-8"))
        architecture, options = config.pop("architecture"), config.pop("options")
        if not isinstance(architecture, str):
            raise TypeError(f"'architecture' is {architecture!r}")
        arguments = {**config, **options}
    except (ValueError, RecursionError, AttributeError, KeyError, TypeError) as error:
        raise ValueError(
            f"{path} is damaged, or is not the config of a preset: it should be a dictionary with "
            f"'architecture' and 'options'. {type(error).__name__}: {error}"
        ) from error
    for name, content in _objects(arguments):
        if not _is_known(content):
            raise ValueError(
                f"{path} asks for {name!r}, which this program does not know, and no code is "
                "imported for a preset. If it is a class or function of yours, import the module "
                "that registers it by keras.saving.register_keras_serializable before loading."
            )
    return architecture, arguments


def _objects(content):
    """Yields the name and the config of each object in a config, at any depth."""
    if isinstance(content, dict):
        if "class_name" in content:
            yield content.get("registered_name") or content["class_name"], content
        content = list(content.values())
    if isinstance(content, list):
        for each in content:
            yield from _objects(each)


def _is_known(content):
    """Whether Keras makes the object of what is registered, or of an initializer or dtype."""
    class_name = content["class_name"]
    if class_name == "function":
        return _registered(content.get("config")) is not None
    registered = _registered(content.get("registered_name"))
    if registered is not None:
        return registered.__name__ == class_name
    if content.get("module") == "keras.initializers":
        return inspect.isclass(getattr(keras.initializers, str(class_name), None))
    return (content.get("module"), class_name) == ("keras", "DTypePolicy")


def _registered(name):
    return keras.saving.get_registered_object(name) if isinstance(name, str) else None
