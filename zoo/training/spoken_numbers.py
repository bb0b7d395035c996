"""Training of a recognizer of digits spoken one after the other."""

import dataclasses
from typing import ClassVar

import keras
import numpy as np
import tensorflow as tf

from zoo.loading import build
from zoo.readers.sound_reader import SoundReader
from zoo.readers.text import ByteBPETokenizer
from zoo.training import runs
from zoo.training.classifiers import count
from zoo.training.evaluation import evaluate_recognizer, recognizer_quality
from zoo.training.spoken_digits import RATE, SHUFFLED_SOUNDS, SpokenDigitsRecipe

WORDS = ["zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine"]
BUCKETS = (6000, 10000, 14000, 18000, 24000)  # samples: little of a batch is padding
VOCABULARY_SIZE = 300  # bytes and, of so few words, each word
SEED = 0  # of the sequences that are measured
USE = "Writing down digits that somebody says in English one after the other, as words."
LIMITS = (
    "It knows the ten digits alone, and writes digits whatever it hears. It learned from six "
    "speakers alone, of recordings that were joined, with silence between them: whoever runs words "
    "together, or speaks otherwise than these six, is understood less well."
)


@dataclasses.dataclass(frozen=True)
class SpokenNumbersRecipe(SpokenDigitsRecipe):
    """Training of a recognizer of sequences of spoken digits.

    Attributes:
        digits: Digits of a sequence at most.
        silence: Least and most seconds behind each.
        others: As for `SpokenDigitsRecipe`.
    """

    digits: int = 6
    silence: tuple = (0.03, 0.25)

    monitored: ClassVar = ("val_token_error_rate", "min")

    def load(self, split, data_dir=None):
        """Returns a split: recordings with their digits to learn from, otherwise sequences."""
        examples = super().load(split, data_dir)
        return examples if split == "train" else sequences(examples, self.digits, self.silence)

    def make_model(self, dtype):
        reader = SoundReader(rate=RATE, bands=self.bands)
        return build(self.architecture, tokenizer(), dtype, reader=reader, **self.overrides)

    def make_loss(self):
        return keras.losses.CTC()

    def lessons(self, reader, examples, seed):
        """Returns batches of sequences, other ones in each epoch."""
        sounds = examples.cache().shuffle(SHUFFLED_SOUNDS, seed=seed)
        faster = tf.data.Dataset.zip(sounds, runs.seeds(seed)).map(
            self._faster, num_parallel_calls=2
        )
        some = faster.padded_batch(self.digits)
        joined_ones = tf.data.Dataset.zip(some, runs.seeds(seed + 2)).map(self._joined)
        batches = joined_ones.bucket_by_sequence_length(
            lambda wave, length, text: length, BUCKETS, [self.batch_size] * (len(BUCKETS) + 1)
        )
        pieces = tokenizer()

        def lesson(examples, seed):
            waves, lengths, texts = examples
            heard = self.heard_otherwise(reader, waves, lengths, seed)
            tokens = pieces.tokenize(texts).to_tensor(pieces.pad_id)
            return heard, tokens, tf.ones_like(lengths, tf.float32)

        return tf.data.Dataset.zip(batches, runs.seeds(seed + 1)).map(lesson).prefetch(2)

    def steps_of_epoch(self, examples):
        sequences_of_epoch = -(-count(examples) // self.digits)
        return -(-sequences_of_epoch // self.batch_size) + len(BUCKETS)

    def evaluate(self, model, examples):
        """Returns the word error rate of a model on a data set of (samples, text)."""
        return evaluate_recognizer(model, examples)

    def quality(self, scores, split, model):
        """Returns what the card says of the results of `evaluate`."""
        return recognizer_quality(scores, split)

    def _joined(self, some, seed):
        """Returns the first recordings of some, one after the other, and what they say."""
        waves, lengths, digits = some
        number = tf.random.stateless_uniform(
            [], tf.random.fold_in(seed, 0), 1, self.digits + 1, tf.int32
        )
        least, most = (round(RATE * seconds) for seconds in self.silence)
        silences = tf.random.stateless_uniform(
            tf.shape(lengths), tf.random.fold_in(seed, 1), least, most + 1, tf.int32
        )
        waves = tf.pad(waves, [[0, 0], [0, most]])[:number]
        is_sample = tf.sequence_mask((lengths + silences)[:number], tf.shape(waves)[1])
        wave = tf.boolean_mask(waves, is_sample)
        text = tf.strings.reduce_join(tf.gather(WORDS, digits[:number]), separator=" ")
        return wave, tf.size(wave), text

    def for_card(self):
        """Returns what the card says of the data, and how the weights were chosen."""
        return super().for_card() | {
            "variant": "sequences of spoken digits",
            "use": USE,
            "limits": LIMITS,
            "call": 'transcribe("number.wav")',
            "chosen_by": "the lowest token error rate on sequences of 300 recordings held out of "
            "train, over epochs",
        }


def tokenizer():
    """Returns the tokenizer of the names of digits, a token each."""
    return ByteBPETokenizer.train([" ".join(WORDS)] * 2, vocabulary_size=VOCABULARY_SIZE)


def sequences(examples, most, silence):
    """Joins recordings at random, each of them once: one, two, up to `most` digits in turn.

    Args:
        examples: Data set of (samples at `RATE`, digit).
        most: Digits of a sequence at most.
        silence: Least and most seconds behind each.

    Returns:
        A data set of (int16 `(samples,)`, text), always the same one.
    """
    recordings, generator = list(examples.as_numpy_iterator()), np.random.default_rng(SEED)
    order, found = [recordings[place] for place in generator.permutation(len(recordings))], []
    while order:
        number = 1 + len(found) % most
        parts, order = order[:number], order[number:]
        waves = []
        for wave, _ in parts:
            waves += [wave, np.zeros(round(RATE * generator.uniform(*silence)), "int16")]
        found.append((np.concatenate(waves), " ".join(WORDS[digit] for _, digit in parts)))
    signature = tf.TensorSpec([None], tf.int16), tf.TensorSpec([], tf.string)
    return tf.data.Dataset.from_generator(lambda: iter(found), output_signature=signature)
