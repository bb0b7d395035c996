"""Prompts and conversations as the tokens that generation begins with."""

import numpy as np
import tensorflow as tf

from zoo.decoding.base import require
from zoo.readers.text.chat import is_conversation, text_of
from zoo.readers.text.texts import as_text, as_texts


class Prompts:
    """Turns prompts into tokens, at least one for each.

    Args:
        streams: The `TokenStreams` of the model.
        context_length: Number of tokens that the model sees at most.
        chat: The template of conversations, as for `TextGenerator`.
    """

    def __init__(self, streams, context_length, chat=None):
        self.streams = streams
        self.context_length = context_length
        self.chat = chat
        tokenizer = streams.tokenizer
        self.fallback_id = tokenizer.end_id if tokenizer.start_id is None else tokenizer.start_id

    def of(self, prompts):
        """Returns the tokens of prompts, and what they are.

        Args:
            prompts: A `str`, a conversation, or a list of either.

        Returns:
            A list of int32 `(length,)`; whether it was one prompt; and whether they are
            conversations.
        """
        if is_conversation(prompts):
            return [self.of_conversation(prompts)], True, True
        if isinstance(prompts, list | tuple) and prompts and all(map(is_conversation, prompts)):
            return [self.of_conversation(each) for each in prompts], False, True
        prompts, is_one = as_texts(prompts)
        return [self.of_text(prompt) for prompt in prompts], is_one, False

    def of_one(self, prompt):
        """Returns the tokens of a `str` or of a conversation, and whether it is one."""
        if is_conversation(prompt):
            return self.of_conversation(prompt), True
        return self.of_text(as_text(prompt=prompt)), False

    def of_text(self, prompt):
        """Returns the tokens of a text, truncated to the last ones that there is room for."""
        end = self.streams.ids(prompt[-self.window :])
        ids = np.concatenate([self.streams.opening_ids, end]).astype("int32")
        return ids if len(ids) else np.array([self.fallback_id], "int32")  # to go on from

    def of_conversation(self, messages):
        """Returns the tokens of a conversation, up to where the answer begins.

        Raises:
            ValueError: If the model has no chat template, or the conversation is too long.
        """
        expected = "texts for a model without a chat template"
        require(self.chat is not None, expected, prompts=messages)
        ids = self.streams.ids(text_of(self.chat, messages)).astype("int32")
        longest = self.context_length - 1
        if len(ids) > longest:
            raise ValueError(
                f"A conversation must have at most {longest} tokens, for a context of "
                f"{self.context_length}. Received: {len(ids)} tokens. Leave out its first "
                "messages, or begin a new conversation."
            )
        return ids

    def in_graph(self, requests):
        """Does what `of_text` does, in the graph: strings `[batch]` to ragged int32 tokens."""
        rows = tf.shape(requests)[0]
        sizes = tf.minimum(tf.strings.length(requests), self.window)
        requests = tf.strings.substr(requests, -sizes, sizes)
        opening = tf.repeat(tf.constant(self.streams.opening_ids[None]), rows, axis=0)
        ids = tf.concat([opening, self.streams.tokenizer.tokenize(requests)], axis=1)
        is_empty = ids.row_lengths() == 0
        fallback = tf.RaggedTensor.from_row_lengths(
            tf.fill([tf.reduce_sum(tf.cast(is_empty, tf.int32))], self.fallback_id),
            tf.cast(is_empty, tf.int64),
        )
        return tf.concat([fallback, ids], axis=1)

    @property
    def window(self):
        """Number of bytes at the end of a prompt that determine the tokens in the context.

        Half of them hold at least as many tokens as the context. A cut only changes the tokens of
        the word that it hits.
        """
        return 2 * self.context_length * self.streams.tokenizer.longest_piece
