"""The padding of texts, which a model must know to leave it out."""


def padding_of(tokenizer):
    """Returns a dictionary of the option of a core that a tokenizer determines: its `pad_id`."""
    pad_id = getattr(tokenizer, "pad_id", None)
    return {} if pad_id is None else {"pad_id": pad_id}


def own_padding_of(tokenizer):
    """Returns the same for a core whose padding must be no token of texts: −1 if there is none."""
    return {} if tokenizer is None else {"pad_id": tokenizer.own_pad_id}


def require_same_padding(core, expected):
    """Raises a `ValueError` if a core takes another token for padding than its tokenizer.

    Args:
        core: The core of a task; with `pad_id=-1`, it takes none.
        expected: Id of the padding token of the tokenizer; `None` without a tokenizer.
    """
    pad_id = getattr(getattr(core, "config", None), "pad_id", -1)
    if expected is not None and pad_id not in (-1, expected):
        raise ValueError(
            "The core must pad with the padding token of the tokenizer, or with -1 if that is also "
            f"a token of texts. Received: a core with pad_id={pad_id}. Create it with pad_id="
            f"{expected}."
        )
