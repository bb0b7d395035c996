"""The options of a model, read from its source: `info` needs neither Keras nor TensorFlow.

A model's class names a dataclass as `Config`. Only its fields, their defaults and the descriptions
under `Args` in its docstring are read; nothing is run.
"""

import ast
import functools
import importlib.util
import pathlib
import re
from typing import Any, NamedTuple

_ARGUMENT = re.compile(r"^(\w+(?:, \w+)*): (.*(?:\n .*)*)", re.MULTILINE)


class Option(NamedTuple):
    """An option of an architecture.

    Attributes:
        name: Its name, an argument of `zoo.load`.
        default: Its default value.
        description: What it does.
    """

    name: str
    default: Any
    description: str


def options_of(core, defaults):
    """Returns the options of a model of tensors that have defaults.

    The others, such as the size of the vocabulary, follow from the tokenizer or the labels.

    Args:
        core: Path of the class, such as `"zoo.models.show_attend_tell.ShowAttendTell"`.
        defaults: Dictionary of defaults that differ from those of the class.

    Example:

    >>> options_of("zoo.models.transformer_lm.TransformerLanguageModel", {"dropout": 0.2})[0]
    Option(name='num_layers', default=6, description='Number of blocks in a stack.')
    """
    module, name = core.rsplit(".", 1)
    (config,) = [
        node.value.id
        for node in _definition(module, name).body
        if isinstance(node, ast.Assign) and node.targets[0].id == "Config"
    ]
    values, descriptions = _fields(module, config)
    return [
        Option(name, defaults.get(name, default), descriptions.get(name, ""))
        for name, default in values.items()
    ]


def _fields(module, name):
    """Returns the defaults and the descriptions of the fields of a dataclass, by name."""
    home = _imported(module).get(name)
    if home is not None:
        return _fields(home, name)
    node = _definition(module, name)
    values, descriptions = {}, {}
    for base in reversed(node.bases):  # the first one counts
        inherited = _fields(module, base.id)
        values |= inherited[0]
        descriptions |= inherited[1]
    for field in node.body:
        if isinstance(field, ast.AnnAssign) and field.value is not None:
            values[field.target.id] = ast.literal_eval(field.value)
    _, _, arguments = (ast.get_docstring(node) or "").partition("Args:\n")
    arguments = re.sub("^    ", "", arguments.partition("\n\n")[0], flags=re.MULTILINE)
    for names, text in _ARGUMENT.findall(arguments):
        descriptions |= dict.fromkeys(names.split(", "), " ".join(text.split()))
    return values, descriptions


def _definition(module, name):
    (node,) = [
        node for node in _tree(module).body if isinstance(node, ast.ClassDef) and node.name == name
    ]
    return node


def _imported(module):
    """Returns the origins of the names that a module imports."""
    imports = [node for node in _tree(module).body if isinstance(node, ast.ImportFrom)]
    return {alias.name: node.module for node in imports for alias in node.names}


@functools.cache
def _tree(module):
    source = pathlib.Path(importlib.util.find_spec(module).origin)
    return ast.parse(source.read_text(encoding="utf-8"))
