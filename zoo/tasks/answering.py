"""The task of question answering: a question and a text in, the answer, a part of it, out."""

import itertools
import warnings
from typing import NamedTuple, overload

import keras
import tensorflow as tf

from zoo.data.answers import answer_spans, spans_of_examples, texts_of
from zoo.data.batching import is_batches
from zoo.decoding.base import require
from zoo.losses import TokenCrossentropy
from zoo.metrics.answers import answer_scores
from zoo.readers.text.span_reader import SpanReader
from zoo.readers.text.texts import entries_of
from zoo.readers.text.words import to_valid_utf8
from zoo.serving import Endpoint
from zoo.tasks.arguments import Texts
from zoo.tasks.encoding import EncodingTask

NOT_HERE = float("-inf")  # the logit of a token where no answer starts or ends


class Answer(NamedTuple):
    """The part of a context that answers a question.

    Attributes:
        text: The answer, a `str` as it appears in the context; empty if there is none.
        score: Its probability, a `float`.
        start, end: Its position: `text == context[start:end]`.
    """

    text: str
    score: float
    start: int
    end: int


@keras.saving.register_keras_serializable(package="zoo")
class Answerer(EncodingTask):
    """A model that predicts where answers start and end, together with its preprocessing.

    Among all spans of at most `max_answer_tokens` tokens of a context, it selects the one whose
    logits have the largest sum:

    $$ i, j = argmax_{i \\le j < i + m} (start_i + end_j), \\quad
       score = softmax(start)_i \\, softmax(end)_j $$

    A context that is too long is read in overlapping windows, see
    `zoo.readers.text.span_reader.SpanReader`. A span lies within one window; the softmax runs over
    the tokens of all windows.

    Paper: Devlin et al. 2019, BERT, section 4.2 (https://arxiv.org/abs/1810.04805).

    Args:
        core: A model that returns logits `(batch, length, 2)`, such as
            `zoo.models.text_encoder.TextEncoder(head="span")`.
        tokenizer: The tokenizer.
        max_answer_tokens: Maximum number of tokens in an answer.
        may_be_empty: Whether a context may hold no answer, as in SQuAD 2.0. The start token stands
            for no answer: if the sum of its two logits, in the window where this sum is lowest, is
            larger than that of any span, the answer is empty.
    """

    task_name = "question answering"
    task_method = "answer"
    usual_batch_size = 16

    def __init__(self, core, tokenizer, max_answer_tokens=30, may_be_empty=False, **kwargs):
        is_number = isinstance(max_answer_tokens, int) and max_answer_tokens >= 1
        require(is_number, "an integer from 1", max_answer_tokens=max_answer_tokens)
        super().__init__(core, tokenizer, SpanReader(tokenizer, core.config.max_length), **kwargs)
        self.max_answer_tokens, self.may_be_empty = max_answer_tokens, bool(may_be_empty)

    @property
    def settings(self):
        return {"max_answer_tokens": self.max_answer_tokens, "may_be_empty": self.may_be_empty}

    # ----------------------------------------------------------------------------------- training

    def call(self, inputs, training=None):
        """Returns logits of starts and ends, `(batch, 2, length)`: -inf for padding."""
        logits = self.core(inputs, training=training)
        is_token = inputs["token_ids"] != self.core.config.pad_id
        return tf.transpose(tf.where(is_token[..., None], logits, NOT_HERE), [0, 2, 1])

    def usual_loss(self):
        """Returns the mean of the cross-entropies of start and end."""
        return TokenCrossentropy()

    def batches(self, x, y=None, batch_size=None, shuffle=False, seed=0):
        """Turns questions, contexts and answers into batches for Keras.

        Each window of a long context is an example of its own. In a window without the whole
        answer, both start and end are the start token.

        Args:
            x: A list of pairs (question, context), or a `tf.data.Dataset` of ((question, context),
                answer), scalar strings.
            y: If `x` is a list: the answer to each question, a `str` that occurs in its context, or
                a tuple (answer, start) where it occurs more than once. An empty answer means that
                the context has none. From a list of answers, the first one is used.
            batch_size: Number of questions per batch. Defaults to 16.
            shuffle: Whether to shuffle lists; a data set is not shuffled.
            seed: Seed of the shuffling.

        Returns:
            A data set of `(inputs, places, weights)`.

        Raises:
            ValueError: If `x` and `y` have another form, or a context does not contain its answer.

        Warns:
            UserWarning: If answers in a list are empty, and `may_be_empty` is not set.
        """
        if y is None:
            examples = spans_of_examples(x)
        else:
            pairs, _ = self.reader.requests(*_questions_and_contexts(x))
            y = entries_of(y)
            examples = answer_spans(pairs, y)
            self._warn_of_empty(y)
            examples = examples.shuffle(len(pairs), seed=seed) if shuffle else examples

        def read(pairs, spans):
            windows = self.reader.read(pairs)
            places = self.reader.places(windows, spans[:, 0], spans[:, 1])
            return windows.inputs, places, tf.ones_like(places, tf.float32)

        batches = examples.batch(batch_size or self.usual_batch_size)
        return batches.map(read, num_parallel_calls=tf.data.AUTOTUNE).prefetch(tf.data.AUTOTUNE)

    def _warn_of_empty(self, answers):
        empty = sum(not next(iter(texts_of(each)), "").strip() for each in answers)
        if empty and not self.may_be_empty:
            warnings.warn(
                f"{empty} of {len(answers)} answers are empty, and this model never gives an empty "
                "one. If a context may hold no answer, load it with may_be_empty=True.",
                stacklevel=3,
            )

    def evaluate(self, x, y=None, batch_size=None, return_dict=False, **kwargs):
        """Returns the loss and the metrics on raw data, including `exact_match` and `f1`.

        These two compare texts and are percentages, see `zoo.metrics.answer_scores`.

        Args:
            x, y, batch_size: As for `batches`. If `y` holds lists, the best match in each counts.
            return_dict: Whether to return a dictionary instead of a list.
            **kwargs: Additional arguments of `keras.Model.evaluate`, such as `steps`, the number of
                batches of questions to measure.
        """
        if y is not None:
            x, y = entries_of(x), entries_of(y)  # which are read twice
        found = super().evaluate(x, y, batch_size, return_dict=return_dict, **kwargs)
        if is_batches(x):
            return found
        batch_size, steps = batch_size or self.usual_batch_size, kwargs.get("steps")
        count = None if steps is None else steps * batch_size
        examples = x.as_numpy_iterator() if y is None else zip(x, y, strict=True)
        examples = list(itertools.islice(examples, count))
        if y is None:
            examples = [tf.nest.map_structure(bytes.decode, each) for each in examples]
        x, y = zip(*examples, strict=True)
        answers = self.answer(*zip(*x, strict=True), batch_size)
        scores = answer_scores([each.text for each in answers], [texts_of(each) for each in y])
        return found | scores._asdict() if return_dict else [*tf.nest.flatten(found), *scores]

    # ------------------------------------------------------------------------------------ answers

    @overload
    def answer(self, questions: str, contexts: str | Texts, batch_size: int = 8) -> Answer: ...
    @overload
    def answer(
        self, questions: Texts, contexts: str | Texts, batch_size: int = 8
    ) -> list[Answer]: ...
    def answer(self, questions, contexts, batch_size=8):
        """Returns the part of a context that answers a question, or each question in a list.

        Args:
            questions: A `str` or a list of `str`.
            contexts: A `str`, used for all questions, or a list with one for each.
            batch_size: Number of questions to process at a time.

        Returns:
            An `Answer` for one question, a list of them for a list.

        Raises:
            ValueError: If an input is not a text, or the numbers of contexts and questions differ.
        """
        requests, is_one = self.reader.requests(questions, contexts)
        answers = [
            Answer(row["answer"].decode(), float(row["score"]), int(row["start"]), int(row["end"]))
            for row in self._answers(requests, batch_size)
        ]
        return answers[0] if is_one else answers

    def respond(self, requests):
        """Turns requests into answers, in the graph.

        Args:
            requests: Strings `(batch, 2)`: questions and contexts.

        Returns:
            Dictionary of `answer`, strings, `score`, float32, and `start` and `end`, int32, the
            character positions of the answer in the context, each `(batch,)`.
        """
        windows = self.reader.read(requests)
        logits = self.core(windows.inputs, training=False)  # (windows, length, 2)
        is_place = windows.of_context & (windows.starts < windows.ends)  # not a lone space mark
        starts, ends = (tf.where(is_place, logits[..., side], NOT_HERE) for side in range(2))
        first, last, sums = self._best_spans(starts, ends)
        by_owner = tf.RaggedTensor.from_value_rowids(
            sums, windows.owners, tf.shape(requests)[0], validate=False
        )
        of_owners = by_owner.to_tensor(NOT_HERE)  # (batch, windows of a context)
        best = tf.reduce_max(of_owners, axis=1)
        row = by_owner.row_starts() + tf.argmax(of_owners, axis=1, output_type=tf.int32)

        def total(logits):
            of_windows = by_owner.with_values(tf.reduce_logsumexp(logits, axis=1))
            return tf.reduce_logsumexp(of_windows.to_tensor(NOT_HERE), axis=1)

        totals = [total(starts), total(ends)]
        begin = tf.gather_nd(windows.starts, tf.stack([row, tf.gather(first, row)], axis=1))
        end = tf.gather_nd(windows.ends, tf.stack([row, tf.gather(last, row)], axis=1))
        if self.may_be_empty:
            of_none = _logits_of_no_answer(logits, by_owner)  # (batch, 2)
            totals = [
                tf.reduce_logsumexp([each, of_none[:, side]], axis=0)
                for side, each in enumerate(totals)
            ]
            is_answer = tf.reduce_sum(of_none, axis=1) <= best
            best = tf.maximum(best, tf.reduce_sum(of_none, axis=1))
            begin, end = tf.where(is_answer, begin, 0), tf.where(is_answer, end, 0)
        contexts = to_valid_utf8(requests[:, 1])
        return {
            "answer": tf.strings.substr(contexts, begin, end - begin, "UTF8_CHAR"),
            "score": tf.where(best > NOT_HERE, tf.exp(best - sum(totals)), 0.0),
            "start": begin,
            "end": end,
        }

    def _best_spans(self, starts, ends):
        """Returns first and last token of the best span of each window, and the sum of its logits.

        Args:
            starts, ends: Logits `(windows, length)`.
        """
        reach = self.max_answer_tokens
        ends = tf.pad(ends, [[0, 0], [0, reach - 1]], constant_values=NOT_HERE)
        ends = tf.signal.frame(ends, reach, 1)  # (windows, length, reach)
        sums = starts + tf.reduce_max(ends, axis=-1)
        first = tf.argmax(sums, axis=1, output_type=tf.int32)
        lengths = tf.argmax(ends, axis=-1, output_type=tf.int32)
        last = first + tf.gather(lengths, first, batch_dims=1)
        return first, last, tf.reduce_max(sums, axis=1)

    # ------------------------------------------------------------------------------------- export

    def named(self, outputs):
        return {"start_logits": outputs[..., 0], "end_logits": outputs[..., 1]}

    def endpoints(self):
        """Returns a dictionary of the `zoo.serving.Endpoint`s to export and serve.

        `serving_default` takes `question` and `context`, and returns `answer`, `score`, `start` and
        `end`.
        """

        def serving_default(questions, contexts):
            return self.respond(tf.stack([questions, contexts], axis=1))

        names = "question", "context"
        inputs = [tf.TensorSpec([None], tf.string, name=name) for name in names]
        return {"serving_default": Endpoint(serving_default, inputs, [[["a"], ["a"]]])}


def _logits_of_no_answer(logits, by_owner):
    """Returns the logits `(batch, 2)` of the start token, in the window where they are the lowest.

    Args:
        logits: `(windows, length, 2)`.
        by_owner: Ragged tensor of the windows of each context.
    """
    sums = by_owner.with_values(logits[:, 0, 0] + logits[:, 0, 1]).to_tensor(-NOT_HERE)
    row = by_owner.row_starts() + tf.argmin(sums, axis=1, output_type=tf.int32)
    return tf.gather(logits[:, 0], row)


def _questions_and_contexts(pairs):
    """Returns two lists; raises a `ValueError` unless there are pairs to learn from."""
    pairs = entries_of(pairs)
    for position, pair in enumerate(pairs):
        if isinstance(pair, str) or not hasattr(pair, "__len__") or len(pair) != 2:
            raise ValueError(
                "`x` must be a list of pairs (question, context). Received: "
                f"{pair!r} at position {position}."
            )
    if not pairs:
        raise ValueError("`x` must be a list of pairs (question, context). Received: none.")
    return [question for question, _ in pairs], [context for _, context in pairs]
