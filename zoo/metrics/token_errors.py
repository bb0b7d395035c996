"""The token error rate of CTC models."""

import keras
import tensorflow as tf


@keras.saving.register_keras_serializable(package="zoo")
class TokenErrorRate(keras.metrics.Metric):
    """The number of edits that turn the most likely texts into the references, per token.

    $$ rate = \\frac{\\sum edits}{\\sum tokens} $$

    An edit substitutes, inserts or deletes a token. The most likely text is that of the best path:
    the best label at each time step, with repetitions merged and blanks removed.

    Args:
        blank_id: The label that is the blank, which also pads references.

    Example:

    >>> logits = keras.ops.one_hot([[1, 1, 0, 2]], 3)
    >>> metric = TokenErrorRate()
    >>> metric.update_state([[1, 2, 2]], logits)
    >>> round(float(metric.result()), 3)
    0.333
    """

    def __init__(self, blank_id=0, name="token_error_rate", **kwargs):
        super().__init__(name=name, **kwargs)
        self._direction = "down"  # which callbacks of Keras ask for: lower is better
        self.blank_id = blank_id
        # Sums in half precision would soon stop growing.
        self.edits = self.add_variable((), "zeros", "float32", name="edits")
        self.tokens = self.add_variable((), "zeros", "float32", name="tokens")

    def update_state(self, y_true, y_pred, sample_weight=None):
        """Accumulates the edits of a batch.

        Args:
            y_true: Integers `(batch, length)`, token ids, padded with the blank.
            y_pred: Logits `(batch, times, labels)`.
            sample_weight: `(batch,)` or `(batch, 1)`, or `None`.
        """
        truth = tf.cast(y_true, tf.int32)
        is_token = truth != self.blank_id
        edits = tf.cast(_edits(*_labels(y_pred, self.blank_id), truth, is_token), tf.float32)
        tokens = tf.reduce_sum(tf.cast(is_token, tf.float32), axis=1)
        if sample_weight is not None:
            weights = tf.reshape(tf.cast(sample_weight, tf.float32), tf.shape(tokens))
            edits, tokens = edits * weights, tokens * weights
        self.edits.assign_add(tf.reduce_sum(edits))
        self.tokens.assign_add(tf.reduce_sum(tokens))

    def result(self):
        return tf.math.divide_no_nan(self.edits.value, self.tokens.value)

    def get_config(self):
        return {**super().get_config(), "blank_id": self.blank_id}


def best_path(logits, blank_id=0):
    """Returns the tokens of the best path, and the time steps at which they begin.

    Args:
        logits: `(batch, times, labels)`.
        blank_id: The label that is the blank.

    Returns:
        Two ragged int32 tensors `(batch, None)`.

    Example:

    >>> tokens, times = best_path(keras.ops.one_hot([[0, 2, 2, 0, 2, 1]], 3))
    >>> tokens.to_list(), times.to_list()
    ([[2, 2, 1]], [[1, 4, 5]])
    """
    labels, begins = _labels(logits, blank_id)
    times = tf.zeros_like(labels) + tf.range(tf.shape(labels)[1])
    return tf.ragged.boolean_mask(labels, begins), tf.ragged.boolean_mask(times, begins)


def _labels(logits, blank_id):
    """Returns the best label at each time, and whether a token begins there: `(batch, times)`."""
    labels = tf.argmax(logits, axis=-1, output_type=tf.int32)
    before = tf.pad(labels[:, :-1], [[0, 0], [1, 0]], constant_values=blank_id)
    return labels, (labels != blank_id) & (labels != before)


def _edits(labels, begins, truth, is_token):
    """Returns the edit distances of texts, int32 `(batch,)`, by operations that XLA compiles.

    That of `tf.edit_distance` has none. Each step of the loop takes the next token of the reference
    to the distances of what it has so far to all beginnings of the text, which are counted by time.

    Args:
        labels, begins: As returned by `_labels`.
        truth: int32 `(batch, length)`, the references.
        is_token: Boolean `(batch, length)`, where they are not padding.
    """
    labels, begins = (tf.pad(each, [[0, 0], [1, 0]]) for each in (labels, begins))
    inserted = tf.cumsum(tf.cast(begins, tf.int32), axis=1)  # number of tokens so far
    places = tf.range(tf.shape(labels)[1])

    def minimum_so_far(x):
        def widen(x, reach):
            earlier = tf.gather(x, tf.maximum(places - reach, 0), axis=1)
            return tf.minimum(x, earlier), 2 * reach

        return tf.while_loop(lambda x, reach: reach < tf.shape(x)[1], widen, (x, 1))[0]

    def take(place, distances):
        token = truth[:, place, None]
        before = tf.gather(distances, tf.maximum(places - 1, 0), axis=1)
        replaced = before + tf.cast(labels != token, tf.int32)
        least = tf.where(begins, tf.minimum(distances + 1, replaced), distances + 1)
        least = minimum_so_far(least - inserted) + inserted
        return place + 1, tf.where(is_token[:, place, None], least, distances)

    number = tf.shape(truth)[1]
    _, distances = tf.while_loop(lambda place, _: place < number, take, (0, inserted))
    return distances[:, -1]
