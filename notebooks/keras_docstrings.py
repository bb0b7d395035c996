"""Docstrings in the form of Keras as Markdown, for the pages that mkdocstrings makes."""

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
LISTS = {"Args", "Attributes", "Call arguments", "Class attributes", "Raises"}


class KerasDocstrings(griffe.Extension):
    """Rewrites every docstring, and shows `get` and `names` as the methods that they are."""

    def on_object(self, *, obj, **kwargs):
        if obj.docstring:
            obj.docstring.value = to_markdown(obj.docstring.value)

    def on_package(self, *, pkg, **kwargs):
        for module in pkg.modules.values():
            for name in ("get", "names"):
                found = module.members.get(name)
                if found and found.is_attribute:
                    method = pkg[f"_registry.Registry.{name}"]
                    module.set_member(name, griffe.Alias(name, method, parent=module))


def to_markdown(docstring):
    """Returns a docstring with equations, sections, and examples as a page shows them."""
    text = EQUATION.sub(_equation, docstring)
    text = DOCTEST.sub(lambda match: f"```pycon\n{match[0].rstrip()}\n```\n", text)
    return SECTION.sub(_section, text)


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
