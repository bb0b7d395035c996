"""Training of a recognizer of sequences of spoken digits."""

import dataclasses
import pathlib
from typing import ClassVar

import keras
import numpy as np
import tensorflow as tf

from zoo.data.seeds import seed_stream
from zoo.learning.hearing import Hearing, as_floats, faster
from zoo.loading import build
from zoo.readers.text import ByteBPETokenizer
from zoo.training import runs
from zoo.training.evaluation import evaluate_recognizer, recognizer_quality
from zoo.training.spoken_digits import RATE, SpokenDigitsRecipe

WORDS = ["zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine"]
SHUFFLED_SOUNDS = 3000
BUCKETS = (6000, 10000, 14000, 18000, 24000)  # samples: little of a batch is padding
VOCABULARY_SIZE = 300  # bytes and, of so few words, each word
SEED = 0  # of the sequences that are measured
USE = "Transcribing sequences of digits spoken in English, as words."
LIMITS = (
    "It knows only the ten digits and writes digits for any sound. It was trained on recordings of "
    "only six speakers, joined with silence between them: it is less accurate for people who run "
    "words together or speak differently from these six."
)


@dataclasses.dataclass(frozen=True)
class SpokenNumbersRecipe(SpokenDigitsRecipe):
    """Training of a recognizer of sequences of spoken digits, on the TensorFlow backend.

    Attributes:
        digits: Maximum number of digits in a sequence.
        silence: Minimum and maximum seconds of silence after each.
        others: As for `SpokenDigitsRecipe`.
    """

    digits: int = 6
    silence: tuple = (0.03, 0.25)

    splits: ClassVar = ("train", "validation")
    measured_splits: ClassVar = ("validation", "test")
    parts: ClassVar = "numbers 0 to 4 are for testing, 5 to 9 for validation, 10 to 49 for training"
    monitored: ClassVar = ("val_token_error_rate", "min")  # what is kept is best by it
    examples_of_validation: ClassVar = 50  # a batch

    def train(self, train_examples, validation_examples, run_dir):
        """Trains a model; restarted after a crash, it resumes after the last finished epoch.

        Args:
            train_examples: Data set of (samples, digit).
            validation_examples: Data set of (samples, text).
            run_dir: Folder for checkpoints, TensorBoard logs and `history.csv`.

        Returns:
            The trained `Recognizer` in float32, with the averaged weights of the epoch that had the
            best `monitored` on the validation examples, the first one in a tie.
        """
        run_dir = pathlib.Path(run_dir)
        run_dir.mkdir(parents=True, exist_ok=True)
        keras.utils.set_random_seed(self.seed)
        model = self.make_model(self.dtype)
        optimizer = self.make_optimizer(self.steps_of_epoch(train_examples))
        optimizer.exclude_from_weight_decay(var_names=["gamma", "beta", "bias"])
        model.compile(optimizer)
        done = runs.restore(model, run_dir)
        model.fit(
            self.sequence_batches(model.reader, train_examples, self.seed + done),
            initial_epoch=done,
            epochs=self.epochs,
            validation_data=validation_examples.cache(),
            batch_size=self.examples_of_validation,
            verbose=2,
            callbacks=runs.callbacks(run_dir, *self.monitored),
        )
        trained = self.make_model("float32")
        trained.load_weights(run_dir / runs.BEST)
        return trained

    def load(self, split, data_dir=None):
        """Returns a split: recordings with their digits to learn from, otherwise sequences."""
        examples = super().load(split, data_dir)
        return examples if split == "train" else sequences(examples, self.digits, self.silence)

    def make_model(self, dtype):
        reader = self.make_reader()
        return build(self.architecture, tokenizer(), dtype, reader=reader, **self.overrides)

    def sequence_batches(self, reader, examples, seed):
        """Returns batches of sequences, different ones in each epoch."""
        sounds = examples.cache().shuffle(SHUFFLED_SOUNDS, seed=seed).map(_with_length)
        seeds = keras.random.SeedGenerator(seed)
        hearing = Hearing(**{**self.hearing(reader), "speed": 0.0}, seed=seed + 1)
        pieces = tokenizer()

        def at_speeds_of_their_own(waves, lengths, digits):
            return *faster(as_floats(waves), lengths, self.speed, seeds), digits

        def lesson(waves, lengths, texts):
            heard = hearing({"samples": waves, "lengths": lengths})
            tokens = pieces.tokenize(texts).to_tensor(pieces.pad_id)
            return heard, tokens, tf.ones_like(lengths, tf.float32)

        some = sounds.padded_batch(self.digits).map(at_speeds_of_their_own)
        joined_ones = tf.data.Dataset.zip(some, seed_stream(seed + 2)).map(self._joined)
        batches = joined_ones.bucket_by_sequence_length(
            lambda wave, length, text: length, BUCKETS, [self.batch_size] * (len(BUCKETS) + 1)
        )
        return batches.map(lesson).prefetch(2)

    def steps_of_epoch(self, examples):
        """Returns the maximum number of batches that `sequence_batches` makes of examples."""
        recordings = sum(1 for _ in examples)
        sequences_of_epoch = -(-recordings // self.digits)
        return -(-sequences_of_epoch // self.batch_size) + len(BUCKETS)

    def evaluate(self, model, examples):
        """Returns the word error rate of a model on a data set of (samples, text)."""
        return evaluate_recognizer(model, examples)

    def quality(self, scores, split, model):
        """Returns the entries of the card for the results of `evaluate`."""
        return recognizer_quality(scores, split)

    def _joined(self, some, seed):
        """Returns the first of some recordings, concatenated, and their text."""
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
        """Returns the entries of the card on the data, and on how the weights were chosen."""
        return super().for_card() | {
            "variant": "sequences of spoken digits",
            "use": USE,
            "limits": LIMITS,
            "call": 'transcribe("number.wav")',
            "chosen_by": "the epoch with the lowest token error rate on sequences of 300 "
            "recordings held out of the training data",
        }


def _with_length(samples, digit):
    return samples, tf.size(samples), digit


def tokenizer():
    """Returns the tokenizer of the names of digits, a token each."""
    return ByteBPETokenizer.train([" ".join(WORDS)] * 2, vocabulary_size=VOCABULARY_SIZE)


def sequences(examples, most, silence):
    """Joins recordings at random, each of them once: one, two, up to `most` digits in turn.

    Args:
        examples: Data set of (samples at `RATE`, digit).
        most: Maximum number of digits in a sequence.
        silence: Minimum and maximum seconds of silence after each.

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
