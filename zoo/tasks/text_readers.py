"""The readers of texts that fit a core and a tokenizer."""

from zoo.readers.text.pair_reader import PairReader
from zoo.readers.text.text_reader import TextReader


def text_reader(core, tokenizer, max_length=None, kind=TextReader):
    """Returns a reader for a core, which tells what is around texts, and their padding.

    Args:
        core: The core.
        tokenizer: The tokenizer.
        max_length: Maximum number of tokens to read at once; defaults to that of the core.
        kind: The class of the reader.
    """
    around = None
    if getattr(core, "has_template", False):  # users' own cores need no such attribute
        around = tokenizer.opening_ids, tokenizer.closing_ids
    pad_id = getattr(core.config, "pad_id", None)
    return kind(tokenizer, max_length or core.config.max_length, around, pad_id)


def pair_reader(core, tokenizer):
    """Returns the reader of texts, and of pairs of texts, for a core."""
    return text_reader(core, tokenizer, kind=PairReader)
