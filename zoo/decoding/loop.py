"""The loop that turns a model's steps into texts.

A model that generates has two methods:

    context, state = model.start(inputs, max_length)
    logits, state, attention = model.step(tokens, state, context)

There will be at most `max_length` steps, so that caches can be sized. `context` is constant during
decoding (prepared keys, masks); `state` is updated by each step (a recurrent state, a cache). Both
are nests of tensors with the batch first; a scalar, such as the number of tokens so far, is shared
by all rows. A step takes `tokens` `[rows]` int32 and keeps structure, shapes and dtypes of the
state. `logits` is `[rows, vocabulary]`, `attention` is None or a nest of tensors with the rows
first, such as `[rows, source]`.

A row is a beam: there are batch times beams rows, with the beams of one source side by side. Beams
of one source share its context, so that only the state moves when one beam replaces another.

If the context is a dictionary, `"of_source"` holds tensors that are not repeated for the beams of a
source: they have the rows of the batch. `"of_model"` holds tensors without a batch: weights,
prepared for the steps. If the state is a dictionary, `"caches"` holds tensors that grow by one
position per step: `(rows, ..., room, size)`, with room for `max_length` further steps. Steps get
caches with less room as long as it is enough. They do not get rows that have ended, unless XLA
compiles them, see `zoo.decoding.stretches`.
"""

from typing import Any, NamedTuple

import tensorflow as tf

from keras_attention._backend import interpreted
from zoo.decoding import stretches
from zoo.decoding.next_tokens import NextTokens, NextTokensOfModel
from zoo.decoding.noise import uniforms
from zoo.decoding.processors import NOTHING, ForcedFirstToken, Progress
from zoo.decoding.samplers import get
from zoo.decoding.search import DEAD, advance, start_search, trace_back
from zoo.decoding.stretches import Now, Rows, all_beams, in_batch, map_context, map_rows


class History(NamedTuple):
    """The results of each step: three nests with the time first, as arrays or as tensors."""

    tokens: Any  # `[time, batch, beams]`, the token that each beam got
    parents: Any  # `[time, batch, beams]`, the beam that each beam continued
    attention: Any  # `[time, batch * beams, ...]`, of the parents; an empty nest unless asked for


class Decoded(NamedTuple):
    """The generated tokens: n = `num_return_sequences` hypotheses per row, best first.

    A hypothesis whose length is below the maximum ended by itself; at the maximum it was truncated.
    One that the search did not find has length 0, and `log_probs` and `scores` of −inf.

    Attributes:
        token_ids: `[batch, n, time]` int32 without the end token, padded with `pad_id`. The time is
            always `max_length`.
        lengths: `[batch, n]` int32, the numbers of tokens.
        log_probs: `[batch, n]` float32, the sum of the log-probabilities of the tokens and, if it
            was produced, the end token, under the plain softmax of the model's logits, after the
            processors, if any.
        scores: `[batch, n]` float32, the scores that rank the hypotheses.
        attention: Nest of `[batch, n, time, ...]`, the attention that the model returned for each
            token, 0 beyond the length; None unless requested.
    """

    token_ids: tf.Tensor
    lengths: tf.Tensor
    log_probs: tf.Tensor
    scores: tf.Tensor
    attention: Any


def decode(
    step,
    context,
    state,
    sampler,
    *,
    start_id,
    end_id,
    pad_id=0,
    max_lengths,
    max_length=None,
    first_tokens=None,
    prompt_ids=None,
    seeds=None,
    first_step=0,
    return_attention=False,
    jit_compile=None,
):
    """Generates a text for each row of a batch, until each has ended or reached its maximum.

    It consists of core TensorFlow ops and runs eagerly, in a `tf.function`, in a SavedModel, and
    with `jit_compile=True` if shapes are static. The results of a row do not depend on the others.
    The model's logits are cast to float32. `pad_id` and `start_id` are never produced, unless one
    of them is `end_id` or a `ForcedFirstToken`; the probabilities of the other tokens are not
    renormalized. A hypothesis whose logits contain NaN is dropped.

    Args:
        step: The model's `step`, see above.
        context: First result of the model's `start`.
        state: Second result of the model's `start`.
        sampler: A `Sampler` or the name of one, see `zoo.decoding.get`.
        start_id: The input token of the first step; may be `None` if there are `first_tokens`.
        end_id: The token that ends a text.
        pad_id: The token that pads `token_ids`.
        max_lengths: `[batch]` int32, the maximum number of tokens of each row, the end token
            included: a text of that many tokens is truncated before its end token.
        max_length: The time of the results, at least 1; rows are truncated there as well. Must be
            an int with `jit_compile=True`; otherwise defaults to the largest of `max_lengths`.
        first_tokens: `[batch]` int32, input tokens of the first step in place of `start_id`, such
            as the last tokens of prompts; these may be produced again.
        prompt_ids: `[batch, length]` int32, the tokens before the text, for processors such as a
            repetition penalty; −1 before shorter ones. By default the input tokens of the first
            step, as in Hugging Face: they matter where texts start with their end token.
        seeds: `[batch, 2]` int32, the seeds of each row for a random sampler.
        first_step: int32 scalar: the number of tokens generated before, for a text that is
            generated in several calls. Noise and processors continue from there.
        return_attention: Whether to return the attention of the model.
        jit_compile: Whether XLA compiles this, which needs caches of static sizes; by default if
            `max_length` is an `int`.

    Returns:
        `Decoded`.

    Raises:
        ValueError: If `max_lengths` or `seeds` have another shape, if a random sampler gets no
            seeds, if the step changes shapes or dtypes of the state, or if it returns no attention
            although it is requested.

    Example:

    >>> import tensorflow as tf
    >>> following = tf.constant([0, 3, 0, 4, 2])  # after 1, the start: 3, 4 and 2, the end
    >>> def step(tokens, state, context):
    ...     return 9.0 * tf.one_hot(tf.gather(following, tokens), 5), state, None
    >>> decoded = decode(step, (), (), "greedy", start_id=1, end_id=2, max_lengths=[5, 1])
    >>> decoded.token_ids[:, 0].numpy().tolist()
    [[3, 4, 0, 0, 0], [3, 0, 0, 0, 0]]
    >>> decoded.lengths[:, 0].numpy().tolist()
    [2, 1]
    """
    sampler = get(sampler)
    max_lengths = tf.cast(max_lengths, tf.int32)
    if max_lengths.shape.rank != 1:
        raise ValueError(f"`max_lengths` must be [batch]. Received: shape {max_lengths.shape}.")
    if max_length is None:
        max_length = tf.maximum(tf.reduce_max(max_lengths), 1)
    jit_compile = isinstance(max_length, int) if jit_compile is None else jit_compile
    step = step if jit_compile else interpreted(step)
    max_lengths = tf.minimum(max_lengths, max_length)
    noise = _noise(sampler, seeds, max_lengths.shape[0], max_length, first_step)
    batch, beams = tf.shape(max_lengths)[0], sampler.num_beams
    end_ids = (end_id, *sampler.end_ids)
    forbidden_ids = forbidden(sampler, pad_id, start_id)
    if first_tokens is None:
        first_tokens = tf.fill([batch], start_id)
    past, prompt_length = (), 0
    if sampler.processors:
        prompt_ids = first_tokens[:, None] if prompt_ids is None else prompt_ids
        past, prompt_length = _past(prompt_ids, beams, max_length)
    context, state = tf.nest.map_structure(tf.convert_to_tensor, (context, state))
    state = stretches.without_room(state, max_length)
    context, state = _for_each_beam(context, state, batch, beams)
    search = start_search(sampler, first_tokens, max_lengths)
    parents = tf.zeros_like(search.tokens) + tf.range(beams)
    shape = [max_lengths.shape[0], beams]
    arrays = [tf.TensorArray(tf.int32, max_length, element_shape=shape) for _ in range(2)]
    history = History(*arrays, attention=())
    rows = Rows(() if jit_compile else tf.range(batch), max_lengths, noise, context)
    now = Now(tf.constant(0), search, parents, state, past, history)
    if return_attention:
        step = tf.function(step, autograph=False)  # traced here, where it tells what it returns
        specs = _attention_specs(step, rows, now, jit_compile)
        arrays = _attention_arrays(specs, max_length, shape)
        now = now._replace(history=history._replace(attention=arrays))

    def next_step(rows, now):
        time, running = now.time, tf.shape(now.parents)[0]
        tokens = tf.reshape(now.search.tokens, [-1])  # [rows * beams]
        # Moved right before the step, so that XLA moves and extends a cache in one pass.
        moved = _select(now.state, now.parents)
        logits, state, attention = step(tokens, moved, rows.context)
        progress, past = None, now.past
        if sampler.processors:
            each = tf.reshape(past, [-1, tf.shape(past)[2]])  # [rows * beams, prompt + time]
            progress = Progress(each, prompt_length + time, first_step + time, end_ids)
        vocabulary = logits.shape[-1] or tf.shape(logits)[-1]
        logits = tf.reshape(logits, [running, beams, vocabulary])
        following = next_tokens(logits, sampler, progress, end_ids, forbidden_ids)
        numbers = rows.noise[:, time] if sampler.is_random else None
        search, parents = advance(
            now.search, sampler, following, numbers, time, rows.max_lengths, end_ids
        )
        if sampler.processors:
            past = _continued(past, search.tokens, parents, prompt_length + time)
        found = History(search.tokens, parents, attention if return_attention else ())
        if not jit_compile:
            found = _of_batch(found, rows.places, batch)
        history = tf.nest.map_structure(lambda array, x: array.write(time, x), now.history, found)
        return Now(time + 1, search, parents, _like(state, now.state), past, history)

    finished, history = stretches.run(next_step, rows, now, max_length, jit_compile)
    finished = tf.nest.map_structure(lambda x: x[:, : sampler.num_return_sequences], finished)
    history = tf.nest.map_structure(lambda array: array.stack(), history)
    decoded = _decoded(finished, history, pad_id)
    return decoded if return_attention else decoded._replace(attention=None)


def _noise(sampler, seeds, batch, max_length, first_step):
    """Returns `[batch, max_length]` float32, or `()` for a sampler that needs none."""
    if not sampler.is_random:
        return ()
    seeds = None if seeds is None else tf.cast(seeds, tf.int32)
    if seeds is None or not seeds.shape.is_compatible_with([batch, 2]):
        received = None if seeds is None else f"shape {seeds.shape}"
        raise ValueError(f"{sampler!r} needs `seeds` [batch={batch}, 2]. Received: {received}.")
    return tf.transpose(uniforms(seeds, max_length, first_step))


def _past(prompt_ids, beams, max_length):
    """Returns the tokens of each beam, `[batch, beams, prompt + time]`, and the prompt's length."""
    prompt_ids = tf.cast(prompt_ids, tf.int32)
    past = tf.pad(prompt_ids, [[0, 0], [0, max_length]], constant_values=NOTHING)
    return tf.repeat(past[:, None], beams, axis=1), tf.shape(prompt_ids)[1]


def _continued(past, tokens, parents, place):
    """Returns the `past` of each beam's parent, with the beam's new token at a place."""
    is_now = tf.range(tf.shape(past)[2]) == place
    continued = tf.gather(past, parents, batch_dims=1)  # [rows, beams, prompt + time]
    continued = tf.where(is_now, tokens[:, :, None], continued)
    return tf.ensure_shape(continued, past.shape)


def _for_each_beam(context, state, batch, beams):
    """Repeats the rows of a source, one for each of its beams."""
    if beams == 1:
        return context, state
    sources = tf.repeat(tf.range(batch), beams)

    def of_beams(tensor):
        return tf.gather(tensor, sources)

    return map_context(of_beams, context), map_rows(of_beams, state)


def forbidden(sampler, *tokens):
    """Returns those of some tokens, which may be `None`, that no processor of a sampler forces."""
    forced = {each.token for each in sampler.processors if isinstance(each, ForcedFirstToken)}
    return sorted({*tokens} - {None} - forced)


def next_tokens(logits, sampler, progress, end_ids, forbidden_ids):
    """Returns the `NextTokens` from which a sampler picks.

    Args:
        logits: `[batch, beams, vocabulary]`, of the model.
        sampler: A `Sampler`, whose processors are applied.
        progress: A `Progress` of the batch times beams rows, or `None` if the sampler has no
            processors.
        end_ids: The tokens that end a text.
        forbidden_ids: Tokens that must not be produced.
    """
    logits = tf.cast(logits, tf.float32)
    found = NextTokensOfModel(logits, end_ids, forbidden_ids)
    if progress is None:
        return found
    if sampler.num_beams > 1:
        log_probs = found.log_probs
        is_dead = tf.reduce_all(log_probs == DEAD, axis=-1, keepdims=True)
        # No processor revives a dead beam.
        return NextTokens(tf.where(is_dead, DEAD, _processed(log_probs, sampler, progress)))
    is_nan = tf.reduce_any(tf.math.is_nan(logits), axis=-1, keepdims=True)
    logits = tf.where(is_nan, logits, _processed(logits, sampler, progress))
    return NextTokensOfModel(logits, end_ids, forbidden_ids)


def _processed(scores, sampler, progress):
    """Returns scores `[batch, beams, vocabulary]` that went through the processors of a sampler."""
    sizes = tf.shape(scores)
    each = tf.reshape(scores, [sizes[0] * sizes[1], scores.shape[2] or sizes[2]])
    for processor in sampler.processors:
        each = processor(each, progress)
    return tf.reshape(each, sizes)


def _of_batch(found, places, batch):
    """Returns the `History` of one step for the whole batch, zeros for rows that have ended."""
    beams = found.parents.shape[1]
    of_beams = all_beams(places, beams)
    return History(
        in_batch(found.tokens, places, batch),
        in_batch(found.parents, places, batch),
        tf.nest.map_structure(lambda x: in_batch(x, of_beams, batch * beams), found.attention),
    )


def _select(state, parents):
    """Gives each beam the state of its parent.

    Args:
        state: State returned by a step.
        parents: `[batch, beams]` int32.
    """
    if parents.shape[1] == 1:
        return state
    batch, beams = tf.unstack(tf.shape(parents))
    rows = tf.reshape(parents + beams * tf.range(batch)[:, None], [-1])  # [batch * beams]
    return map_rows(lambda x: tf.gather(x, rows), state)


def _like(state, before):
    """Returns the state of a step, of the same shapes and dtypes as the one before."""

    def like(tensor, before):
        if tensor.dtype != before.dtype or not tensor.shape.is_compatible_with(before.shape):
            raise ValueError(
                "`step` must keep shapes and dtypes of the state. It got "
                f"{before.dtype.name}{before.shape}, it returned {tensor.dtype.name}{tensor.shape}."
            )
        return tf.ensure_shape(tensor, before.shape)

    return tf.nest.map_structure(like, state, before)


def _attention_specs(step, rows, now, jit_compile):
    """Returns the nest of the `tf.TensorSpec` of the attention of a step, a `tf.function`."""
    tokens = tf.reshape(now.search.tokens, [-1])
    if not jit_compile:  # it may leave out rows that have ended
        (rows, now), tokens = stretches.of_any_size(rows, now), tf.TensorSpec([None], tf.int32)
    return step.get_concrete_function(tokens, now.state, rows.context).structured_outputs[2]


def _attention_arrays(specs, max_length, shape):
    """Returns an array of all steps for each tensor of attention that a step returns.

    Args:
        specs: Nest of the `tf.TensorSpec` of these tensors.
        max_length: Number of steps at most.
        shape: Batch and beams, of which the batch may be unknown.
    """
    if specs is None:
        raise ValueError("`return_attention` is set, but `step` returns None as its attention.")
    batch, beams = shape
    rows = None if batch is None else batch * beams

    def array(spec):
        return tf.TensorArray(spec.dtype, max_length, element_shape=[rows, *spec.shape[1:]])

    return tf.nest.map_structure(array, specs)


def _decoded(finished, history, pad_id):
    """Reads the finished hypotheses from the history of all steps."""
    tokens, beams = trace_back(finished, history.tokens, history.parents)
    time, batch, _ = tf.unstack(tf.shape(beams))
    width = tf.shape(history.parents)[2]
    is_token = tf.range(time) < finished.lengths[:, :, None]  # [batch, n, time]

    def of_hypotheses(attention):
        rows = beams + width * tf.range(batch)[:, None]  # [time, batch, n]
        attention = tf.gather(attention, rows, batch_dims=1)  # [time, batch, n, ...]
        others = range(3, attention.shape.rank)
        attention = tf.transpose(attention, [1, 2, 0, *others])
        mask = is_token[(..., *(tf.newaxis for _ in others))]
        return tf.where(mask, attention, tf.zeros([], attention.dtype))

    return Decoded(
        token_ids=tf.where(is_token, tf.transpose(tokens, [1, 2, 0]), pad_id),
        lengths=finished.lengths,
        log_probs=finished.log_probs,
        scores=finished.scores,
        attention=tf.nest.map_structure(of_hypotheses, history.attention),
    )
