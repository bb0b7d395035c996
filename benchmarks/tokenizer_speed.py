"""Speed of `ByteBPETokenizer` on English Multi30k, compared with the `tokenizers` library.

python -m benchmarks.tokenizer_speed --data-dir /path/to/multi30k
"""

import argparse
import gzip
import pathlib
import statistics
import time

import tensorflow as tf

from zoo.readers.text import ByteBPETokenizer

BATCH_SIZES = (1, 64)
BATCHES_PER_ROUND = 200


def read_lines(path):
    with gzip.open(path, "rt", encoding="utf-8") as file:
        return file.read().splitlines()


def contenders(tokenizer):
    """Name -> (function that prepares a list of texts, function to time on the result)."""
    signature = [tf.TensorSpec([None], tf.string)]
    library = tokenizer.to_library()
    without_words = ByteBPETokenizer(tokenizer._merges)
    return {
        "tf.function": (tf.constant, tf.function(tokenizer.tokenize, input_signature=signature)),
        "tf.function, no word table": (
            tf.constant,
            tf.function(without_words.tokenize, input_signature=signature),
        ),
        "tf.function, dropout 0.1": (
            tf.constant,
            tf.function(
                lambda texts: tokenizer.tokenize(texts, dropout=0.1, seed=[0, 1]),
                input_signature=signature,
            ),
        ),
        "tokenizers encode_batch": (list, library.encode_batch),
    }


def sentences_per_second(encode, batches):
    start = time.perf_counter()
    for batch in batches:
        encode(batch)
    return sum(map(len, batches)) / (time.perf_counter() - start)


def measure(encoders, sentences, batch_size, rounds):
    """Rates of each encoder; they take turns, so that a busy moment affects all alike."""
    sentences = sentences[: batch_size * BATCHES_PER_ROUND]
    texts = [sentences[i : i + batch_size] for i in range(0, len(sentences), batch_size)]
    rates = {name: [] for name in encoders}
    for round_number in range(rounds + 1):
        for name, (prepare, encode) in encoders.items():
            rate = sentences_per_second(encode, [prepare(batch) for batch in texts])
            if round_number > 0:  # the first one warms up
                rates[name].append(rate)
    return rates


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--data-dir", type=pathlib.Path, required=True, help="Multi30k folder, with raw/*.en.gz"
    )
    parser.add_argument("--rounds", type=int, default=7)
    arguments = parser.parse_args()

    raw = arguments.data_dir / "raw"
    train = read_lines(raw / "train.en.gz")
    test = read_lines(raw / "test_2016_flickr.en.gz")
    encoders = contenders(ByteBPETokenizer.train(train))
    print(f"{'sentences/s':28}{'split':>7}{'batch':>7}{'median':>10}{'lowest':>10}{'highest':>10}")
    for split, sentences in (("train", train), ("test", test)):
        for batch_size in BATCH_SIZES:
            rates = measure(encoders, sentences, batch_size, arguments.rounds)
            for name, values in rates.items():
                numbers = (statistics.median(values), min(values), max(values))
                print(
                    f"{name:28}{split:>7}{batch_size:7}" + "".join(f"{x:10,.0f}" for x in numbers)
                )


if __name__ == "__main__":
    main()
