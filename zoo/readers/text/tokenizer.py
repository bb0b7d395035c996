"""Tokenizers of existing models, with their ids, inside the TensorFlow graph."""

import itertools
import json
import re

import keras
import numpy as np
import tensorflow as tf

from keras_attention._checks import require_positive_integers_or_none
from zoo.readers.text import (
    decoders,
    library,
    models,
    normalizers,
    pretokenizers,
    tokenizer_files,
)
from zoo.readers.text.added_tokens import AddedTokens
from zoo.readers.text.base import TextTokenizer
from zoo.readers.text.bert import bert_definition
from zoo.readers.text.pieces import spell
from zoo.readers.text.tables import array_of_objects, constant
from zoo.readers.text.templates import templates_of
from zoo.readers.text.texts import as_texts_to_learn
from zoo.readers.text.words import to_valid_utf8
from zoo.readers.tracing import traced_once

FILE_FORMAT = "Tokenizer 1"
ROLES = ("pad", "start", "end", "mask", "unknown")
SIDES = ("right", "left")
OF_BERT = {  # the token of each role
    "pad": "[PAD]",
    "unknown": "[UNK]",
    "start": "[CLS]",
    "end": "[SEP]",
    "mask": "[MASK]",
}
_LANGUAGE_CODE = re.compile(r">>[^\s<>]+<<")


@keras.saving.register_keras_serializable(package="zoo")
class Tokenizer(TextTokenizer):
    """A tokenizer described by a `tokenizer.json`, made of core TensorFlow ops only.

    It returns the ids of the `tokenizers` library, or of SentencePiece, and runs eagerly, in a
    `tf.function`, in `tf.data` and in a SavedModel on any runtime. It supports WordPiece, byte-pair
    encoding over bytes or characters, and Unigram. Anything not implemented raises an error.

    Invalid UTF-8 counts as U+FFFD. Letters, marks and normal forms are those of Python's
    `unicodedata` and of RE2, whose version of Unicode may differ from that of the library. Of the
    characters of Unicode 3.2, four differ in BERT's normalization (U+166D, U+1734, U+1885, U+1886),
    none in the words of GPT-2 and Qwen 2; of all assigned to date, about 560 and 5,000.

    Args:
        definition: Dictionary, the content of a `tokenizer.json`.
        roles: Dictionary of the special tokens: `pad`, `start`, `end`, `mask`, `unknown`, each a
            `str`; `end` may be a list. A missing one has the id `None`, except for `pad`, which
            defaults to `end`, as is usual.
        size: Number of ids of the model, which may include unused ones; by default derived from the
            definition.
        truncation_side: Where texts are truncated: `"right"` or `"left"`.
        longest_pair: Maximum number of tokens of a pair of texts, if a model reads fewer than it
            has positions for; `None` for no limit.

    Raises:
        ValueError: If a part of the definition is not implemented; the message names it. If `size`
            is too small for the definition, `truncation_side` is neither of these, or
            `longest_pair` is not a positive number.

    Example:

    >>> vocabulary = {"[UNK]": 0, "a": 1, "cat": 2, "##s": 3}
    >>> tokenizer = Tokenizer(
    ...     {
    ...         "model": {"type": "WordPiece", "vocab": vocabulary, "unk_token": "[UNK]"},
    ...         "pre_tokenizer": {"type": "BertPreTokenizer"},
    ...         "decoder": {"type": "WordPiece", "prefix": "##", "cleanup": True},
    ...     }
    ... )
    >>> tokenizer.tokenize(["a cats", "dog"])
    <tf.RaggedTensor [[1, 2, 3], [0]]>
    >>> tokenizer.detokenize([[1, 2, 3]]).numpy().tolist()
    [b'a cats']
    """

    def __init__(
        self, definition, roles=None, size=None, truncation_side="right", longest_pair=None
    ):
        super().__init__()
        if truncation_side not in SIDES:
            raise ValueError(
                f"truncation_side must be one of {SIDES}. Received: {truncation_side!r}."
            )
        require_positive_integers_or_none("Tokenizer", longest_pair=longest_pair)
        self.truncation_side, self.longest_pair = truncation_side, longest_pair
        roles = roles or {}
        self._size = size
        self._text = json.dumps(definition, ensure_ascii=False)  # a tf.Module tracks dictionaries
        self._roles = tuple(roles.items())
        model, added = definition["model"], definition.get("added_tokens") or []
        vocabulary = models.vocabulary_of(model)
        ids = {**vocabulary, **{token["content"]: token["id"] for token in added}}
        self._set_roles(roles, ids)
        contents = [token["content"] for token in added]
        self.language_codes = tuple(filter(_LANGUAGE_CODE.fullmatch, sorted(contents)))
        self.templates = templates_of(definition.get("post_processor"))

        steps = normalizers.steps_of(definition.get("normalizer"))
        words = pretokenizers.Words(definition.get("pre_tokenizer"))
        found = [token for token in added if not token.get("only_as_id")]  # in texts
        raw = [token for token in found if not token.get("normalized")]
        normalized = [token for token in found if token.get("normalized")]
        self._raw_tokens = AddedTokens(raw) if raw else None
        self._normalized_tokens = self._after_normalizing(normalized, steps)
        if normalized:  # they are searched in the remaining text
            self._normalize = normalizers.put_together(steps)
            self._prepare = normalizers.put_together(words.steps)
        else:
            self._normalize = normalizers.put_together(steps + words.steps)
            self._prepare = normalizers.put_together([])
        self._words = words
        self._model = models.model_of(model, vocabulary, words.is_byte_level)
        self._set_pieces(definition, ids, [t["content"] for t in added if t.get("special")])
        self._tokenize = traced_once(self._split)

    @classmethod
    def train(cls, texts, vocabulary_size=10_000, lowercase=True, tokens=()):
        """Learns a WordPiece vocabulary from texts, as for BERT, with the `tokenizers` library.

        Args:
            texts: Iterable of `str`.
            vocabulary_size: Number of ids. A short text may result in fewer.
            lowercase: Whether to lower-case letters and remove accents.
            tokens: List of `str` that are single tokens wherever they occur, such as `"<br />"`.

        Returns:
            A `Tokenizer` with `[PAD]`, `[UNK]`, `[CLS]`, `[SEP]` and `[MASK]`, the same for the
            same texts.

        Raises:
            ImportError: If `tokenizers` is not installed.
            ValueError: If there are no texts, or `vocabulary_size` has no room for the special
                tokens and the characters.

        Example:

        >>> tokenizer = Tokenizer.train(["the cats", "the hat"], vocabulary_size=30)
        >>> tokenizer.pieces(tokenizer.tokenize(["The hats"]))
        [['the', 'hat', '·s']]
        """
        texts = [_without(text, tokens) for text in as_texts_to_learn(texts=texts)]
        if not any(texts):
            raise ValueError("texts holds no text to learn from (an exhausted generator?).")
        special = [*OF_BERT.values(), *tokens]
        vocabulary = library.learn_word_pieces(texts, vocabulary_size, special, lowercase)
        if len(vocabulary) > vocabulary_size:
            raise ValueError(
                f"vocabulary_size must be at least {len(vocabulary)} (special tokens and "
                f"characters). Received: {vocabulary_size}."
            )
        added = [
            {"id": vocabulary[token], "content": token, "special": token not in tokens}
            for token in special
        ]
        around = OF_BERT["start"], OF_BERT["end"]
        definition = bert_definition(vocabulary, *around, OF_BERT["unknown"], lowercase)
        return cls({"added_tokens": added, **definition}, OF_BERT)

    def _set_roles(self, roles, ids):
        unknown = roles.keys() - set(ROLES)
        if unknown:
            raise ValueError(f"roles must be among {ROLES}. Received: {sorted(unknown)}.")
        ends = roles.get("end") or []
        ends = [ends] if isinstance(ends, str) else ends
        missing = [
            token
            for token in [*ends, *(roles.get(role) for role in ROLES if role != "end")]
            if token is not None and token not in ids
        ]
        if missing:
            raise ValueError(f"special tokens that are not in the vocabulary: {missing}.")
        self._end_ids = tuple(ids[token] for token in ends)
        self.end_id = self._end_ids[0] if ends else None
        self.pad_id = ids.get(roles.get("pad"), self.end_id)
        self.start_id = ids.get(roles.get("start"))
        self.mask_id = ids.get(roles.get("mask"))
        self.unknown_id = ids.get(roles.get("unknown"))

    def _set_pieces(self, definition, ids, special):
        suffix = definition["model"].get("end_of_word_suffix") or ""
        decoder = definition.get("decoder") or {}
        first, rest = decoders.spelling_of(definition.get("decoder"), suffix)
        needed = max(ids.values(), default=-1) + 1
        if self._size is not None and self._size < needed:
            raise ValueError(
                f"size={self._size} is too small for ids up to {needed - 1}: model and tokenizer "
                "do not belong together."
            )
        names = [""] * (self._size or needed)
        for token, number in ids.items():
            names[number] = token
        special = {ids[token] for token in special}
        is_of_characters = decoder.get("type") == "Characters"
        self._strips_end = bool(suffix) or is_of_characters
        of_characters = is_of_characters and decoder["cleanup"]  # whole texts, not each piece
        self._is_cleaned = of_characters or bool(definition.get(library.CLEANED))
        self._names = array_of_objects(names)
        self._pieces = array_of_objects([rest(name) for name in names])
        # An id without a token is no text either, and does not begin one.
        is_special = [number in special or not name for number, name in enumerate(names)]
        self._is_special = np.array(is_special)
        self._special_mask = constant(self._is_special, tf.bool)
        self._first_bytes = constant([first(name) for name in names], tf.string)
        self._piece_bytes = constant([*self._pieces], tf.string)

    @property
    def opening_ids(self):
        return _special(itertools.takewhile(lambda item: item.text is None, self.templates[0]))

    @property
    def closing_ids(self):
        return _special(itertools.dropwhile(lambda item: item.text is None, self.templates[0]))

    @property
    def end_ids(self):
        return self._end_ids

    @property
    def vocabulary_size(self):
        """Number of ids, added tokens counted."""
        return len(self._names)

    def id_of(self, token):
        """Returns the id of a piece or an added token, given its text."""
        return int(np.flatnonzero(self._names == token)[0])

    @property
    def longest_piece(self):
        """Number of bytes of the longest piece."""
        return max(map(len, self._pieces))

    @tf.autograph.experimental.do_not_convert
    def tokenize(self, texts):
        """Splits texts into the ids of their pieces, without special tokens around them.

        Added tokens that occur in texts get their ids, as in the library.

        Args:
            texts: Strings of shape `[batch]`.

        Returns:
            A `tf.RaggedTensor` of int32 ids, of shape `[batch, (pieces)]`.

        Raises:
            ValueError: If `texts` is not `[batch]`.
        """
        texts = tf.convert_to_tensor(texts, tf.string)
        if texts.shape.rank not in (1, None):
            raise ValueError(f"texts must have the shape [batch]. Received: {texts.shape}.")
        return self._tokenize(texts)

    def _split(self, texts):
        with tf.device("CPU"):  # where strings and tables are: a GPU would only send ids to and fro
            parts, tokens, splits = self._parts(to_valid_utf8(texts))
            is_first = tf.scatter_nd(splits[:-1, None], tf.ones_like(splits[:-1]), [splits[-1] + 1])
            words = self._words(self._prepare(parts), is_first[:-1] > 0)  # [parts, (words)]
            pieces = self._model(words.values)  # [parts and words, (pieces)]
            row_splits = tf.gather(pieces.row_splits, words.row_splits)
            pieces = tf.RaggedTensor.from_row_splits(pieces.values, row_splits, validate=False)
            if tokens is not None:
                pieces = tf.cond(
                    tf.reduce_any(tokens >= 0),
                    lambda: _with_tokens(pieces, tokens),
                    lambda: pieces,
                )
            return tf.RaggedTensor.from_row_splits(
                pieces.values, tf.gather(pieces.row_splits, splits), validate=False
            )

    def _parts(self, texts):
        """Returns normalized texts between added tokens, ids of the latter, and row splits."""
        splits = tf.range(tf.size(texts, tf.int64) + 1)
        tokens = None
        if self._raw_tokens is not None:
            texts, tokens, splits = self._raw_tokens(texts)
        texts = self._normalize(texts)
        if self._normalized_tokens is not None:
            outer = tokens
            texts, tokens, inner = self._normalized_tokens(texts)
            if outer is not None:  # a token that was found before is an empty text by now
                outer = tf.scatter_nd(inner[:-1, None], outer + 1, [inner[-1]]) - 1
                tokens = tf.maximum(tokens, outer)
            splits = tf.gather(inner, splits)
        return texts, tokens, splits

    @tf.autograph.experimental.do_not_convert
    def detokenize(self, token_ids, skip_special_tokens=True, begins_text=True):
        """Joins pieces into texts, as the decoder of the library does.

        Bytes that are not valid UTF-8 become U+FFFD. Whole characters stay beside them where tokens
        are bytes, as in SentencePiece; the library drops those of such a run.

        Args:
            token_ids: Integer ids of shape `[batch, length]`, dense or ragged.
            skip_special_tokens: Whether special tokens are left out.
            begins_text: Whether the ids begin a text, or continue one, so that a leading space is
                kept.

        Returns:
            Strings of shape `[batch]`.
        """
        kept = None
        if isinstance(token_ids, tf.RaggedTensor):
            kept = tf.ones_like(token_ids, tf.bool).to_tensor(False)
            token_ids = token_ids.to_tensor(0)
        token_ids = tf.convert_to_tensor(token_ids, dtype_hint=tf.int32)  # [batch, length]
        if kept is None:
            kept = tf.ones_like(token_ids, tf.bool)
        if skip_special_tokens:
            kept &= ~tf.gather(self._special_mask, token_ids)
        is_first = kept & (tf.cumsum(tf.cast(kept, tf.int32), axis=1) == 1) & begins_text
        pieces = tf.where(
            is_first,
            tf.gather(self._first_bytes, token_ids),
            tf.gather(self._piece_bytes, token_ids),
        )
        texts = to_valid_utf8(tf.strings.reduce_join(tf.where(kept, pieces, ""), axis=1))
        texts = tf.strings.strip(texts) if self._strips_end and begins_text else texts
        return decoders.cleaned(texts) if self._is_cleaned else texts

    def piece_texts(self, token_ids):
        """Spells ids in the graph: strings of the shape of `token_ids`, special tokens empty."""
        texts = to_valid_utf8(tf.gather(self._piece_bytes, token_ids))
        return tf.where(tf.gather(self._special_mask, token_ids), "", texts)

    def piece_bytes(self, token_id):
        """Returns the bytes behind one id, none for a special token."""
        return b"" if self._is_special[token_id] else self._pieces[token_id]

    def pieces(self, token_ids):
        """Spells ids for people: see `ByteBPETokenizer.pieces`.

        Args:
            token_ids: Integer ids of shape `[batch, length]`: dense, ragged or nested lists.

        Returns:
            A list of lists of `str`, one for each id.
        """
        if isinstance(token_ids, tf.RaggedTensor):
            token_ids = token_ids.to_list()
        return [[self._spell(int(token)) for token in row] for row in token_ids]

    def _spell(self, token):
        if self._is_special[token] or not self._pieces[token]:
            return self._names[token]
        return spell(self._pieces[token])

    def to_library(self):
        """Returns the `tokenizers.Tokenizer` of the definition, which adds special tokens.

        Raises:
            ImportError: If `tokenizers` is not installed.
            ValueError: If the library cannot read the definition, such as that of Marian.
        """
        return library.of_definition(json.loads(self._text))

    def save(self, path):
        """Writes the definition and the roles to one JSON file, for `load`.

        Args:
            path: Where to write.
        """
        config = self.get_config()
        content = {
            **config["definition"],
            "roles": config["roles"],
            "size": self._size,
            "truncation_side": self.truncation_side,
            "longest_pair": self.longest_pair,
        }
        tokenizer_files.write(path, FILE_FORMAT, content)

    @classmethod
    def load(cls, path):
        """Reads a tokenizer that `save` wrote.

        Args:
            path: The file.

        Raises:
            ValueError: If the file does not hold a tokenizer; the message says why.
        """

        def make(content):
            roles, size = content.pop("roles", {}), content.pop("size", None)
            truncation_side = content.pop("truncation_side", "right")
            longest_pair = content.pop("longest_pair", None)
            return cls(content, roles, size, truncation_side, longest_pair)

        return tokenizer_files.read(path, FILE_FORMAT, make)

    def get_config(self):
        return {
            "definition": json.loads(self._text),
            "roles": dict(self._roles),
            "size": self._size,
            "truncation_side": self.truncation_side,
            "longest_pair": self.longest_pair,
        }

    @classmethod
    def from_config(cls, config):
        return cls(**config)

    @staticmethod
    def _after_normalizing(tokens, steps):
        """Normalizes the added tokens that are searched in normalized texts."""
        if not tokens:
            return None
        contents = normalizers.put_together(steps)(
            tf.constant([token["content"] for token in tokens])
        )
        contents = [content.decode() for content in contents.numpy()]
        return AddedTokens(
            [{**token, "content": content} for token, content in zip(tokens, contents, strict=True)]
        )


def _without(text, tokens):
    """Returns a text in which each of the tokens is replaced with a space."""
    for token in tokens:
        text = text.replace(token, " ")
    return text


def _with_tokens(pieces, tokens):
    """Inserts added tokens, -1 for none, before the pieces of parts: `[parts, (pieces)]`."""
    is_token = tokens >= 0
    tokens = tf.RaggedTensor.from_row_lengths(
        tf.cast(tf.boolean_mask(tokens, is_token), tf.int32),
        tf.cast(is_token, tf.int64),
        validate=False,
    )
    return tf.concat([tokens, pieces], axis=1)


def _special(items):
    """Returns the ids of the special tokens among the items of a template, a tuple."""
    return tuple(number for item in items for number in item.token_ids)
