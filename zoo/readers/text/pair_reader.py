"""`PairReader`: turns texts into token ids, and pairs of texts into one input each."""

import tensorflow as tf

from zoo.readers.text.text_reader import TextReader, bucketed, with_a_place
from zoo.readers.text.texts import are_several, as_texts, entries_of, is_row


class PairReader(TextReader):
    """Prepares texts, and pairs of texts such as a question and an answer, for a classifier.

    A pair is one input, with special tokens between its texts, as in the tokenizer's template, and
    segment ids. A pair of more than `max_length` tokens, or more than the `longest_pair` of the
    tokenizer, is truncated, the longer text first.

    Args:
        tokenizer, max_length, around, pad_id: As for `TextReader`.

    Example:

    >>> from zoo import ByteBPETokenizer
    >>> reader = PairReader(ByteBPETokenizer([], prefix_space=False), max_length=8)
    >>> inputs, _ = reader.read(tf.constant([["ab", "c"]]))
    >>> inputs["token_ids"].numpy().tolist(), inputs["segment_ids"].numpy().tolist()
    ([[[1, 100, 101, 2, 102, 2]]], [[[0, 0, 0, 0, 1, 1]]])
    """

    def requests(self, texts):
        """Returns the texts or the pairs of a call, and whether the call was for one text.

        Args:
            texts: A `str`, a list of `str`, or a list of pairs of `str`.

        Raises:
            ValueError: If it is something else.
        """
        if are_several(texts):
            texts = entries_of(texts)
        if not isinstance(texts, list) or not any(map(is_row, texts)):
            return as_texts(texts)
        for position, each in enumerate(texts):
            if not is_row(each) or len(each) != 2:
                raise ValueError(
                    "Expected a list of texts, or one of pairs: [('a text', 'another'), ...]. "
                    f"Received: {each!r} at position {position}."
                )
        firsts, seconds = (as_texts(side)[0] for side in zip(*texts, strict=True))
        return list(zip(firsts, seconds, strict=True)), False

    def read(self, requests):
        """Reads texts or pairs, in the graph.

        Args:
            requests: Strings `(batch,)`, or `(batch, 2)` for pairs.

        Returns:
            The same as `TextReader.read`; for pairs a dictionary of `token_ids` and `segment_ids`,
            both int32 `(batch, 1, length)`, padded, and boolean `(batch,)`, all `True`.
        """
        requests = tf.convert_to_tensor(requests)
        if requests.shape.rank == 1:
            return super().read(requests)
        token_ids, segment_ids = self._encode(requests)
        token_ids = token_ids.to_tensor(self.pad_id)
        is_readable = tf.fill(tf.shape(requests)[:1], True)
        return self._as_inputs(token_ids, segment_ids.to_tensor(0)), is_readable

    def batched(self, examples, batch_size):
        """Returns batches of (inputs, label) of texts or pairs of similar length.

        Args:
            examples: Data set of (text, label), or of (pair, label): a pair is a tuple of two
                strings, or a vector of two.
            batch_size: Number of examples per batch.
        """
        of_input, _ = examples.element_spec
        if isinstance(of_input, tuple):
            examples = examples.map(lambda pair, label: (tf.stack(pair), label))
        elif of_input.shape.rank == 0:
            return super().batched(examples, batch_size)

        def encode(pairs, labels):
            return *self._encode(pairs), labels

        batches = bucketed(examples, encode, batch_size, (self.pad_id, 0))
        return batches.map(lambda ids, segments, labels: (self._as_inputs(ids, segments), labels))

    def _encode(self, pairs):
        texts, others = pairs[:, 0], pairs[:, 1]
        longest = min(self.max_length, self.tokenizer.longest_pair or self.max_length)
        return self.tokenizer.encode(texts, others, max_length=longest, dense=False)

    def _as_inputs(self, token_ids, segment_ids):
        """Returns inputs in which each pair is a single chunk."""
        token_ids = with_a_place(token_ids, self.pad_id)[:, None]
        return {"token_ids": token_ids, "segment_ids": with_a_place(segment_ids, 0)[:, None]}
