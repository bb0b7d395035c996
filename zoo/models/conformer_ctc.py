"""The Conformer for speech recognition: spectrograms to logits of tokens at each time step.

The task, sounds to texts, is `zoo.tasks.recognition.Recognizer`.
"""

import keras

from zoo.models.conformer import Conformer, ConformerConfig
from zoo.models.heard import blank_after_the_end


@keras.saving.register_keras_serializable(package="zoo")
class ConformerCTC(Conformer):
    """A Conformer with a label at each time step: a token, or the blank.

    In connectionist temporal classification, the probability of a text is that of all sequences of
    labels that collapse to the text, when repeated labels are merged and blanks are then removed:

    $$ p(text) = \\sum_{labels \\to text} \\prod_t softmax(logits_t)_{labels_t} $$

    Papers: Graves et al. 2006, Connectionist Temporal Classification
    (https://www.cs.toronto.edu/~graves/icml_2006.pdf); Gulati et al. 2020, Conformer
    (https://arxiv.org/abs/2005.08100).

    Args:
        num_labels: Number of tokens; the blank is token 0.
        **options: The fields of `ConformerConfig`.

    Call arguments:
        sounds: Dictionary of `frames`, float32 `(batch, frames, bands)`, and `lengths`, int32
            `(batch,)`, as returned by `SoundReader`.
        return_attention_scores: Whether to also return the weights of all blocks.

    Output shape:
        Logits, float32 `(batch, tokens, num_labels)`. After the end of a sound the blank has
        probability 1, so that a loss without lengths ignores the padding. With
        `return_attention_scores` also a list of `(batch, num_heads, tokens, tokens)`.

    Example:

    >>> options = {"num_layers": 1, "size": 8, "num_heads": 2, "hidden": 16, "kernel_size": 3}
    >>> core = ConformerCTC(5, bands=8, **options)
    >>> sounds = {"frames": np.zeros((2, 20, 8), "float32"), "lengths": np.array([20, 13])}
    >>> core(sounds).shape.as_list()
    [2, 5, 5]
    """

    Config = ConformerConfig
    architecture = "conformer_ctc"
    description = "Conformer for speech recognition (Gulati et al. 2020)"
    blank_id = 0

    def call(self, sounds, return_attention_scores=False, training=None):
        x, is_token, weights = self.encode(sounds, return_attention_scores, training)
        logits = blank_after_the_end(self.head(x), is_token, self.blank_id)
        return (logits, weights) if return_attention_scores else logits
