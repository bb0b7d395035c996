"""The task of transcription: speech in, strings out."""

import dataclasses
from collections.abc import Iterable
from typing import Any, Unpack, overload

import keras
import tensorflow as tf

from keras_attention.errors import unknown_name
from zoo.data.batching import examples_of
from zoo.data.pairs import spoken_texts
from zoo.decoding.base import require
from zoo.decoding.processors import Timestamps
from zoo.readers.sound_reader import LONGEST_SOUNDS
from zoo.readers.text.languages import code_of
from zoo.readers.wav import write_wav
from zoo.serving import Start
from zoo.tasks.arguments import No, OneEach, Options, SamplerLike, Sound, Yes
from zoo.tasks.base import part_of
from zoo.tasks.generating import GeneratingTask, best_texts
from zoo.tasks.reading import require_reader_that_fits
from zoo.tasks.sound_results import Transcription
from zoo.tasks.timed_texts import Segment, TimedTranscription, segments_of

LANGUAGE, TASK = "language", "task"
DETECTED = -1  # stands for the language that the model detects
LEFT_OUT = -2  # stands for the last token of a prompt, which asks for a text without timestamps


@keras.saving.register_keras_serializable(package="zoo")
class Transcriber(GeneratingTask):
    """A model that transcribes speech, together with its reader, tokenizer and decoding.

    `fit`, `evaluate` and `transcribe` take raw sounds; the same graph reads them everywhere.

    Args:
        core: A model of spectrograms with `start` and `step`, such as `zoo.models.whisper.Whisper`.
        tokenizer: The tokenizer of the texts.
        reader: A `zoo.SpeechReader`, or its config.
        sampler: The default sampler; greedy search if omitted.
        prompt: The prompt of all answers after the start token: a list of token ids, with
            `"language"` and `"task"` as placeholders for the tokens of language and task.
        languages: Dictionary from language codes, such as `"en"`, to their tokens.
        tasks: Dictionary from names of tasks, such as `"transcribe"`, to their tokens.
        language: The default language of sounds; `None` to detect it, from the logits of the first
            step. May be set.
        task: The default task; may be set.
        first_timestamp: Id of the token for the time 0, to which those of later times are next;
            `None` for a model without timestamps. The token before it, the last of the prompt, asks
            for a text without them.
        latest_start: How many timestamps after the first a text may begin; `None` for no limit.

    Raises:
        ValueError: If the parts do not match, or language or task are unknown.
    """

    task_name = "transcription"
    task_method = "transcribe"
    longest_sound = LONGEST_SOUNDS  # seconds
    usual_batch_size = 16
    request_name = "sound_bytes"

    def __init__(
        self,
        core,
        tokenizer,
        reader=None,
        sampler=None,
        prompt=(),
        languages=None,
        tasks=None,
        language=None,
        task=None,
        first_timestamp=None,
        latest_start=None,
        **kwargs,
    ):
        super().__init__(core, tokenizer, sampler, **kwargs)
        self.first_timestamp, self.latest_start = first_timestamp, latest_start
        self.reader = part_of(reader)
        require_reader_that_fits(core, self.reader)
        self.prompt, self.languages, self.tasks = list(prompt), languages or {}, tasks or {}
        self.language, self.task = language, task
        for name, made in self.reader.decides.items():
            taken = getattr(core.config, name)
            if made != taken:
                raise ValueError(
                    f"The model takes {name}={taken}, and the reader {made}. Create both with "
                    "the same number."
                )
        known = {LANGUAGE: self.languages, TASK: self.tasks}
        for entry in self.prompt:
            if isinstance(entry, str) and not known.get(entry):
                raise ValueError(
                    "`prompt` must be a list of ids of tokens, and of 'language' and 'task' if "
                    f"there are `languages` and `tasks`. Received: {entry!r}."
                )

    @property
    def language(self):
        """Code of the default language of sounds; `None` to detect it."""
        return self._language

    @language.setter
    def language(self, language):
        self._language = None if language is None else self._known_language(language)

    @property
    def task(self):
        """The default task: `"transcribe"` or `"translate"`."""
        return self._task

    @task.setter
    def task(self, task):
        self._task = self._known_task(next(iter(self.tasks)) if self.tasks and not task else task)

    @property
    def settings(self):
        return {
            **super().settings,
            "reader": keras.saving.serialize_keras_object(self.reader),
            "prompt": list(self.prompt),
            "languages": dict(self.languages),
            "tasks": dict(self.tasks),
            "language": self.language,
            "task": self.task,
            "first_timestamp": self.first_timestamp,
            "latest_start": self.latest_start,
        }

    @classmethod
    def decides(cls, tokenizer=None, reader=None, **settings):
        of_reader = {} if reader is None else part_of(reader).decides
        return {**super().decides(tokenizer), **of_reader}

    @property
    def longest(self):
        """Number of answer tokens that the core has room for, after the start and the prompt."""
        return self.core.longest - len(self.prompt) - 1

    @property
    def request_spec(self):
        """The spec of sounds and of the tokens of the prompt, written as numbers."""
        return tf.TensorSpec([None, 1 + len(self.prompt)], tf.string)

    # ----------------------------------------------------------------------------------- training

    def batches(self, x, y=None, batch_size=None, shuffle=False, seed=0):
        """Turns sounds and their texts into batches for Keras.

        The model learns to write the text after a space, as Whisper does, in its default language
        and task, so `model.language` must be set.

        Args:
            x: A list of sounds as `transcribe` takes them, none longer than the window of the
                model; or a `tf.data.Dataset` of (sound, text): WAV files, or samples `(samples,)`
                at the rate of the reader.
            y: List of texts, if `x` is a list.
            batch_size: Number of sounds per batch. Defaults to 16.
            shuffle: Whether to shuffle lists; a data set is not shuffled.
            seed: Seed of the shuffling.

        Returns:
            A data set of `(inputs, labels, weights)`.

        Raises:
            ValueError: If the inputs are not sounds and texts, or the language is not set.
        """
        opening = self._opening(None, None)
        if DETECTED in opening:
            raise ValueError(
                "A model that detects languages trains on one at a time: set model.language, "
                f"such as to {next(iter(self.languages))!r}."
            )
        examples = examples_of(self.reader, x, y, "sound", spoken_texts, shuffle, seed)
        space = "" if self.tokenizer.prefix_space else " "

        def teach(sounds, texts):
            tokens = self.tokenizer.tokenize(space + tf.strings.strip(texts))
            begin = tf.tile(tf.constant([opening], tf.int32), [tf.shape(texts)[0], 1])
            ids = tf.concat([begin, tokens], axis=1).to_tensor(self.tokenizer.pad_id)
            inputs, labels, weights = self.teach(ids)
            return {"frames": sounds["frames"], "target_ids": inputs}, labels, weights

        batches = self.reader.batched(examples, batch_size or self.usual_batch_size)
        return batches.map(teach).prefetch(tf.data.AUTOTUNE)

    # ------------------------------------------------------------------------------ transcription

    @overload
    def transcribe(
        self,
        sounds: Sound,
        language: str | None = None,
        task: str | None = None,
        sampler: SamplerLike = None,
        return_attention: No = False,
        **options: Unpack[OneEach],
    ) -> str: ...
    @overload
    def transcribe(
        self,
        sounds: Iterable[Sound],
        language: str | None = None,
        task: str | None = None,
        sampler: SamplerLike = None,
        return_attention: No = False,
        **options: Unpack[OneEach],
    ) -> list[str]: ...
    @overload
    def transcribe(
        self,
        sounds: Sound | Iterable[Sound],
        language: str | None = None,
        task: str | None = None,
        sampler: SamplerLike = None,
        *,
        return_attention: Yes,
        **options: Unpack[OneEach],
    ) -> Transcription: ...
    @overload
    def transcribe(
        self,
        sounds: Sound | Iterable[Sound],
        language: str | None = None,
        task: str | None = None,
        sampler: SamplerLike = None,
        *,
        return_timestamps: Yes,
        **options: Unpack[OneEach],
    ) -> TimedTranscription: ...
    @overload
    def transcribe(
        self,
        sounds: Sound | Iterable[Sound],
        language: str | None = None,
        task: str | None = None,
        sampler: SamplerLike = None,
        return_attention: bool = False,
        batch_size: int = 16,
        jit_compile: bool = False,
        return_timestamps: bool = False,
        **options: Unpack[Options],
    ) -> Any: ...
    def transcribe(
        self,
        sounds,
        language=None,
        task=None,
        sampler=None,
        return_attention=False,
        batch_size=16,
        jit_compile=False,
        return_timestamps=False,
        **options,
    ):
        """Transcribes a sound, or each sound in a list.

        A sound that is longer than the window of the model, 30 seconds, is split into consecutive
        windows, whose texts are joined by spaces. A word at the border of two windows may be lost.
        With `return_timestamps`, a window starts where the last complete segment of the one before
        ended, so that none is lost.

        Args:
            sounds: The path of a WAV file, its `bytes`, a tuple (samples, rate), or a list of
                these; at most an hour each. See `zoo.readers.audio.sound_bytes`.
            language: Language of the sounds, such as `"en"` or `"english"`; defaults to
                `model.language`. If that is `None`, the model detects it in each window.
            task: `"transcribe"`, or `"translate"` into English; defaults to `model.task`.
            sampler: `"greedy"`, `"beam"`, `"random"`, `"top_k"`, `"top_p"`, a sampler object of
                `zoo.decoding`, or `None` for the model's own, `model.default_sampler`. A sampler
                chosen by its name forbids the same tokens as the model's own.
            return_attention: Whether to also return the tokens and the time of each.
            batch_size: Number of windows to process at a time.
            jit_compile: Whether to compile with XLA: this takes seconds for the first batch of a
                shape, and is faster afterwards.
            return_timestamps: Whether to return the segments of texts with their times, if the
                model has timestamps.
            **options: `seed` for the random samplers; `max_length`, the maximum number of tokens of
                a window; and options of the sampler, such as `num_beams=4`.

        Returns:
            A `str` for one sound, a list of `str` for a list; or a `Transcription`, or a
            `TimedTranscription`. With `num_return_sequences` above 1 each text is a list, best
            first.

        Raises:
            ValueError: If an input is not a sound, or an argument is unknown.
            TypeError: If an input has another type.
            FileNotFoundError: If a file is missing.
        """
        opening = [str(token) for token in self._opening(language, task)]
        sizes = {"batch_size": batch_size, "jit_compile": jit_compile}
        if return_timestamps:
            self._require_timestamps(return_attention)
            return self._timed(sounds, opening, sampler, options, sizes)
        windows, is_one = self.reader.windows(sounds)
        rows = self._answers(
            [[window, *opening] for each in windows for window in each],
            sampler,
            return_attention,
            **sizes,
            **options,
        )
        rows = iter(rows)
        of_sounds = [[next(rows) for _ in each] for each in windows]
        texts = [_joined([best_texts(row) for row in each]) for each in of_sounds]
        if return_attention:
            return Transcription.of(texts, of_sounds, windows, self.reader, self.tokenizer)
        return texts[0] if is_one else texts

    def _require_timestamps(self, return_attention):
        has_them = self.prompt[-1:] == [(self.first_timestamp or 0) - 1]
        require(has_them, "False for a model without timestamps", return_timestamps=True)
        require(not return_attention, "False together with timestamps", return_attention=True)

    def _timed(self, sounds, opening, sampler, options, sizes):
        """Returns the `TimedTranscription` of sounds, each heard window after window.

        Args:
            sounds, sampler: As for `transcribe`.
            opening: The tokens of the prompt, as strings.
            options: As for `transcribe`.
            sizes: Dictionary of further arguments of `_answers`.
        """
        sizes |= {name: options.pop(name) for name in ("seed", "max_length") if name in options}
        chosen = self.sampler(sampler, **options)
        one = chosen.num_return_sequences == 1
        require(one, "1 with timestamps", num_return_sequences=chosen.num_return_sequences)
        rule = Timestamps(self.first_timestamp, self.latest_start)
        chosen = dataclasses.replace(chosen, processors=(*chosen.processors, rule))
        opening = [*opening[:-1], str(LEFT_OUT)]
        step = 2 * self.reader.hop
        waves = self.reader.waves(sounds)
        lengths = [len(wave) / rate for wave, rate in waves]
        segments, starts, number = [[] for _ in waves], [0.0] * len(waves), 0
        while left := [x for x, start in enumerate(starts) if start + step <= lengths[x]]:
            windows = [self._window(*waves[each], starts[each]) for each in left]
            requests = [[window, *opening] for window in windows]
            draws = range(number, number + len(left))
            rows = self._answers(requests, chosen, draws=draws, **sizes)
            number += len(left)
            for each, row in zip(left, rows, strict=True):
                start = starts[each]
                ids = row["token_ids"][0]
                ids = ids[(ids != self.tokenizer.pad_id) & (ids != self.tokenizer.end_id)]
                seconds = min(self.reader.seconds, lengths[each] - start)
                found, heard = segments_of(ids, self.first_timestamp, seconds, step)
                for begin, end, part in found:
                    text = self.texts_of(tf.constant(part[None]))[0].numpy().decode()
                    if text and begin < seconds:  # behind the end, a model may dream
                        times = start + begin, start + min(end, seconds)
                        segments[each].append(Segment(*(round(float(x), 3) for x in times), text))
                starts[each] += heard or seconds
        texts = [" ".join(segment.text for segment in each) for each in segments]
        return TimedTranscription(texts, segments)

    def _window(self, wave, rate, start):
        """Returns the bytes of a WAV file with the window from a time on."""
        first, number = round(start * rate), int(self.reader.seconds * rate)
        return write_wav(wave[first : first + number], rate)

    def _opening(self, language, task):
        """Returns the ids of the prompt, with the tokens of a language and a task."""
        language = self.language if language is None else self._known_language(language)
        chosen = {LANGUAGE: self.languages.get(language, DETECTED)}
        chosen[TASK] = self.tasks.get(self.task if task is None else self._known_task(task))
        return [chosen.get(entry, entry) for entry in self.prompt]

    def _known_language(self, language):
        if not self.languages:
            raise ValueError(
                f"The model has a single language. Received: language={language!r}; leave it out."
            )
        code = code_of(language) if isinstance(language, str) else language
        if code not in self.languages:
            raise ValueError(unknown_name("language", language, sorted(self.languages)))
        return code

    def _known_task(self, task):
        if not self.tasks and task is not None:
            raise ValueError(
                f"The model has one task, to transcribe. Received: task={task!r}; leave it out."
            )
        if self.tasks and task not in self.tasks:
            raise ValueError(unknown_name("task", task, sorted(self.tasks)))
        return task

    # ---------------------------------------------------------------------------------- the graph

    def read(self, requests, served=False):
        """Returns frames and prompts of sounds; an unreadable or too long sound has no text.

        Args:
            requests: Strings `[batch]`, for the default language and task; or `[batch, 1 +
                prompt]`, each followed by the tokens of the prompt, -1 for a language to detect.
            served: As for every task.
        """
        if requests.shape.rank == 1:
            opening = tf.constant([self._opening(None, None)], tf.int32)
            prompts = tf.tile(opening, [tf.shape(requests)[0], 1])
        else:
            requests, prompts = requests[:, 0], tf.strings.to_number(requests[:, 1:], tf.int32)
        sounds, is_sound = self.reader.read(requests)
        inputs = {"frames": sounds["frames"], "prompt_ids": prompts}
        return inputs, tf.where(is_sound, self.longest, 0)

    def begin(self, inputs, max_length):
        """Feeds the prompt; a language to detect is the likeliest one after the start token."""
        prompts = inputs["prompt_ids"]  # [batch, length]
        context, state = self.core.start(inputs["frames"], max_length + len(self.prompt))
        tokens = tf.fill(tf.shape(prompts)[:1], self.tokenizer.start_id)
        step = tf.function(self.core.step, autograph=False)  # traced once for all of the prompt
        for place, entry in enumerate(self.prompt):
            before = tokens, state
            logits, state, _ = step(tokens, state, context)
            tokens = prompts[:, place]
            if entry == LANGUAGE:
                tokens = tf.where(tokens == DETECTED, self._likeliest_language(logits), tokens)
        if self.prompt and self.first_timestamp:
            # It is left out of all rows or none, apart from those that fill up a batch.
            is_left_out = tf.reduce_any(tokens == LEFT_OUT)
            tokens, state = tf.nest.map_structure(
                lambda old, new: tf.where(is_left_out, old, new), before, (tokens, state)
            )
        return context, state, tokens

    def _likeliest_language(self, logits):
        ids = tf.constant(sorted(self.languages.values()), tf.int32)
        return tf.gather(ids, tf.argmax(tf.gather(logits, ids, axis=1), axis=1))

    def texts_of(self, token_ids):
        return tf.strings.strip(super().texts_of(token_ids))

    def longest_answer(self, inputs):
        return self.longest

    def example_request(self, length):
        return self.reader.example()

    def serving_start(self):
        def start(frames):
            return self.core.start(frames, self.core.longest)

        config = self.core.config
        shape = [None, 2 * config.source_length, config.bands]
        return Start(start, tf.TensorSpec(shape, tf.float32, name="frames"))


def _joined(texts):
    """Joins the texts of windows; for lists of hypotheses, joins the n-th of each."""
    if texts and isinstance(texts[0], list):
        return [_joined(several) for several in zip(*texts, strict=True)]
    return " ".join(text for text in texts if text)
