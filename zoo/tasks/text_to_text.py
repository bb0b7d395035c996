"""The text-to-text task: the text itself says what to do."""

from typing import Any, Unpack, overload

import keras
import tensorflow as tf

from zoo.decoding.base import as_length
from zoo.readers.text.texts import as_texts
from zoo.tasks.arguments import OneEach, Options, SamplerLike, Texts
from zoo.tasks.generating import best_texts
from zoo.tasks.source_to_target import LONGEST_SOURCE, LONGEST_TARGET, SourceToTargetTask

TEXTS_A_COUNT = 1024


@keras.saving.register_keras_serializable(package="zoo")
class TextToText(SourceToTargetTask):
    """A model that answers a text with another one, together with its tokenizer and decoding.

    For a model such as T5, the text starts with an instruction that it was trained with, such as
    `"translate English to German: "` or `"summarize: "`. A BART does what it was trained for, such
    as summarizing. Texts are read whole.

    Args:
        core: A model of token ids with `start` and `step`, such as `zoo.models.t5.T5`.
        tokenizer: A tokenizer of inputs and outputs.
        sampler: The default sampler; greedy search if omitted.
        max_source_length: Maximum number of tokens that the exported model reads, the end token
            included: it answers longer texts with an empty one. `generate` reads texts of any
            length; a core with a number of positions reads their beginnings.
        begin_id: Id of a token that begins every input and output, such as BART's `<s>`, or `None`.
    """

    task_name = "text to text"
    task_method = "generate"

    def __init__(
        self,
        core,
        tokenizer,
        sampler=None,
        max_source_length=LONGEST_SOURCE,
        begin_id=None,
        **kwargs,
    ):
        super().__init__(core, tokenizer, sampler, max_source_length, **kwargs)
        self.begin_id = begin_id

    @property
    def settings(self):
        return {**super().settings, "begin_id": self.begin_id}

    def source_tokens(self, texts, subword_dropout=0.0, seed=None, longest=None):
        if self.begin_id is None:
            return super().source_tokens(texts, subword_dropout, seed, longest)
        longest = longest and longest - 1
        tokens = super().source_tokens(texts, subword_dropout, seed, longest)
        return tf.concat([tf.fill([tf.shape(texts)[0], 1], self.begin_id), tokens], axis=1)

    def example_request(self, length):
        return super().example_request(length - (self.begin_id is not None))

    def _teach(self, source_ids, target_ids):
        if self.begin_id is not None:
            begin = tf.fill([tf.shape(target_ids)[0], 1], self.begin_id)
            target_ids = tf.concat([begin, target_ids], axis=1)
        return super()._teach(source_ids, target_ids)

    @overload
    def generate(
        self, texts: str, sampler: SamplerLike = None, **options: Unpack[OneEach]
    ) -> str: ...
    @overload
    def generate(
        self, texts: Texts, sampler: SamplerLike = None, **options: Unpack[OneEach]
    ) -> list[str]: ...
    @overload
    def generate(
        self,
        texts: str | Texts,
        sampler: SamplerLike = None,
        batch_size: int = 64,
        jit_compile: bool = False,
        **options: Unpack[Options],
    ) -> Any: ...
    def generate(self, texts, sampler=None, batch_size=64, jit_compile=False, **options):
        """Answers a text or a list of texts.

        Texts are sorted by length, and answered in batches. The answer to a text of only white
        space is empty.

        Args:
            texts: A `str` or a list of `str`.
            sampler: As for `Translator.translate`.
            batch_size: Maximum number of texts to process at a time; fewer if they are long.
            jit_compile: Whether to compile with XLA: this takes seconds for the first batch of a
                shape, and is faster afterwards.
            **options: `seed` for the random samplers; `max_length`, the maximum number of tokens of
                an answer, by default twice as many as the text has plus 10, but at most 400; and
                options of the sampler, such as `num_beams=4`.

        Returns:
            A `str` for a `str`, a list of `str` for a list, in order. With `num_return_sequences`
            above 1 each answer is a list, best first.

        Raises:
            ValueError: If a text is not a `str`, or the sampler or an option is unknown.
        """
        texts, is_one = as_texts(texts)
        lengths = []
        for first in range(0, len(texts), TEXTS_A_COUNT):
            some = tf.constant(texts[first : first + TEXTS_A_COUNT], tf.string)
            lengths += self.source_lengths(some).numpy().tolist()
        limit = options.get("max_length")
        limit = LONGEST_TARGET if limit is None else as_length(limit)
        rows = self._answers(
            texts,
            sampler,
            batch_size=batch_size,
            lengths=lengths,
            tokens=[length + min(limit, 2 * length + 10) for length in lengths],
            jit_compile=jit_compile,
            **options,
        )
        answers = [best_texts(row) for row in rows]
        return answers[0] if is_one else answers
