"""The endpoints of an exported task: strings in, strings out."""

import tensorflow as tf

from zoo.serving import Endpoint, buckets

USUAL_LENGTH = -1  # stands for as many tokens as the task allows


def serving_endpoints(task, sampler):
    """Returns a dictionary of the `zoo.serving.Endpoint`s of a task.

    All take requests `[batch]`, and `seed` int32 `[batch]` if the sampler is a random one.
    `serving_default` returns `text`, `token_ids` and `log_prob`; `explain` also returns pieces and
    attention. The decoding of `serving_jit` is compiled with XLA.

    Args:
        task: A `GeneratingTask`.
        sampler: The `zoo.decoding.Sampler` to decode with.
    """
    inputs = [tf.TensorSpec([None], tf.string, name=task.request_name)]
    if sampler.is_random:
        inputs.append(tf.TensorSpec([None], tf.int32, name="seed"))

    def answer(return_attention, requests, seed=None):
        limits = tf.fill(tf.shape(requests), USUAL_LENGTH)
        seeds = _seeds_of(requests, seed)
        return task.answer(requests, seeds, limits, sampler, return_attention, served=True)

    def serving_default(*inputs):
        return _first_of_each(answer(False, *inputs))

    def explain(*inputs):
        outputs = _first_of_each(answer(True, *inputs))
        outputs["tokens"] = task.tokenizer.piece_texts(outputs["token_ids"])
        if "source_ids" in outputs:
            outputs["source_tokens"] = task.tokenizer.piece_texts(outputs.pop("source_ids"))
        return outputs

    def decode(inputs, seeds, limits):
        longest = task.longest_answer(inputs)
        return task.decode(inputs, seeds, limits, longest, sampler, jit_compile=True)

    decode_with_xla = buckets.compiled(decode)

    def serving_jit(requests, seed=None):
        inputs, limits = task.read(requests, served=True)
        decoded = decode_with_xla(task.fill_up(inputs), _seeds_of(requests, seed), limits)
        outputs = _first_of_each(task.write(decoded))
        longest = tf.maximum(tf.reduce_max(limits), 1)
        return {**outputs, "token_ids": outputs["token_ids"][:, :longest]}

    def of_rows(rows):
        return [[[request] * rows, [0] * rows][: len(inputs)] for request in requests]

    requests = [task.example_request(length) for length in task.served_lengths]
    one, every = of_rows(1), sum(map(of_rows, buckets.ROWS), [])
    endpoints = {"serving_default": Endpoint(serving_default, inputs, one)}
    if task.explains:
        endpoints["explain"] = Endpoint(explain, inputs, one)
    return {**endpoints, "serving_jit": Endpoint(serving_jit, inputs, every)}


def _seeds_of(requests, seed):
    """Returns int32 `[batch, 2]` for served requests, whose `seed` is `None` if none is needed."""
    seed = tf.zeros(tf.shape(requests), tf.int32) if seed is None else seed
    return tf.stack([seed, tf.zeros_like(seed)], axis=1)


def _first_of_each(outputs):
    """Returns the best hypothesis of each row; source tokens are one entry per row anyway."""
    return {name: x if name == "source_ids" else x[:, 0] for name, x in outputs.items()}
