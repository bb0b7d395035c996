"""Temperature scaling: probabilities that are as sure as they are right."""

import tensorflow as tf

from zoo.data.windows import sliding_windows

BATCH_SIZE = 32


def best_output_scale(model, text):
    """Returns the factor of the logits with the lowest loss on a text, from 0.50 to 1.50.

    A model that has seen the same text many times is too sure of what follows in another one. The
    order of the tokens by their probabilities stays as it is. The loss is convex in the factor.

    Paper: Guo et al. 2017, On Calibration of Modern Neural Networks, section 4.2
    (https://arxiv.org/abs/1706.04599).

    Args:
        model: A `TextGenerator`.
        text: A `str` that it has not learned from.

    Example:

    >>> import zoo
    >>> model = zoo.load("transformer_lm", weights=None, num_layers=1, size=16, num_heads=2,
    ...                  tokenizer=zoo.ByteBPETokenizer([], prefix_space=False))
    >>> 0.5 <= best_output_scale(model, "to be, or not to be") <= 1.5
    True
    """
    logits, labels = _predictions(model, text)

    def loss(percent):
        scaled = percent / 100 * logits
        each = tf.nn.sparse_softmax_cross_entropy_with_logits(labels, scaled)
        return float(tf.reduce_sum(each))

    low, high = 50, 150
    while low < high:
        middle = (low + high) // 2
        if loss(middle + 1) < loss(middle):
            low = middle + 1
        else:
            high = middle
    return low / 100


def _predictions(model, text):
    """Returns logits `(tokens, vocabulary)` and the tokens that they predict, each once."""
    windows = sliding_windows(model.tokens(text), model.core.context_length)
    logits, tokens = [], []
    for inputs, labels, weights in tf.data.Dataset.from_tensor_slices(windows).batch(BATCH_SIZE):
        is_told = weights > 0
        logits.append(tf.boolean_mask(model.core(inputs, training=False), is_told))
        tokens.append(tf.boolean_mask(labels, is_told))
    return tf.concat(logits, axis=0), tf.concat(tokens, axis=0)
