"""The passes over the data of `fit`: their order and their end."""

import contextlib
import warnings

import keras
import tensorflow as tf

NO_BATCHES = "The data set is empty: nothing was learned from it, or measured on it."


class OrderOfEpochs(keras.callbacks.Callback):
    """Begins with the order of the first epoch that is trained, after `initial_epoch` of `fit` or
    Keras' `BackupAndRestore`: a training that was interrupted goes on as it would have.

    Args:
        batches: Data set that is shuffled anew in each pass.
    """

    def __init__(self, batches):
        super().__init__()
        self.batches = batches

    def on_epoch_begin(self, epoch, logs=None):
        if self.batches is not None:
            # After an epoch whose number of batches it knew, Keras begins a pass that it drops.
            passes = epoch * (2 if self.batches.cardinality() >= 0 else 1)
            for _ in range(passes):
                iter(self.batches)  # draws an order, and reads nothing
        self.batches = None


@contextlib.contextmanager
def unknown_number_of_batches():
    """Silences Keras' warning that a data set of unknown length interrupts training at its end."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Your input ran out of data")
        yield


def after(data):
    """Returns a context in which operations wait for the tensors of a batch.

    When data of unknown length run out, TensorFlow still runs what does not depend on a batch: with
    weight decay and the count of steps, which gradients are accumulated by, the optimizer takes
    part of a step.

    Args:
        data: Structure of tensors; whatever else it holds is ignored.
    """
    tensors = tf.nest.flatten(data, expand_composites=True)
    return tf.control_dependencies(list(filter(tf.is_tensor, tensors)))
