"""The word error rate of transcripts."""

import tensorflow as tf


def word_error_rate(hypotheses, references):
    """Returns the word error rate: the number of word edits per reference word.

    $$ WER = \\frac{\\sum substitutions + deletions + insertions}{\\sum words\\ of\\ references} $$

    The sums run over all texts, with the fewest edits possible, by `tf.edit_distance`. Words are
    separated by white space. Case and punctuation count, so normalize both sides in the same way
    before, such as to lower case.

    Args:
        hypotheses: List of `str`, the transcripts.
        references: List of `str`, the correct texts, one for each.

    Returns:
        A `float`, 0 if all are correct; it may be above 1.

    Raises:
        TypeError: If an argument is not a list of `str`.
        ValueError: If the numbers of texts differ, or the references have no words.

    Example:

    >>> word_error_rate(["a man sleeps now", "one"], ["a man slept", "one two"])
    0.6
    """
    for name, texts in {"hypotheses": hypotheses, "references": references}.items():
        if not isinstance(texts, list | tuple) or not all(isinstance(x, str) for x in texts):
            raise TypeError(f"`{name}` must be a list of `str`. Received: {texts!r:.80}.")
    if len(hypotheses) != len(references):
        raise ValueError(
            f"There must be one reference for each hypothesis. Received: {len(hypotheses)} "
            f"hypotheses and {len(references)} references."
        )
    words = sum(len(text.split()) for text in references)
    if not words:
        raise ValueError("The references have no words, of which the rate would be a part.")
    distances = tf.edit_distance(_words(hypotheses), _words(references), normalize=False)
    return float(tf.reduce_sum(distances)) / words


def _words(texts):
    return tf.ragged.constant([text.split() for text in texts], tf.string).to_sparse()
