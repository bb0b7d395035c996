"""Text continuation, in stretches that each see as much text as fits into the context."""

import codecs
import functools
from typing import NamedTuple

import numpy as np
import tensorflow as tf

from zoo.decoding.compiled import NUMBERS, for_every_form
from zoo.decoding.loop import forbidden, next_tokens
from zoo.decoding.noise import uniforms
from zoo.decoding.processors import NOTHING, Progress
from zoo.readers.text import stopping
from zoo.serving import buckets
from zoo.tasks.generating import LIMITS, SEEDS

LONGEST_STRETCH = 256  # tokens
TOKENS = tf.TensorSpec([None, None], tf.int32)  # texts, padded
SIZES = (16, 32, 64, 128, 256)  # tokens of prompts and of stretches that are compiled for


class Continued(NamedTuple):
    """A text that follows a prompt.

    Attributes:
        text: The text.
        num_tokens: Number of tokens that the model generated for it, not counting an end token or
            what a stop string removed.
        is_ended: Whether an end token or a stop string ended it, rather than the maximum length.
    """

    text: str
    num_tokens: int
    is_ended: bool


class Continuation:
    """Continues texts for a `TextGenerator`, and holds the functions compiled for it.

    Prompt and new tokens share the context of the model. So a text grows in stretches of a quarter
    of the context, at most 256 tokens. Each stretch starts by reading the end of the text so far. A
    conversation is read as a whole: its answer ends where the context is full.

    Args:
        model: The `TextGenerator`.
    """

    def __init__(self, model):
        self.model = model
        self.steps = min(max(1, model.core.context_length // 4), LONGEST_STRETCH)
        self._compiled_stretch = for_every_form(self._compile_stretch)
        self._compiled_step = for_every_form(self._compile_step)

    def texts(self, prompts, seeds, max_length, sampler, stops, is_whole, jit_compile):
        """Returns the continuation of each prompt: a `str`, or a list of several hypotheses.

        Args:
            prompts: List of int32 arrays of tokens.
            seeds: List of pairs of integers, one for each prompt.
            max_length, sampler, stops, jit_compile: As for `TextGenerator.generate`.
            is_whole: Whether the prompts are conversations.

        Raises:
            ValueError: If the beams do not fit into the context.
        """
        if sampler.num_beams > 1:
            options = sampler, stops, is_whole, jit_compile
            return self._hypotheses(prompts, seeds, max_length, *options)
        found = self.continued(prompts, seeds, max_length, sampler, stops, is_whole, jit_compile)
        return [each.text for each in found]

    def continued(
        self, prompts, seeds, max_length, sampler, stops, is_whole=False, jit_compile=False
    ):
        """Returns the `Continued` of each prompt; as `texts`, by a sampler with one beam."""
        ids = [list(prompt) for prompt in prompts]
        results, running = [None] * len(ids), list(range(len(ids)))
        for first in range(0, max_length, self.steps):
            found, lengths, limits = self._stretch(
                [ids[row] for row in running],
                [seeds[row] for row in running],
                first,
                min(self.steps, max_length - first),
                self._seen(self.steps, is_whole),
                sampler,
                jit_compile,
            )
            going_on = []
            new_tokens = zip(running, found[:, 0], lengths[:, 0], limits, strict=True)
            for row, new, length, limit in new_tokens:
                ids[row] += new[:length].tolist()
                added = ids[row][len(prompts[row]) :]
                (text,) = self._texts([added])
                text, is_stopped = stopping.cut(text, stops)
                number = self._number_within(added, len(text)) if is_stopped else len(added)
                results[row] = Continued(text, number, bool(is_stopped or length < limit))
                is_full = is_whole and self._left(ids[row]) < 1
                if not results[row].is_ended and not is_full:
                    going_on.append(row)
            running = going_on
            if not running:
                break
        return results

    def _number_within(self, tokens, length):
        """Returns how many tokens begin in the first `length` characters of their text."""
        decoder, begin = codecs.getincrementaldecoder("utf-8")("replace"), 0
        for number, token in enumerate(tokens):
            if begin >= length:
                return number
            begin += len(decoder.decode(self.model.tokenizer.piece_bytes(token)))
        return len(tokens)

    def pieces(self, ids, max_length, sampler, seed, is_whole, stops):
        """Yields text after a prompt as soon as it is certain that no stop string begins there.

        Args:
            ids: int32 array, the tokens of the prompt.
            max_length, sampler, seed, stops: As for `TextGenerator.stream`.
            is_whole: Whether the prompt is a conversation.
        """
        tokenizer = self.model.tokenizer
        decoder = codecs.getincrementaldecoder("utf-8")("replace")
        waiting = ""
        for token, _ in self.tokens(ids, max_length, sampler, seed, is_whole):
            if token in (tokenizer.end_id, *sampler.end_ids):
                break
            waiting += decoder.decode(tokenizer.piece_bytes(token))
            waiting, is_stopped = stopping.cut(waiting, stops)
            if is_stopped:
                yield waiting
                return
            ready = stopping.certain(waiting, stops)
            if ready:
                yield ready
            waiting = waiting[len(ready) :]
        yield stopping.cut(waiting + decoder.decode(b"", final=True), stops)[0]

    def tokens(self, ids, max_length, sampler, seed, is_whole):
        """Yields each token that follows a prompt, the end token included.

        It ends without one if no token is left: by NaN of the model, or rules that forbid all.

        Args:
            ids: int32 array, the tokens of the prompt.
            max_length, sampler, seed: As for `TextGenerator.stream`.
            is_whole: Whether the prompt is a conversation.

        Returns:
            An iterator of `(token, log_probs)`: an `int`, and the model's log-probabilities of all
            tokens at this position, a float32 tensor `(vocabulary,)`.
        """
        start, step = self._compiled_start, self._compiled_step(sampler)
        end_ids = (self.model.tokenizer.end_id, *sampler.end_ids)
        seeds = tf.constant([[seed, 0]], tf.int32)
        added, ids = 0, list(ids)
        if is_whole:
            max_length = min(max_length, self._left(ids))
        while added < max_length:
            prompt = self._padded([ids], self._seen(self.steps, is_whole))
            context, state = start(tf.constant(prompt))
            past = _past_of_stretch(prompt, self.steps, self.model.prompt_pad_id)
            noise = uniforms(seeds, min(self.steps, max_length - added), added)
            for place, numbers in enumerate(noise, prompt.shape[1]):
                places = tf.constant([place, added])
                last = tf.constant(ids[-1:], tf.int32)
                token, log_probs, state = step(last, state, context, numbers, past, places)
                if token[0] == NOTHING:
                    return
                ids.append(int(token[0]))
                past[0, place] = ids[-1]
                added += 1
                yield ids[-1], log_probs[0]
                if ids[-1] in end_ids:
                    return

    def _hypotheses(self, prompts, seeds, max_length, sampler, stops, is_whole, jit_compile):
        """Returns the results of beam search, which generates a text as a whole."""
        longest = self.model.core.context_length
        if max_length > longest:
            raise ValueError(
                f"Beam search generates a text as a whole, so max_length={max_length} must be "
                f"at most the context of {longest} tokens. Pass a smaller one, or a sampler with "
                "one beam."
            )
        seen = self._seen(max_length, is_whole)
        ids, *_ = self._stretch(prompts, seeds, 0, max_length, seen, sampler, jit_compile)
        texts = [[stopping.cut(text, stops)[0] for text in self._texts(each)] for each in ids]
        return texts if sampler.num_return_sequences > 1 else [text for (text,) in texts]

    def _stretch(self, ids, seeds, first, limit, seen, sampler, jit_compile):
        """Adds at most `limit` tokens, and no more than there is room for.

        Args:
            ids: List of the tokens of each text so far.
            seeds: List of the seeds of each text.
            first: Number of tokens added before.
            seen: Number of tokens of a text that the model sees.

        Returns:
            Arrays of tokens `(texts, n, time)`, and of their numbers `(texts, n)`; and the largest
            number possible for each text.
        """
        limits = [min(limit, self._left(each[-seen:])) for each in ids]
        steps = int(buckets.rounded_up(limit, SIZES, self.model.core.context_length))
        batch = self._padded(ids, seen)
        batch, seeds, rows = (tf.constant(x, tf.int32) for x in (batch, seeds, limits))
        stretch = self._compiled_stretch(sampler, steps, jit_compile)
        outputs = stretch(batch, seeds, rows, tf.constant(first))
        return outputs["token_ids"].numpy(), outputs["lengths"].numpy(), limits

    def _seen(self, steps, is_whole):
        """Returns how many tokens of a text the model sees, before some steps."""
        core = self.model.core
        return core.context_length if is_whole else room(core, steps)

    def _left(self, ids):
        """Returns how many tokens may follow some; nothing reads the last one."""
        return self.model.core.context_length + 1 - len(ids)

    def _padded(self, rows, longest):
        """Returns the ends of rows as int32 `(rows, length)`, left-padded to a few lengths."""
        rows = [row[-longest:] for row in rows]
        length = int(buckets.rounded_up(max(map(len, rows)), SIZES, longest))
        length = max(length, 2)  # before the last token, which takes part in a step, stands another
        padded = np.full((len(rows), length), self.model.prompt_pad_id, "int32")
        for place, row in enumerate(rows):
            padded[place, length - len(row) :] = row
        return padded

    def _texts(self, rows):
        rows = tf.ragged.constant([list(row) for row in rows], tf.int32)
        return [text.decode() for text in self.model.texts_of(rows).numpy()]

    def _compile_stretch(self, with_numbers, steps, jit_compile):
        """Compiles the decoding of `steps` tokens, with XLA for a few sizes of batches."""

        def stretch(prompt_ids, seeds, limits, numbers, first_step):
            options = {"first_step": first_step, "jit_compile": jit_compile}
            sampler = with_numbers(numbers)
            decoded = self.model.decode(prompt_ids, seeds, limits, steps, sampler, **options)
            return {"token_ids": decoded.token_ids, "lengths": decoded.lengths}

        if jit_compile:
            compiled = buckets.compiled(stretch)
        else:
            # Any number of texts of any length: one trace.
            scalar = tf.TensorSpec([], tf.int32)
            signature = [TOKENS, SEEDS, LIMITS, NUMBERS, scalar]
            compiled = tf.function(stretch, signature, autograph=False).get_concrete_function()
        return lambda numbers, prompt_ids, seeds, limits, first_step: compiled(
            prompt_ids, seeds, limits, numbers=numbers, first_step=first_step
        )

    @functools.cached_property
    def _compiled_start(self):
        def start(prompt_ids):
            return self.model.core.start(prompt_ids, self.steps)

        signature = [tf.TensorSpec([1, None], tf.int32)]
        return tf.function(start, signature, autograph=False).get_concrete_function()

    def _compile_step(self, with_numbers):
        """Compiles one decoding step of a stream."""
        core, tokenizer = self.model.core, self.model.tokenizer

        def step(numbers, tokens, state, context, noise, past, places):
            sampler = with_numbers(numbers)
            end_ids = (tokenizer.end_id, *sampler.end_ids)
            special = forbidden(sampler, tokenizer.pad_id, tokenizer.start_id)
            progress = Progress(past, places[0], places[1], end_ids) if sampler.processors else None
            logits, state, _ = core.step(tokens, state, context)
            logits = logits[:, None]  # of one beam
            of_model = next_tokens(logits, sampler, None, end_ids, special).log_probs[:, 0]
            log_probs = of_model
            if progress is not None:
                found = next_tokens(logits, sampler, progress, end_ids, special)
                log_probs = found.log_probs[:, 0]
            token = sampler.pick(log_probs, noise)
            is_possible = tf.gather(log_probs, token, batch_dims=1) > float("-inf")
            return tf.where(is_possible, token, NOTHING), of_model, state

        context, state = tf.nest.map_structure(
            tf.TensorSpec.from_tensor, self._compiled_start.structured_outputs
        )
        tokens, noise = tf.TensorSpec([1], tf.int32), tf.TensorSpec([None], tf.float32)
        places = tf.TensorSpec([2], tf.int32)
        signature = [NUMBERS, tokens, state, context, noise, TOKENS, places]
        return tf.function(step, signature, autograph=False).get_concrete_function()


def _past_of_stretch(prompt, steps, pad_id):
    """Returns the tokens of a padded prompt and room for `steps` more, for processors."""
    past = np.pad(prompt, [(0, 0), (0, steps)], constant_values=NOTHING)
    past[:, : prompt.shape[1]][prompt == pad_id] = NOTHING
    return past


def room(core, steps):
    """Number of tokens of a prompt that the model sees; the last one enters the first step."""
    return core.context_length - steps + 1
