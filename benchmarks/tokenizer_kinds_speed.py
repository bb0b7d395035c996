"""Speed of `Tokenizer` with vocabularies of other libraries: WordPiece, BPE and Unigram.

python -m benchmarks.tokenizer_kinds_speed --data-dir /path/to/multi30k

Each vocabulary of 8,000 pieces is trained on the English Multi30k training set. The tokenizers then
split the test set in batches of 64.
"""

import argparse
import gzip
import io
import json
import pathlib
import statistics
import tempfile
import time

import sentencepiece
import tensorflow as tf
import tokenizers
from tokenizers import models, normalizers, pre_tokenizers, trainers

from zoo.readers.text import Tokenizer
from zoo.readers.text.sentencepiece_files import read_model

PIECES, BATCH, ROUNDS = 8000, 64, 7


def read_lines(path):
    with gzip.open(path, "rt", encoding="utf-8") as file:
        return file.read().splitlines()


def with_library(model, trainer, pre_tokenizer, normalizer, lines):
    library = tokenizers.Tokenizer(model)
    library.pre_tokenizer = pre_tokenizer
    if normalizer is not None:
        library.normalizer = normalizer
    library.train_from_iterator(lines, trainer)
    return Tokenizer(json.loads(library.to_str()))


def with_sentencepiece(lines):
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(lines),
        model_writer=model,
        vocab_size=PIECES,
        minloglevel=2,
        hard_vocab_limit=False,
    )
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "trained.model"
        path.write_bytes(model.getvalue())
        return Tokenizer(*read_model(path))


def contenders(lines):
    yield (
        "WordPiece, uncased",
        with_library(
            models.WordPiece(unk_token="[UNK]"),
            trainers.WordPieceTrainer(vocab_size=PIECES, special_tokens=["[UNK]", "[MASK]"]),
            pre_tokenizers.BertPreTokenizer(),
            normalizers.BertNormalizer(),
            lines,
        ),
    )
    yield (
        "BPE, GPT-2",
        with_library(
            models.BPE(),
            trainers.BpeTrainer(
                vocab_size=PIECES, initial_alphabet=pre_tokenizers.ByteLevel.alphabet()
            ),
            pre_tokenizers.ByteLevel(add_prefix_space=False),
            None,
            lines,
        ),
    )
    yield (
        "Unigram, tokenizers",
        with_library(
            models.Unigram(),
            trainers.UnigramTrainer(vocab_size=PIECES, special_tokens=["<unk>"], unk_token="<unk>"),
            pre_tokenizers.Metaspace(),
            None,
            lines,
        ),
    )
    yield "Unigram, SentencePiece", with_sentencepiece(lines)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--data-dir", type=pathlib.Path, required=True, help="Multi30k folder, with raw/*.en.gz"
    )
    raw = parser.parse_args().data_dir / "raw"
    test = read_lines(raw / "test_2016_flickr.en.gz")
    batches = [tf.constant(test[i : i + BATCH]) for i in range(0, len(test), BATCH)]
    print(f"{'sentences/s':28}{'wall time':>14}{'CPU time':>14}")
    for name, tokenizer in contenders(read_lines(raw / "train.en.gz")):
        function = tf.function(
            tokenizer.tokenize, input_signature=[tf.TensorSpec([None], tf.string)]
        )
        rates = []
        for _ in range(ROUNDS):
            clock, cpu = time.perf_counter(), time.process_time()
            for batch in batches:
                function(batch)
            clock, cpu = time.perf_counter() - clock, time.process_time() - cpu
            rates.append((len(test) / clock, len(test) / cpu))
        medians = map(statistics.median, zip(*rates[1:], strict=True))  # the first warms up
        print(f"{name:28}" + "".join(f"{rate:14,.0f}" for rate in medians))


if __name__ == "__main__":
    main()
