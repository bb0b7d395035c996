"""`MultilingualTokenizer`: texts of many languages, each with the token of its language."""

import keras
import tensorflow as tf

from keras_attention.errors import unknown_name
from zoo.readers.text import tokenizer_files
from zoo.readers.text.base import TextTokenizer
from zoo.readers.text.tokenizer import Tokenizer

FILE_FORMAT = "MultilingualTokenizer 1"
_SHARED = (
    "detokenize",
    "end_id",
    "end_ids",
    "longest_piece",
    "mask_id",
    "pad_id",
    "piece_bytes",
    "piece_texts",
    "pieces",
    "prefix_space",
    "templates",
    "unknown_id",
    "vocabulary_size",
)


class _InLanguage(TextTokenizer):
    """A tokenizer that puts the token of a language in front of every text.

    Args:
        tokenizer: A `Tokenizer`.
        language_id: Id of the token.
        language_last: Whether the token is not in front of a text, but behind the end token of a
            source, and in place of the start token of a target.
    """

    def __init__(self, tokenizer, language_id, language_last=False):
        super().__init__()
        self._tokenizer = tokenizer
        self.language_id = None if language_last else language_id
        self.tail_ids = (language_id,) if language_last else ()
        self.start_id = language_id if language_last else tokenizer.start_id

    def tokenize(self, texts):
        """Splits texts into ids, as `Tokenizer.tokenize`; the first one names the language."""
        tokens = self._tokenizer.tokenize(texts)
        if self.language_id is None:
            return tokens
        language = tf.fill([tokens.nrows(), 1], self.language_id)
        return tf.concat([language, tokens], axis=1)


for name in _SHARED:
    setattr(_InLanguage, name, property(lambda self, name=name: getattr(self._tokenizer, name)))


@keras.saving.register_keras_serializable(package="zoo")
class MultilingualTokenizer(_InLanguage):
    """A tokenizer for the translation of one language into another, of the many that a model knows.

    Source texts begin with the token of the source language, target texts with that of the target
    language. This is that of target texts, and `tokenizer.source` that of source texts.

    Args:
        tokenizer: The `Tokenizer` of all languages.
        languages: Dictionary of the codes of all languages to their tokens, such as `{"eng_Latn":
            "eng_Latn"}` of NLLB or `{"en": "__en__"}` of M2M100.
        source_language, target_language: Codes of the two languages.
        language_last: Whether a source text ends with the token of its language, behind the end
            token, and a target text has that of its language in place of the start token.

    Raises:
        ValueError: If a language is unknown.
    """

    def __init__(self, tokenizer, languages, source_language, target_language, language_last=False):
        if isinstance(tokenizer, dict):
            tokenizer = keras.saving.deserialize_keras_object(tokenizer)
        pair = {"source_language": source_language, "target_language": target_language}
        for argument, language in pair.items():
            if language not in languages:
                raise ValueError(
                    unknown_name(argument, language, sorted(languages))
                    if isinstance(language, str)
                    else f"A model of {len(languages)} languages needs `source_language` and "
                    f"`target_language`, two of {', '.join(sorted(languages))}. Received: "
                    f"source_language={source_language!r}, target_language={target_language!r}."
                )
        source, target = (tokenizer.id_of(languages[language]) for language in pair.values())
        super().__init__(tokenizer, target, language_last)
        self._source = _InLanguage(tokenizer, source, language_last)
        self.language_last = language_last
        self._languages = tuple(languages.items())  # a tf.Module tracks dictionaries
        self.source_language, self.target_language = source_language, target_language

    @property
    def source(self):
        return self._source

    @property
    def languages(self):
        """Dictionary of the codes of all languages to their tokens."""
        return dict(self._languages)

    def between(self, source_language, target_language):
        """Returns the tokenizer of another pair of languages, which shares all tables.

        Args:
            source_language, target_language: Their codes.
        """
        pair = source_language, target_language
        return type(self)(self._tokenizer, self.languages, *pair, self.language_last)

    def to_library(self):
        """Raises a `ValueError`: the `tokenizers` library only supports one side."""
        raise ValueError(
            "The `tokenizers` library has no tokenizer that puts different tokens in front of "
            "source and target texts. Outside, tokenize with the files of the checkpoint."
        )

    def save(self, path):
        """Writes everything to a JSON file, for `load`.

        Args:
            path: Where to write.
        """
        content = {**self._settings, "tokenizer": self._tokenizer.get_config()}
        tokenizer_files.write(path, FILE_FORMAT, content)

    @classmethod
    def load(cls, path):
        """Reads a tokenizer that `save` wrote.

        Args:
            path: The file.

        Raises:
            ValueError: If the file does not hold such a tokenizer; the message says why.
        """

        def make(content):
            return cls(Tokenizer(**content.pop("tokenizer")), **content)

        return tokenizer_files.read(path, FILE_FORMAT, make)

    @property
    def _settings(self):
        return {
            "languages": self.languages,
            "source_language": self.source_language,
            "target_language": self.target_language,
            "language_last": self.language_last,
        }

    def get_config(self):
        return {
            "tokenizer": keras.saving.serialize_keras_object(self._tokenizer),
            **self._settings,
        }

    @classmethod
    def from_config(cls, config):
        return cls(**config)
