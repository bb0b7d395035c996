"""Layers with a window and layers without one, in the configs of transformers."""

FULL, WINDOWED = "full_attention", "sliding_attention"


def windows(settings, window, kinds):
    """Returns the options of a language model whose layers are of these kinds.

    Args:
        settings: `Settings` of the model.
        window: Number of tokens that a token attends to in some layers; `None` for all.
        kinds: List of `FULL` and `WINDOWED`, one for each layer.

    Raises:
        ValueError: If there are other kinds, or another number of them than of layers.
    """
    number = settings.take("num_hidden_layers", "num_layers")
    if len(kinds) != number or not set(kinds) <= {FULL, WINDOWED}:
        raise ValueError(
            f"{settings.path} has layers of the kinds {kinds}, which is not implemented: there "
            f"should be {number}, each of them {FULL!r} or {WINDOWED!r}."
        )
    if window is None or WINDOWED not in kinds:
        return {}
    full = [place for place, kind in enumerate(kinds) if kind == FULL]
    return {"window": window, "global_layers": full or None}
