"""`config.json`: an architecture of the zoo and its arguments, and nothing that imports code."""

import inspect
import reprlib

import keras

from keras_attention.positions import DistanceEmbedding, Position, RotaryScaling
from keras_attention.scores import Score
from zoo.decoding import Processor, Sampler
from zoo.models.backbone import Backbone
from zoo.storage import CONFIG, LARGEST
from zoo.storage.json_files import read_json

_OBJECTS = {  # that arguments may be: classes, or what they are registered as
    "backbone": Backbone,
    "global_position": Position,
    "position": Position,
    "reader": (
        "zoo>ImageReader",
        "zoo>SoundReader",
        "zoo>SpectrogramReader",
        "zoo>SpeechReader",
        "zoo>WaveReader",
    ),
    "sampler": Sampler,
    "score": Score,
}
_WITHIN = {  # what an object may hold, besides scores
    "global_position": (RotaryScaling, DistanceEmbedding),
    "position": (RotaryScaling, DistanceEmbedding),
    "sampler": Processor,
}
_PACKAGES = "keras_attention", "zoo"


def read_config(folder):
    """Returns the name of the architecture of a preset, and all arguments.

    Raises:
        ValueError: If it is not a config, or names a class that the program has not registered, or
            one of the zoo's classes where it does not belong.
    """
    path = folder / CONFIG
    try:
        config = read_json(path, LARGEST[CONFIG])
        architecture, options = config.pop("architecture"), config.pop("options")
        if not isinstance(architecture, str):
            raise TypeError(f"'architecture' is {architecture!r}")
        arguments = {**config, **options}
    except (ValueError, AttributeError, KeyError, TypeError) as error:
        raise ValueError(
            f"{path} is damaged, or is not the config of a preset: it should be a dictionary with "
            f"'architecture' and 'options'. {type(error).__name__}: {error}"
        ) from error
    for name, content in _objects(arguments):
        if not _is_known(content):
            is_registered = ">" in str(name)  # a class that is not has its own name, no package
            raise ValueError(
                f"{path} asks for {name!r}, which this program does not know, and no code is "
                "imported for a preset. If it is a class or function of yours, "
                + (
                    "import the module that registers it by "
                    "keras.saving.register_keras_serializable before loading."
                    if is_registered
                    else "it was not registered when the preset was saved: load it within "
                    f"keras.saving.custom_object_scope({{{name!r}: {name}}})."
                )
            )
    for argument, content in arguments.items():
        if not _belongs(argument, content):
            raise ValueError(
                f"{path} is damaged: {argument!r} cannot be {reprlib.repr(content)}. It should be "
                "a number, a text, true, false or null, options of such, or an object as Keras "
                "describes it, of a kind that fits."
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
    """Whether Keras makes the object from a registered class, or as an initializer or dtype."""
    class_name = content["class_name"]
    if class_name == "function":
        return _registered(content.get("config")) is not None
    registered = _registered(content.get("registered_name"))
    if registered is not None:
        return registered.__name__ == class_name
    if content.get("module") == "keras.initializers":
        return inspect.isclass(getattr(keras.initializers, str(class_name), None))
    return (content.get("module"), class_name) == ("keras", "DTypePolicy")


def _belongs(argument, content):
    """Whether content is plain, or one object of a kind that its argument may be.

    The objects inside it must fit, too: Keras itself would make objects of any kind anywhere.
    """
    if not isinstance(content, dict | list) or _is_plain(content):
        return True
    classes = [_registered(each.get("registered_name")) for _, each in _objects(content)]
    is_object = isinstance(content, dict) and "class_name" in content
    return (
        is_object
        and _is_of(classes[0], _kind_of(argument))
        and all(_is_of(each, _WITHIN.get(argument, Score)) for each in classes[1:])
    )


def _kind_of(argument):
    kind = _OBJECTS.get(argument)
    return tuple(map(_registered, kind)) if isinstance(kind, tuple) else kind


def _is_plain(content):
    """Whether it is a list of numbers or texts, such as sizes; or a dictionary of options, each a
    number, a text, such a list or `None`; or a list of such dictionaries, such as those of layers.
    """
    if isinstance(content, dict):
        values = [each for each in content.values() if each is not None]
        values = [value if isinstance(value, list) else [value] for value in values]
        return "class_name" not in content and all(map(_is_plain, values))
    return all(isinstance(x, int | float | str) or _is_options(x) for x in content)


def _is_options(content):
    return isinstance(content, dict) and _is_plain(content)


def _is_of(registered, kind):
    """Whether a class is of a kind, or is not one of the zoo's: then the program registered it."""
    if not inspect.isclass(registered) or registered.__module__.split(".")[0] not in _PACKAGES:
        return True
    return kind is not None and issubclass(registered, kind)


def _registered(name):
    return keras.saving.get_registered_object(name) if isinstance(name, str) else None
