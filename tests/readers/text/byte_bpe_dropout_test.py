"""BPE dropout: seeds, and as many pieces as in the paper."""

import itertools
import random

import numpy as np
import pytest
import tensorflow as tf

from tests.readers.text.byte_bpe_texts import (
    TRAINING_TEXTS,
    TRICKY_TEXTS,
    every_character,
    in_byte_alphabet,
    random_texts,
)
from tests.readers.text.comparison import decoded
from zoo.readers.text.words import split_words


def test_dropout_of_zero_changes_nothing(tokenizer):
    plain = tokenizer.tokenize(TRAINING_TEXTS)
    assert tokenizer.tokenize(TRAINING_TEXTS, dropout=0.0, seed=[1, 2]).to_list() == plain.to_list()


def test_dropout_of_one_gives_bytes(tokenizer):
    tokens = tokenizer.tokenize(["A mäñ"], dropout=1.0, seed=[1, 2])
    assert tokens.to_list() == [[3 + byte for byte in " A mäñ".encode()]]


def test_dropout_depends_on_the_seed_alone(tokenizer):
    def split(seed):
        return tokenizer.tokenize(TRAINING_TEXTS, dropout=0.3, seed=tf.constant(seed)).to_list()

    found = split([1, 2])
    assert found == split([1, 2])
    assert found != split([1, 3])
    assert found[:6] != found[6:12]  # equal sentences, other draws


def test_dropout_round_trips(tokenizer):
    texts = TRICKY_TEXTS + random_texts(200, every_character(), seed=4)
    tokens = tokenizer.tokenize(texts, dropout=0.2, seed=tf.constant([5, 6], tf.int64))
    assert decoded(tokenizer.detokenize(tokens)) == texts


def paper_bpe_dropout(word, ranks, dropout, generator):
    """Algorithm 1 of Provilkov et al. 2020, as in their code: all places of the best survivor."""
    symbols = list(word)
    while True:
        pairs = enumerate(itertools.pairwise(symbols))
        survivors = [
            (ranks[pair], place)
            for place, pair in pairs
            if pair in ranks and generator.random() >= dropout
        ]
        if not survivors:
            return symbols
        best = min(survivors)[0]
        next_free = 0
        merged = []
        for place, symbol in enumerate(symbols):
            if place < next_free:
                continue
            is_merged = (best, place) in survivors
            merged.append(symbol + symbols[place + 1] if is_merged else symbol)
            next_free = place + (2 if is_merged else 1)
        symbols = merged


@pytest.mark.parametrize("dropout", [0.1, 0.5])
def test_dropout_splits_as_much_as_the_paper(tokenizer, dropout):
    repeats = 40
    ranks = {tuple(pair): rank for rank, pair in enumerate(tokenizer._merges)}
    words = [in_byte_alphabet(word) for word in split_words(TRAINING_TEXTS).flat_values.numpy()]
    generator = random.Random(0)
    expected = np.mean(
        [
            sum(len(paper_bpe_dropout(word, ranks, dropout, generator)) for word in words)
            for _ in range(repeats)
        ]
    )
    texts = TRAINING_TEXTS * repeats
    tokens = tokenizer.tokenize(texts, dropout=dropout, seed=[0, 1])
    assert tokens.flat_values.shape[0] / repeats == pytest.approx(expected, rel=0.01)


def test_dataset_with_dropout(tokenizer):
    def split(seed, texts):
        return tokenizer.tokenize(texts, dropout=0.1, seed=seed)

    seeds = tf.data.Dataset.random(seed=1).batch(2)
    batches = tf.data.Dataset.zip(
        seeds, tf.data.Dataset.from_tensor_slices(TRICKY_TEXTS).batch(3)
    ).map(split)
    restored = [text for batch in batches for text in decoded(tokenizer.detokenize(batch))]
    assert restored == TRICKY_TEXTS
