"""The task of speech recognition with CTC, a label at each time step: sounds in, texts out."""

import functools
from collections.abc import Iterable
from typing import Any, overload

import keras
import tensorflow as tf

from zoo.data.batching import examples_of
from zoo.data.pairs import spoken_texts
from zoo.losses import CTC
from zoo.metrics.token_errors import TokenErrorRate, best_path
from zoo.models.rollout import attention_rollout
from zoo.tasks.arguments import No, Sound, Yes
from zoo.tasks.base import part_of
from zoo.tasks.encoding import NO_GRAPH_OF_SOUNDS, EncodingTask
from zoo.tasks.reading import require_reader_that_fits
from zoo.tasks.sound_results import Recognition

NO_ROOM = (
    "A text needs more time steps than its sound has: one for each token, and one between equal "
    "neighbors. Leave it out, or use a tokenizer with a larger vocabulary, which needs fewer "
    "tokens."
)


@keras.saving.register_keras_serializable(package="zoo")
class Recognizer(EncodingTask):
    """A speech recognition model with a label at each time step, its reader and its tokenizer.

    It learns from sounds and their texts by connectionist temporal classification (CTC), without
    an alignment of the two, and decodes greedily, from the best label at each time step. A
    `Transcriber`, such as Whisper, generates token by token instead.

    Args:
        core: A model that returns logits `(batch, times, tokens)`, such as
            `zoo.models.conformer_ctc.ConformerCTC`. Its `blank_id` is the label of a time at which
            no token begins.
        tokenizer: The tokenizer of the texts. Its padding token must be that blank.
        reader: A `zoo.SoundReader`, or a `zoo.WaveReader` for a core of samples.

    Raises:
        ValueError: If the parts do not match.

    Example:

    >>> import zoo
    >>> tokenizer = zoo.ByteBPETokenizer.train(["one two three"], vocabulary_size=262)
    >>> parts = {"tokenizer": tokenizer, "reader": zoo.SoundReader(rate=8000, bands=16)}
    >>> options = {"num_layers": 1, "size": 16, "num_heads": 2, "hidden": 32, "kernel_size": 3}
    >>> model = zoo.load("conformer_ctc", weights=None, **parts, **options)
    >>> model.compile(keras.optimizers.Adam(0.01))
    >>> sound = np.sin(np.arange(8000.0)).astype("float32"), 8000
    >>> history = model.fit([sound, sound], ["one", "two"], verbose=0)
    >>> len(model.transcribe([sound, sound]))
    2
    """

    task_name = "speech recognition"
    task_method = "transcribe"

    def __init__(self, core, tokenizer, reader, **kwargs):
        reader = part_of(reader)
        require_reader_that_fits(core, reader)
        if tokenizer is None or tokenizer.pad_id != core.blank_id:
            received = None if tokenizer is None else f"one with pad_id={tokenizer.pad_id}"
            raise ValueError(
                f"A recognizer needs a tokenizer whose padding has the id {core.blank_id}, such as "
                f"zoo.ByteBPETokenizer.train(texts). Received: {received}."
            )
        super().__init__(core, tokenizer, reader, **kwargs)

    @classmethod
    def decides(cls, tokenizer=None, reader=None, **settings):
        reader = part_of(reader)
        of_tokens = {}
        if tokenizer is not None:
            of_tokens = {"num_labels": tokenizer.vocabulary_size, "blank_id": tokenizer.pad_id}
        return of_tokens | ({} if reader is None else reader.decides)

    @property
    def settings(self):
        return {"reader": keras.saving.serialize_keras_object(self.reader)}

    @property
    def longest_sound(self):
        """Maximum length of a sound, in seconds."""
        return self.reader.seconds

    # ----------------------------------------------------------------------------------- training

    def usual_loss(self):
        """Returns the CTC loss: the negative log-probability of a text, over all alignments."""
        return CTC(self.core.blank_id)

    def usual_metrics(self):
        return [TokenErrorRate(self.core.blank_id)]

    def batches(self, x, y=None, batch_size=None, shuffle=False, seed=0):
        """Turns sounds and their texts into batches for Keras.

        Args:
            x: A list of sounds as `transcribe` takes them; or a `tf.data.Dataset` of (sound, text):
                WAV files, or samples `(samples,)` at the rate of the reader.
            y: List of texts, if `x` is a list.
            batch_size: Number of sounds per batch. Defaults to 64.
            shuffle: Whether to shuffle lists; a data set is not shuffled.
            seed: Seed of the shuffling.

        Returns:
            A data set of `(inputs, token ids, weights)`. It raises an `InvalidArgumentError` where
            a text needs more time steps than its sound has: one for each token, and one between
            equal neighbors.

        Raises:
            ValueError: If the inputs are not sounds and texts.
        """
        make = functools.partial(spoken_texts, tokenizer=self.tokenizer)
        examples = examples_of(self.reader, x, y, "sound", make, shuffle, seed)
        batches = self.reader.batched(examples, batch_size or self.usual_batch_size)
        return batches.map(self.teach).prefetch(tf.data.AUTOTUNE)

    def teach(self, sounds, texts):
        """Returns a batch for Keras from the outputs of the reader, and from texts."""
        blank_id = self.core.blank_id
        tokens = self.tokenizer.tokenize(texts).to_tensor(blank_id)
        # At least one column: if all texts are empty, TensorFlow's loss without it is off by log 2.
        tokens = tf.pad(tokens, [[0, 0], [0, 1]], constant_values=blank_id)
        is_token = tokens[:, 1:] != blank_id
        repeats = tf.cast(is_token & (tokens[:, 1:] == tokens[:, :-1]), tf.int32)
        needed = tf.math.count_nonzero(tokens != blank_id, axis=1, dtype=tf.int32)
        needed += tf.reduce_sum(repeats, axis=1)
        times = self.core.subsampling.tokens_of(sounds["lengths"])
        worst = tf.argmax(needed - times)
        received = "Received", texts[worst], "needs", needed[worst], "its sound has", times[worst]
        has_room = tf.debugging.Assert(tf.reduce_all(needed <= times), [NO_ROOM, *received])
        with tf.control_dependencies([has_room]):
            return sounds, tf.identity(tokens), tf.ones_like(needed, tf.float32)

    # ------------------------------------------------------------------------------ transcription

    @overload
    def transcribe(
        self, sounds: Sound, return_attention: No = False, batch_size: int = 32
    ) -> str: ...
    @overload
    def transcribe(
        self, sounds: Iterable[Sound], return_attention: No = False, batch_size: int = 32
    ) -> list[str]: ...
    @overload
    def transcribe(
        self, sounds: Sound | Iterable[Sound], return_attention: Yes, batch_size: int = 32
    ) -> Recognition: ...
    @overload
    def transcribe(
        self, sounds: Any, return_attention: bool = False, batch_size: int = 32
    ) -> Any: ...
    def transcribe(self, sounds, return_attention=False, batch_size=32):
        """Returns the text of a sound, or of each sound in a list.

        Args:
            sounds: The path of a WAV file, its `bytes`, or a tuple (samples, rate), see
                `zoo.readers.audio.sound_bytes`; or a list of these.
            return_attention: Whether to also return the time of each token, and the attention.
            batch_size: Number of sounds to process at a time.

        Returns:
            A `str` for one sound, a list of `str` for a list; or a `Recognition`.

        Raises:
            ValueError: If an input is not a sound.
            TypeError: If an input has another type.
            FileNotFoundError: If a file is missing.
        """
        requests, is_one = self.reader.requests(sounds)
        rows = self._answers(requests, batch_size, return_attention=return_attention)
        texts = [row["text"].decode() for row in rows]
        if return_attention:
            return Recognition.of(texts, rows, requests, self.reader, self.tokenizer)
        return texts[0] if is_one else texts

    def respond(self, requests, return_attention=False):
        """Turns requests into texts: the graph behind Python and the exported model.

        Args:
            requests: Strings `(batch,)`.
            return_attention: Whether to also return the attention.

        Returns:
            Dictionary of `text`, strings `(batch,)`, empty where a request cannot be read;
            `token_ids`, int32 `(batch, length)`, padded with the blank; and `seconds`, float32 of
            the same shape, when each begins. With attention also `attention`, float32 `(batch,
            length, times)`, by rollout, and `times`, int32 `(batch,)`, the number of time steps of
            each.
        """
        sounds, _ = self.reader.read(requests)
        outputs = self.core(sounds, return_attention_scores=return_attention, training=False)
        logits, weights = outputs if return_attention else (outputs, None)
        blank_id = self.core.blank_id
        tokens, places = best_path(logits, blank_id)
        token_ids, places = tokens.to_tensor(blank_id), places.to_tensor(0)
        found = {
            "text": self.tokenizer.detokenize(token_ids),
            "token_ids": token_ids,
            "seconds": tf.cast(places, tf.float32) * self._seconds_of_time(),
        }
        if return_attention:
            attention = tf.gather(attention_rollout(weights), places, batch_dims=1)
            found["attention"] = tf.where(token_ids[..., None] != blank_id, attention, 0.0)
            found["times"] = self.core.subsampling.tokens_of(sounds["lengths"])
        return found

    def _seconds_of_time(self):
        return self.reader.hop * self.core.subsampling.step

    # ------------------------------------------------------------------------------------- export

    def serving_encoders(self):
        raise ValueError(NO_GRAPH_OF_SOUNDS)

    def endpoints(self):
        """Returns a dictionary of the `zoo.serving.Endpoint`s to export and serve.

        `serving_default` returns `text`, `token_ids` and `seconds`; `explain` also returns the
        attention and `tokens`, the pieces of the text.
        """

        def explain(requests):
            outputs = self.respond(requests, return_attention=True)
            return outputs | {"tokens": self.tokenizer.piece_texts(outputs["token_ids"])}

        return {**super().endpoints(), "explain": self._endpoint(explain)}
