"""`TextReader`: turns texts into token ids, long ones in chunks."""

import tensorflow as tf

from zoo.readers.text.texts import as_texts

BUCKET_WIDTH, LONGEST_BUCKET = 16, 512


class TextReader:
    """Prepares texts for an encoder: chunks of at most `max_length` tokens.

    Each chunk is an input of its own, between special tokens, so that no part of a long text is
    lost and none is longer than the inputs that the encoder was trained on.

    Args:
        tokenizer: A tokenizer.
        max_length: Maximum number of tokens in a chunk, special tokens included.
        around: The ids in front of and behind each chunk, two tuples; by default the start and the
            end token of the tokenizer.
        pad_id: Id of the padding; by default that of the tokenizer.

    Example:

    >>> from zoo import ByteBPETokenizer
    >>> reader = TextReader(ByteBPETokenizer([], prefix_space=False), max_length=4)
    >>> reader.read(["abc", ""])[0].numpy().tolist()
    [[[1, 100, 101, 2], [1, 102, 2, 0]], [[1, 2, 0, 0], [0, 0, 0, 0]]]
    """

    request_name = "text"

    def __init__(self, tokenizer, max_length, around=None, pad_id=None):
        self.front, self.behind = around or ((tokenizer.start_id,), (tokenizer.end_id,))
        if None in (*self.front, *self.behind):
            raise ValueError(
                "The tokenizer must have a start and an end token, which the model reads around a "
                f"text. Received: one with start_id={tokenizer.start_id}, end_id="
                f"{tokenizer.end_id}. Create it with the roles 'start' and 'end'."
            )
        least = len(self.front) + 1 + len(self.behind)
        if max_length < least:
            raise ValueError(
                f"`max_length` must be at least {least}, for a token of the text and the special "
                f"tokens around it. Received: max_length={max_length}."
            )
        self.tokenizer, self.max_length = tokenizer, max_length
        self.pad_id = tokenizer.pad_id if pad_id is None else pad_id

    def requests(self, texts):
        """Returns the texts of a call, and whether the call was for one text."""
        return as_texts(texts)

    def read(self, requests):
        """Reads texts, in the graph.

        Args:
            requests: Strings `(batch,)`.

        Returns:
            int32 `(batch, chunks, length)`, padded, and boolean `(batch,)`, all `True`.
        """
        tokens = self.tokenizer.tokenize(requests)
        ids = tokens.to_tensor(self.pad_id, shape=[None, None])
        is_readable = tf.fill(tf.shape(requests), True)
        return self.chunks(ids, tokens.row_lengths()), is_readable

    def chunks(self, tokens, lengths):
        """Splits padded tokens `(batch, length)` into chunks `(batch, chunks, chunk_length)`."""
        front, behind, pad_id = self.front, self.behind, self.pad_id
        room = self.max_length - len(front) - len(behind)
        if not front and not behind:
            tokens = with_a_place(tokens, pad_id)
        length = tf.shape(tokens)[1]
        count = tf.maximum(-(-length // room), 1)
        width = tf.where(count > 1, room, length)
        batch = tf.shape(tokens)[0]
        missing = count * width - length
        tokens = tf.pad(tokens, [[0, 0], [0, missing]], constant_values=pad_id)
        tokens = tf.reshape(tokens, (batch, count, width))
        lengths = tf.cast(lengths, tf.int32)[:, None] - width * tf.range(count)
        # An empty text has a chunk, too; after the last chunk of a text there is only padding.
        is_chunk = (lengths > 0) | (tf.range(count) == 0)
        ends = len(front) + tf.clip_by_value(lengths, 0, width)
        start = tf.broadcast_to(tf.constant(front, tf.int32), [batch, count, len(front)])
        rest = tf.fill([batch, count, len(behind)], pad_id)
        chunks = tf.concat([start, tokens, rest], -1)
        for place, number in enumerate(behind):
            is_here = tf.range(tf.shape(chunks)[2]) == ends[..., None] + place
            chunks = tf.where(is_here, number, chunks)
        return tf.where(is_chunk[..., None], chunks, pad_id)

    def batched(self, examples, batch_size):
        """Returns batches of (chunks, label) of texts of similar length.

        Args:
            examples: Data set of (text, label).
            batch_size: Number of texts per batch.
        """

        def tokenize(texts, labels):
            return self.tokenizer.tokenize(texts), labels

        # A text may hold the padding token, which is none of its padding.
        batches = bucketed(examples, tokenize, batch_size, (-1,))

        def cut(ids, labels):
            is_token = ids != -1
            lengths = tf.reduce_sum(tf.cast(is_token, tf.int32), axis=1)
            return self.chunks(tf.where(is_token, ids, self.pad_id), lengths), labels

        return batches.map(cut, num_parallel_calls=tf.data.AUTOTUNE)

    def example(self):
        """Returns a short text."""
        return "a"


def with_a_place(ids, pad_id):
    """Returns ids `(batch, length)`, with padding if the length is 0: models read no empty rows."""
    missing = tf.maximum(1 - tf.shape(ids)[1], 0)
    return tf.pad(ids, [[0, 0], [0, missing]], constant_values=pad_id)


def bucketed(examples, read, batch_size, padding):
    """Returns batches of examples of similar length.

    Args:
        examples: Data set of (input, label); a label may be a structure of tensors.
        read: Function of batches of them that returns a tuple, ragged tensors first, then labels.
        batch_size: Number of examples per batch.
        padding: Tuple of the padding values of the ragged tensors.

    Returns:
        A data set of such tuples, of dense tensors.
    """
    rows = examples.batch(256).map(read, num_parallel_calls=tf.data.AUTOTUNE).unbatch()
    rows = rows.map(lambda *row: tf.nest.map_structure(tf.identity, row))  # no longer ragged
    boundaries = list(range(BUCKET_WIDTH, LONGEST_BUCKET + 1, BUCKET_WIDTH))
    *_, label = rows.element_spec
    return rows.bucket_by_sequence_length(
        lambda ids, *_: tf.size(ids),
        boundaries,
        [batch_size] * (len(boundaries) + 1),
        padding_values=(
            *padding,
            tf.nest.map_structure(lambda spec: tf.zeros((), spec.dtype), label),
        ),
    )
