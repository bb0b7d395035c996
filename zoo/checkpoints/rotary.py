"""Rotary positions and their scaling in the configs of transformers."""

import keras

from keras_attention.positions import (
    DynamicScaling,
    LinearScaling,
    Llama3Scaling,
    LongRoPE,
    Rotary,
    YaRN,
)
from zoo.checkpoints.layer_types import FULL, WINDOWED


def settings_of_rotary(settings, theta="rope_theta", usual=10000.0):
    """Returns a dictionary of the settings of rotary positions.

    Args:
        settings: `Settings` of the model.
        theta: What older files call their wavelength.
        usual: The wavelength if the file names none.
    """
    old = settings.take("rope_scaling", default=None) or {}
    found = dict(settings.take("rope_parameters", default=None) or old)
    found["rope_theta"] = found.get("rope_theta") or settings.take(theta, default=usual)
    settings.ignore(theta)
    return found


def rotary(settings, found, fraction=1.0):
    """Returns the config of rotary positions.

    Args:
        settings: `Settings` of the model.
        found: Dictionary of the settings of rotary positions.
        fraction: Fraction of the dimensions that is rotated, if they do not say it.

    Raises:
        ValueError: If one of them is not implemented; the message names it.
    """
    found = {name: value for name, value in found.items() if value is not None}
    theta = found.pop("rope_theta")
    kind = found.pop("rope_type", None) or found.pop("type", "default")
    found.pop("type", None)
    fraction = found.pop("partial_rotary_factor", fraction)
    length = settings.take("max_position_embeddings")
    original = found.pop("original_max_position_embeddings", None) or length
    scaling = _scaling(settings, kind, found, length, original)
    if found:
        raise ValueError(
            f"{settings.path} has settings of rotary positions that are not implemented: {found}."
        )
    return keras.saving.serialize_keras_object(
        Rotary(theta, fraction=fraction, pairs="halves", scaling=scaling)
    )


def rotary_by_kind(settings, options, wavelength, windowed_wavelength):
    """Returns the options of positions that differ between layers with and without a window.

    Args:
        settings: `Settings` of the model.
        options: Options of the model, among them those of windows.
        wavelength: That of layers without a window, if the settings of their kind name none.
        windowed_wavelength: The same for the others, whose positions are not scaled.
    """
    named = settings.take("rope_parameters", default=None) or {}
    full, windowed = (dict(named.get(kind) or {}) for kind in (FULL, WINDOWED))
    full |= settings.take("rope_scaling", default=None) or {}
    full.setdefault("rope_theta", wavelength)
    windowed.setdefault("rope_theta", windowed_wavelength)
    full, windowed = rotary(settings, full), rotary(settings, windowed)
    if "window" not in options:
        return {"position": full}
    is_mixed = options["global_layers"] is not None
    return {"position": windowed, "global_position": full if is_mixed else None}


def _scaling(settings, kind, found, length, original):
    """Returns how rotary positions are scaled, and removes its settings from those found.

    Args:
        settings: `Settings` of the model.
        kind: What the file calls it.
        found: Dictionary of the settings of rotary positions.
        length: Number of positions of the model.
        original: Number of positions that it was trained for before.
    """

    def needed(name):
        if found.get(name) is None:
            raise ValueError(
                f"{settings.path} scales rotary positions by {kind!r}, which needs a {name!r}. "
                f"Received: {found}."
            )
        return found.pop(name)

    if kind == "default":
        return None
    if kind == "linear":
        return LinearScaling(factor=needed("factor"))
    if kind == "dynamic":
        return DynamicScaling(factor=needed("factor"), original_length=length)
    if kind == "llama3":
        return Llama3Scaling(
            factor=needed("factor"),
            original_length=original,
            low=needed("low_freq_factor"),
            high=needed("high_freq_factor"),
        )
    if kind == "yarn":
        return YaRN(
            factor=needed("factor"),
            original_length=original,
            fast_rotations=found.pop("beta_fast", None) or 32.0,
            slow_rotations=found.pop("beta_slow", None) or 1.0,
            attention_factor=found.pop("attention_factor", None),
        )
    if kind == "longrope":
        return LongRoPE(
            factor=found.pop("factor", None) or length / original,
            original_length=original,
            short=needed("short_factor"),
            long=needed("long_factor"),
            attention_factor=found.pop("attention_factor", None),
        )
    raise ValueError(
        f"{settings.path} scales rotary positions by {kind!r}, which is not implemented. "
        "Implemented: linear, dynamic, llama3, yarn, longrope."
    )
