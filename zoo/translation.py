"""What a translator tells of its translations, beside the texts."""

from typing import NamedTuple

import numpy as np

from keras_attention.plotting import plot_alignment


class Translation(NamedTuple):
    """What `translate(..., return_attention=True)` returns, an entry for each text.

    Attributes:
        texts: List of `str`, the translations.
        tokens: List of lists of `str`, the pieces of each translation.
        source_tokens: List of lists of `str`, the pieces of each source; each of its sentences
            ends with an end token.
        attention: List of float32 arrays (target tokens × source tokens); rows sum to 1. It is 0
            between sentences, which were translated one by one. Of a Transformer it is the average
            of all cross-attention; `attention` of the model tells layers and heads apart.
        log_probs: float32 array, the log-probability of each translation.
    """

    texts: list
    tokens: list
    source_tokens: list
    attention: list
    log_probs: np.ndarray

    def plot(self, position=0):
        """Draws the alignment of one of the texts.

        Returns:
            The `matplotlib.figure.Figure`.
        """
        return plot_alignment(
            self.attention[position], self.source_tokens[position], self.tokens[position]
        )


def put_together(tokenizer, texts, of_texts):
    """Returns a `Translation` from what was decoded for each sentence, the best hypothesis of each.

    Args:
        tokenizer: A `ByteBPETokenizer`.
        texts: List of the translations.
        of_texts: List of lists: for each text the rows of its sentences, as
            `zoo.task.in_batches_by_length` returns them.
    """
    pad = tokenizer.pad_id
    tokens, source_tokens, attention = [], [], []
    for rows in of_texts:
        targets = [row["token_ids"][0] for row in rows]
        targets = [ids[ids != pad] for ids in targets]
        sources = [row["source_ids"][row["source_ids"] != pad] for row in rows]
        tokens += tokenizer.pieces([np.concatenate(targets)])
        source_tokens += tokenizer.pieces([np.concatenate(sources)])
        blocks = [
            row["attention"][0, : len(target), : len(source)]
            for row, target, source in zip(rows, targets, sources, strict=True)
        ]
        attention.append(block_diagonal(blocks))
    log_probs = [sum(row["log_prob"][0] for row in rows) for rows in of_texts]
    return Translation(texts, tokens, source_tokens, attention, np.array(log_probs, "float32"))


def block_diagonal(blocks):
    """Returns a matrix with the given ones on its diagonal, and zeros elsewhere.

    Example:

    >>> block_diagonal([np.ones((1, 2)), np.ones((2, 1))])
    array([[1., 1., 0.],
           [0., 0., 1.],
           [0., 0., 1.]], dtype=float32)
    """
    ends = np.cumsum([block.shape for block in blocks], axis=0)
    matrix = np.zeros(ends[-1], "float32")
    for block, (row, column) in zip(blocks, ends, strict=True):
        matrix[row - block.shape[0] : row, column - block.shape[1] : column] = block
    return matrix
