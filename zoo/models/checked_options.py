"""The base class of the options of models, which checks numbers and flags."""

import dataclasses
import math
import types
import typing
from numbers import Integral, Real

from keras_attention._checks import plain


@dataclasses.dataclass(frozen=True)
class CheckedOptions:
    """Options of a model. Their types are those of the fields of a subclass.

    Integers are at least 1, or 0 where that is the default or where layers are counted. Ids of
    tokens and seeds are any integers. NumPy's numbers become Python's, which presets can store.

    Raises:
        ValueError: If a number or a flag is of another type, or too small.
    """

    def __post_init__(self):
        owner = type(self).__name__.removesuffix("Config")
        for field in dataclasses.fields(self):
            kinds = typing.get_args(field.type) or (field.type,)
            value = getattr(self, field.name)
            if set(kinds) <= set(_EXPECTED) and not any(_is(kind, value, field) for kind in kinds):
                expected = " or ".join(_EXPECTED[kind] for kind in kinds)
                if int in kinds and _least(field) is not None:
                    expected = expected.replace("integer", f"integer of at least {_least(field)}")
                raise ValueError(
                    f"`{field.name}` of {owner} must be {expected}. Received: "
                    f"{field.name}={value!r}."
                )
            object.__setattr__(self, field.name, plain(value))


_EXPECTED = {
    int: "an integer",
    float: "a finite number",
    bool: "True or False",
    types.NoneType: "None",
}


def _is(kind, value, field):
    if kind is types.NoneType:
        return value is None
    if kind is bool:
        return isinstance(value, bool)
    if isinstance(value, bool) or not isinstance(value, Real):
        return False
    if kind is float:
        return math.isfinite(value)
    return isinstance(value, Integral) and (_least(field) is None or value >= _least(field))


def _least(field):
    """Returns the least value of an integer, or `None` if it may be any."""
    if field.name == "seed" or field.name.endswith("_id"):
        return None
    return 0 if field.default == 0 or field.name.endswith("layers") else 1
