"""`WordReader`: turns words into token ids, and locates each word among them."""

from typing import NamedTuple

import tensorflow as tf

from zoo.readers.text.text_reader import TextReader
from zoo.readers.text.texts import as_texts, entries_of, is_row

SEPARATOR = "\x1f"  # between the words of a request
_LETTER = r"\p{L}\p{M}\p{N}_"
_SPACE = r"\s\v\x{85}\p{Z}"
_WORD = f"( ?(?:[{_LETTER}]+|[^{_SPACE}{_LETTER}]))"


class Words(NamedTuple):
    """The words of texts.

    Attributes:
        token_ids: int32 `(batch, chunks, length)`, split into chunks like in `TextReader`.
        words: Strings `(batch, words)`, empty after the last word of a text.
        places: int32 `(batch, words)`, the position of the first token of each among all tokens of
            its text, chunk after chunk; -1 for a word without tokens, and after the last word.
    """

    token_ids: tf.Tensor
    words: tf.Tensor
    places: tf.Tensor


class WordReader(TextReader):
    """Prepares texts for a tagger: words, each a run of letters and digits or another character.

    Each word is tokenized by itself, with the space before it, as in the training of taggers.

    Args:
        tokenizer, max_length: As for `TextReader`.

    Example:

    >>> from zoo import ByteBPETokenizer
    >>> reader = WordReader(ByteBPETokenizer([], prefix_space=False), max_length=20)
    >>> reader.words_of(["He's in Rome."]).numpy()[0].decode().split(SEPARATOR)
    ['He', "'", 's', ' in', ' Rome', '.']
    >>> reader.read_words([f"ab{SEPARATOR} c"]).places.numpy().tolist()
    [[1, 3]]
    """

    def requests(self, texts):
        """Returns the words of texts as requests, and whether it was one text.

        Args:
            texts: A `str`, or a list whose entries are each a `str` or a list of words.
        """
        if isinstance(texts, str):
            texts, is_one = [texts], True
        else:
            texts, is_one = entries_of(texts), False
        requests = [None] * len(texts)
        split = [place for place, text in enumerate(texts) if not is_row(text)]
        if split:
            plain, _ = as_texts([texts[place] for place in split])
            for place, words in zip(split, self.words_of(plain).numpy(), strict=True):
                requests[place] = words
        for place, text in enumerate(texts):
            if requests[place] is None:
                words, _ = as_texts(text)
                words = [" ".join(word.replace(SEPARATOR, " ").split()) for word in words]
                # A first word without characters must not vanish, as the one of an empty text does.
                first = " " if words[:1] == [""] else ""
                requests[place] = (first + f"{SEPARATOR} ".join(words)).encode()
        return requests, is_one

    def words_of(self, texts):
        """Returns texts with separators between words, strings `(batch,)`, in the graph."""
        texts = tf.strings.regex_replace(texts, f"[{_SPACE}{SEPARATOR}]+", " ")
        texts = tf.strings.regex_replace(tf.strings.strip(texts), _WORD, f"{SEPARATOR}\\1")
        return tf.strings.regex_replace(texts, f"^{SEPARATOR}", "")

    def read_words(self, requests):
        """Reads separated words, in the graph.

        Args:
            requests: Strings `(batch,)`.

        Returns:
            `Words`.
        """
        words = tf.strings.split(requests, SEPARATOR)  # (batch, (words))
        words = tf.ragged.boolean_mask(words, words != "")
        texts = tf.strings.strip(words.values) if self.tokenizer.prefix_space else words.values
        pieces = self.tokenizer.tokenize(texts)  # (all words, (pieces))
        counts = words.with_values(tf.cast(pieces.row_lengths(), tf.int32)).to_tensor(0)
        row_splits = tf.gather(pieces.row_splits, words.row_splits)
        tokens = tf.RaggedTensor.from_row_splits(pieces.values, row_splits, validate=False)
        length = tf.cast(tokens.bounding_shape()[1], tf.int32)
        token_ids = self.chunks(tokens.to_tensor(self.tokenizer.pad_id), tokens.row_lengths())
        room = self.max_length - 2
        width = tf.where(length > room, room, tf.maximum(length, 1))
        first = tf.cumsum(counts, axis=1, exclusive=True)
        places = first // width * (width + 2) + first % width + 1
        return Words(token_ids, words.to_tensor(""), tf.where(counts > 0, places, -1))
