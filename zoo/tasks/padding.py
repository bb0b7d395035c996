"""The padding of texts, which a model must know to leave it out."""


def padding_of(tokenizer):
    """Returns a dictionary of the option of a core that a tokenizer determines: its `pad_id`."""
    pad_id = getattr(tokenizer, "pad_id", None)
    return {} if pad_id is None else {"pad_id": pad_id}


def require_same_padding(core, tokenizer):
    """Raises a `ValueError` if a core takes another token for padding than its tokenizer.

    Args:
        core: The core of a task; with `pad_id=-1`, it knows no padding.
        tokenizer: The tokenizer, or `None`.
    """
    pad_id = getattr(core.config, "pad_id", -1)
    if tokenizer is not None and pad_id not in (-1, tokenizer.pad_id):
        raise ValueError(
            "The core and the tokenizer must have the same padding token. Received: pad_id="
            f"{pad_id}, and a tokenizer with {tokenizer.pad_id}. Create the core with pad_id="
            f"{tokenizer.pad_id}."
        )
