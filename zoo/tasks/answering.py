"""The task of answering questions: a question and a text in, the part of it that answers out."""

from typing import NamedTuple, overload

import keras
import tensorflow as tf

from zoo.data.answers import answer_spans, spans_of_examples, texts_of
from zoo.data.batching import is_batches
from zoo.decoding.base import require
from zoo.losses import TokenCrossentropy
from zoo.metrics.answers import answer_scores
from zoo.readers.text.span_reader import SpanReader
from zoo.readers.text.words import to_valid_utf8
from zoo.serving import Endpoint
from zoo.tasks.arguments import Texts
from zoo.tasks.encoding import EncodingTask

NOT_HERE = float("-inf")  # the logit of a token where no answer starts or ends


class Answer(NamedTuple):
    """Which part of a context answers a question.

    Attributes:
        text: That part, a `str` as it stands in the context; empty if nothing answers.
        score: Its probability, a `float`.
        start, end: Where it stands: `text == context[start:end]`.
    """

    text: str
    score: float
    start: int
    end: int


@keras.saving.register_keras_serializable(package="zoo")
class Answerer(EncodingTask):
    """A model of where answers start and end, together with what reads questions and contexts.

    Of all spans of at most `max_answer_tokens` tokens of a context it takes that whose logits have
    the largest sum:

    $$ i, j = argmax_{i \\le j < i + m} (start_i + end_j), \\quad
       score = softmax(start)_i \\, softmax(end)_j $$

    A context that is too long is read in windows that overlap, see
    `zoo.readers.text.span_reader.SpanReader`. A span lies in one of them; the softmax goes over the
    tokens of all.

    Paper: Devlin et al. 2019, BERT, section 4.2 (https://arxiv.org/abs/1810.04805).

    Args:
        core: A model of logits `(batch, length, 2)`, such as
            `zoo.models.text_encoder.TextEncoder(head="span")`.
        tokenizer: The tokenizer.
        max_answer_tokens: Tokens of an answer at most.
        may_be_empty: Whether a context may hold no answer, as in SQuAD 2.0. The start token stands
            for that: if its two logits, in the window where it has the lowest, have a larger sum
            than any span, the answer is empty.
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

        A window of a long context is an example of its own. One without the whole answer has the
        start token for start and end.

        Args:
            x: A list of pairs (question, context), or a `tf.data.Dataset` of ((question, context),
                answer), scalar strings.
            y: If `x` is a list: the answer to each, a `str` that its context holds, or a tuple
                (answer, start) where it stands there more than once. An empty one says that the
                context has no answer. Of a list of answers the first teaches.
            batch_size: Questions a batch, by default 16.
            shuffle: Whether to shuffle lists; a data set shuffles itself.
            seed: Seed of that.

        Returns:
            A data set of `(inputs, places, weights)`.

        Raises:
            ValueError: If they are no such lists or data set, or a context does not hold its
                answer.
        """
        if y is None:
            examples = spans_of_examples(x)
        else:
            pairs, _ = self.reader.requests(*zip(*x, strict=True))
            examples = answer_spans(pairs, y)
            examples = examples.shuffle(len(pairs), seed=seed) if shuffle else examples

        def read(pairs, spans):
            windows = self.reader.read(pairs)
            places = self.reader.places(windows, spans[:, 0], spans[:, 1])
            return windows.inputs, places, tf.ones_like(places, tf.float32)

        batches = examples.batch(batch_size or self.usual_batch_size)
        return batches.map(read, num_parallel_calls=tf.data.AUTOTUNE).prefetch(tf.data.AUTOTUNE)

    def evaluate(self, x, y=None, batch_size=None, return_dict=False, **kwargs):
        """Returns the loss and the metrics on raw data, `exact_match` and `f1` among them.

        These two compare texts, in percent, see `zoo.metrics.answer_scores`.

        Args:
            x, y, batch_size: As for `batches`. If `y` holds lists, the best answer of each counts.
            return_dict: Whether to return a dictionary, or a list.
            **kwargs: Further arguments of `keras.Model.evaluate`.
        """
        found = super().evaluate(x, y, batch_size, return_dict=return_dict, **kwargs)
        if is_batches(x):
            return found
        if y is None:
            rows = [tf.nest.map_structure(bytes.decode, row) for row in x.as_numpy_iterator()]
            x, y = zip(*rows, strict=True)
        answers = self.answer(*zip(*x, strict=True), batch_size or self.usual_batch_size)
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
        """Returns the part of a context that answers a question, or of each of a list.

        Args:
            questions: A `str` or a list of `str`.
            contexts: A `str`, which may answer all questions, or a list with one for each.
            batch_size: Questions computed at a time.

        Returns:
            An `Answer` for one question, a list of them for a list.

        Raises:
            ValueError: If something is no text, or there are not as many contexts as questions.
        """
        requests, is_one = self.reader.requests(questions, contexts)
        answers = [
            Answer(row["answer"].decode(), float(row["score"]), int(row["start"]), int(row["end"]))
            for row in self._answers(requests, batch_size)
        ]
        return answers[0] if is_one else answers

    def respond(self, requests):
        """Requests to answers, in the graph.

        Args:
            requests: Strings `(batch, 2)`: questions and contexts.

        Returns:
            Dictionary of `answer`, strings, `score`, float32, and `start` and `end`, int32, the
            characters of the context between which it stands, each `(batch,)`.
        """
        windows = self.reader.read(requests)
        logits = self.core(windows.inputs, training=False)  # (windows, length, 2)
        is_place = windows.of_context & (windows.starts < windows.ends)  # no mark of a space alone
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
            empty = by_owner.with_values(logits[:, 0, 0] + logits[:, 0, 1]).to_tensor(-NOT_HERE)
            row = by_owner.row_starts() + tf.argmin(empty, axis=1, output_type=tf.int32)
            of_start = tf.gather(logits[:, 0], row)  # (batch, 2)
            totals = [
                tf.reduce_logsumexp([each, of_start[:, side]], axis=0)
                for side, each in enumerate(totals)
            ]
            is_answer = tf.reduce_sum(of_start, axis=1) <= best
            best = tf.maximum(best, tf.reduce_sum(of_start, axis=1))
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
        """Returns a dictionary of the `zoo.serving.Endpoint`s that are exported, and served.

        `serving_default` takes `question` and `context`, and gives `answer`, `score`, `start` and
        `end`.
        """

        def serving_default(questions, contexts):
            return self.respond(tf.stack([questions, contexts], axis=1))

        names = "question", "context"
        inputs = [tf.TensorSpec([None], tf.string, name=name) for name in names]
        return {"serving_default": Endpoint(serving_default, inputs, [[["a"], ["a"]]])}
