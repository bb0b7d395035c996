"""`TwoSidedTokenizer`: a tokenizer of the source, and another one of the target."""

import keras

from zoo.readers.text import tokenizer_files
from zoo.readers.text.base import TextTokenizer
from zoo.readers.text.tokenizer import Tokenizer

FILE_FORMAT = "TwoSidedTokenizer 1"
_OF_TARGET = (
    "detokenize",
    "piece_bytes",
    "piece_texts",
    "pieces",
    "tokenize",
)


@keras.saving.register_keras_serializable(package="zoo")
class TwoSidedTokenizer(TextTokenizer):
    """A tokenizer of target texts, with another one for source texts: `tokenizer.source`.

    Both share the same ids, such as those of Marian, which splits the two languages with separate
    models.

    Args:
        target: `Tokenizer` of the texts that a model writes.
        source: `Tokenizer` of the texts that it reads.

    Raises:
        ValueError: If their numbers of ids differ.
    """

    def __init__(self, target, source):
        super().__init__()
        deserialize = keras.saving.deserialize_keras_object
        target, source = (deserialize(x) if isinstance(x, dict) else x for x in (target, source))
        if target.vocabulary_size != source.vocabulary_size:
            raise ValueError(
                "Two sides of a tokenizer have the same ids. Received: target with "
                f"{target.vocabulary_size}, source with {source.vocabulary_size}."
            )
        self.target, self._source = target, source
        for name in ("pad_id", "start_id", "end_id", "mask_id", "unknown_id", "templates"):
            setattr(self, name, getattr(target, name))
        for name in _OF_TARGET:
            setattr(self, name, getattr(target, name))

    @property
    def source(self):
        return self._source

    def to_library(self):
        """Raises a `ValueError`: the `tokenizers` library only supports one side."""
        raise ValueError(
            "The `tokenizers` library has no tokenizer of two sides, such as that of Marian. "
            "Outside, tokenize with source.spm and target.spm of the checkpoint and the "
            "`sentencepiece` library; vocab.json has the ids of the pieces."
        )

    @property
    def opening_ids(self):
        return self.target.opening_ids

    @property
    def end_ids(self):
        return self.target.end_ids

    @property
    def vocabulary_size(self):
        """Number of ids."""
        return self.target.vocabulary_size

    @property
    def longest_piece(self):
        """Number of bytes of the longest piece of both."""
        return max(self.target.longest_piece, self.source.longest_piece)

    def save(self, path):
        """Writes both to one JSON file, for `load`.

        Args:
            path: Where to write.
        """
        sides = {"target": self.target.get_config(), "source": self.source.get_config()}
        tokenizer_files.write(path, FILE_FORMAT, sides)

    @classmethod
    def load(cls, path):
        """Reads a tokenizer that `save` wrote.

        Args:
            path: The file.

        Raises:
            ValueError: If the file does not hold such a tokenizer; the message says why.
        """

        def make(content):
            return cls(*(Tokenizer(**content[side]) for side in ("target", "source")))

        return tokenizer_files.read(path, FILE_FORMAT, make)

    def get_config(self):
        serialize = keras.saving.serialize_keras_object
        return {"target": serialize(self.target), "source": serialize(self.source)}

    @classmethod
    def from_config(cls, config):
        return cls(**config)
