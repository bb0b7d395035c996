"""Docstrings in the form of Keras as Markdown, for the pages that mkdocstrings makes."""

import ast
import re
import textwrap

import griffe
from latex2mathml.converter import convert

EQUATION = re.compile(r"\$\$(.+?)\$\$", re.DOTALL)
# What stands in an equation: a command with its text, a command, or a word of several letters.
WORD = re.compile(r"\\text\{.*?\}|\\[a-z]+|(?P<word>[A-Za-z]{3,})")
FUNCTION = re.compile(r"\\(?:cos|exp|log|sin|tanh) ")
DOCTEST = re.compile(r"^>>> (?:.+\n?)+", re.MULTILINE)
SECTION = re.compile(r"^([A-Z][a-z]+(?: [a-z]+)?):\n((?:(?: {4}.*)?(?:\n|\Z))*)", re.MULTILINE)
ITEM = re.compile(r"^(\**\w+(?:,\s+\**\w+)*): ", re.MULTILINE)
# What the examples of all docstrings may use, and the packages that offer what their files define.
USUAL = {
    "keras": "import keras",
    "np": "import numpy as np",
    "ops": "from keras import ops",
    "tf": "import tensorflow as tf",
}
PACKAGES = ("keras_attention.", "zoo.")
OFFERS = {
    *(f"keras_attention.{name}" for name in ("masks", "normalizers", "plotting", "positions")),
    *("keras_attention.alignments", "keras_attention.compute", "keras_attention.scores"),
    *("zoo.decoding", "zoo.metrics"),
}
LISTS = {"Args", "Attributes", "Call arguments", "Class attributes", "Raises"}


class KerasDocstrings(griffe.Extension):
    """Rewrites every docstring, and shows `get` and `names` as the methods that they are."""

    def on_package(self, *, pkg, **kwargs):
        _rewrite(pkg)
        for module in pkg.modules.values():
            for name in ("get", "names"):
                found = module.members.get(name)
                if found and found.is_attribute:
                    method = pkg[f"_registry.Registry.{name}"]
                    module.set_member(name, griffe.Alias(name, method, parent=module))


def _rewrite(obj):
    """Rewrites the docstrings of an object and its members."""
    if obj.docstring:
        obj.docstring.value = to_markdown(obj.docstring.value, obj.module)
    for member in obj.members.values():
        if not member.is_alias:
            _rewrite(member)


def to_markdown(docstring, module=None):
    """Returns a docstring with equations, sections, and examples as a page shows them.

    Args:
        docstring: The text.
        module: The `griffe.Module` that it is from, whose names its examples use.
    """
    text = EQUATION.sub(_equation, docstring)
    known, first = _imports(text, module), []

    def example(match):
        lines = [] if first else known
        first.append(match)
        return "```pycon\n" + "".join(lines) + f"{match[0].rstrip()}\n```\n"

    return SECTION.sub(_section, DOCTEST.sub(example, text))


def _imports(text, module):
    """Returns the lines that import what the examples of a docstring use."""
    code = [line[4:] for line in text.splitlines() if line.startswith((">>> ", "... "))]
    tree = ast.parse("\n".join(code))
    names = [node for node in ast.walk(tree) if isinstance(node, ast.Name)]
    made = {node.id for node in names if isinstance(node.ctx, ast.Store)}
    used = sorted({node.id for node in names} - made)
    plain = [f">>> {USUAL[name]}\n" for name in used if name in USUAL]
    homes = {}
    for name in used:
        found = module.members.get(name) if module else None
        path = found and (found.target_path if found.is_alias else found.path)
        if path and path.startswith(PACKAGES) and name not in USUAL:
            homes.setdefault(_public(path.rpartition(".")[0]), []).append(name)
    own = [f">>> from {home} import {', '.join(names)}\n" for home, names in homes.items()]
    return plain + own


def _public(module):
    """Returns the package that offers what a module defines, or the module if none does."""
    parts = module.split(".")
    if ".".join(parts[:2]) in OFFERS:
        return ".".join(parts[:2])
    return parts[0] if parts[0] == "keras_attention" and len(parts) == 2 else module


def _equation(match):
    latex = WORD.sub(lambda each: rf"\text{{{each[0]}}}" if each["word"] else each[0], match[1])
    latex = FUNCTION.sub(r"\g<0>\\, ", latex.replace(r"\arg\max", r"\text{arg max}"))
    mathml = convert(latex, display="block")
    if "\\" in mathml:
        raise ValueError(f"latex2mathml does not know a command of the equation {match[1]!r}.")
    mathml = re.sub(r"<mi>(\W)</mi>", r"<mo>\1</mo>", mathml)  # signs in Unicode, such as "·"
    return f"\n<div>{mathml}</div>\n"


def _section(match):
    title, body = match[1], textwrap.dedent(match[2]).strip()
    if title in LISTS:
        body = ITEM.sub(lambda item: "- " + re.sub(r"[*\w]+", r"`\g<0>`", item[0]), body)
    return f"**{title}**\n\n{body}\n\n"
