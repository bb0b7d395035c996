"""BLEU on validation data while training."""

import keras

from zoo.data.pairs import sources_and_references
from zoo.metrics.bleu import sacrebleu_score


class ValidationBleu(keras.callbacks.Callback):
    """Translates validation texts after an epoch and logs sacreBLEU as `val_bleu`.

    `keras.callbacks.ModelCheckpoint(monitor="val_bleu", mode="max")` and TensorBoard read this log
    entry, so this callback must precede them in the list.

    Args:
        examples: Data set of pairs, or of sources with a vector of correct translations each.
        sampler: Sampler of the translations; greedy search is fast.
        batch_size: Number of texts to process at a time.
    """

    def __init__(self, examples, sampler="greedy", batch_size=128):
        super().__init__()
        self.sources, self.references = sources_and_references(examples)
        self.sampler, self.batch_size = sampler, batch_size

    def on_epoch_end(self, epoch, logs=None):
        hypotheses = self.model.translate(
            self.sources, sampler=self.sampler, batch_size=self.batch_size
        )
        if logs is not None:
            logs["val_bleu"] = sacrebleu_score(hypotheses, self.references).score
