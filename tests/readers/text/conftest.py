"""The tokenizers that several files test."""

import json

import pytest

from tests.readers.text import small_tokenizers
from tests.readers.text.byte_bpe_texts import TRAINING_TEXTS
from zoo.readers.text import ByteBPETokenizer, Tokenizer


@pytest.fixture(scope="module")
def bert():
    """A tokenizer of the library, and ours of the same definition."""
    library = small_tokenizers.ALL["bert_uncased"]()
    return library, Tokenizer(json.loads(library.to_str()), {"pad": "[PAD]", "mask": "[MASK]"})


@pytest.fixture(scope="module")
def tokenizer():
    """A byte-level BPE, trained on a few sentences."""
    return ByteBPETokenizer.train(TRAINING_TEXTS, vocabulary_size=700, num_words=100)
