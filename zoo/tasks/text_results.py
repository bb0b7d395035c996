"""The results of tasks on texts: tokens, attention, probabilities, and their plots."""

import os
import pathlib
import textwrap
from typing import NamedTuple

import numpy as np

from keras_attention.plotting import LINE, plot_alignment, plot_heads
from zoo.decoding.base import require
from zoo.pages import attention_page, framed, save_page, text_view
from zoo.tasks.result_parts import OF_ATTENTION, first, joined, require_entry


class Translation(NamedTuple):
    """The result of `translate(..., return_attention=True)`, with an entry for each text.

    Attributes:
        texts: List of `str`, the translations.
        tokens: List of lists of `str`, the pieces of each translation.
        source_tokens: List of lists of `str`, the pieces of each source; each of its sentences
            ends with an end token.
        attention: List of float32 arrays (target tokens × source tokens); rows sum to 1. It is 0
            between sentences, which were translated one by one. For a Transformer it is the average
            over all cross-attention heads; the model's `attention` returns each layer and head.
        log_probs: float32 array, the log-probability of each translation. With
            `num_return_sequences` above 1 it is (texts × translations), like `texts`; tokens and
            attention are those of the best ones.
    """

    texts: list[str]
    tokens: list[list[str]]
    source_tokens: list[list[str]]
    attention: list[np.ndarray]
    log_probs: np.ndarray

    def plot(self, position=0):
        """Plots the alignment of one of the texts.

        Returns:
            The `matplotlib.figure.Figure`.

        Raises:
            ValueError: If there is no such text, or its translation is empty.
        """
        require_entry(self.texts, position)
        tokens = self.tokens[position]
        require(tokens, "that of a translation which is not empty, to plot it", position=position)
        return plot_alignment(self.attention[position], self.source_tokens[position], tokens)

    def save_html(self, path: str | os.PathLike[str], position: int = 0) -> pathlib.Path:
        """Writes an HTML page to explore the alignment of one of the texts, see `zoo.pages`.

        Args:
            path: Path of the file, which is self-contained.
            position: Index of the text.

        Returns:
            `pathlib.Path` of the file.
        """
        return save_page(path, self._page(position))

    def _page(self, position):
        require_entry(self.texts, position)
        tokens = self.tokens[position], self.source_tokens[position]
        view = text_view("alignment", self.attention[position][None, None], *tokens)
        return attention_page("Translation", [view], first(self.texts[position]))

    def _repr_html_(self):
        return framed(self._page(0)) if self.texts else None


class TextClasses(NamedTuple):
    """The detailed result of `classify` for texts, with an entry for each text.

    Attributes:
        labels: List of `str`, the best label of each; or of lists of `str`, all labels of each.
        probabilities: float32 array (texts × labels of the model); rows sum to 1 if labels are
            mutually exclusive.
        tokens: List of lists of `str`, the pieces of each text; `None` unless attention was
            requested.
        attention: List of float32 arrays (tokens,), the contribution of each token to the answer,
            by attention rollout; each sums to 1.
    """

    labels: list
    probabilities: np.ndarray
    tokens: list | None
    attention: list | None

    @classmethod
    def of(cls, labels, probabilities, rows, tokenizer, pad_id):
        """Makes the result from the outputs of `Classifier.respond` for each text."""
        if not rows or "attention" not in rows[0]:
            return cls(labels, probabilities, None, None)
        are_tokens = [row["token_ids"] != pad_id for row in rows]
        ids = [row["token_ids"][kept] for row, kept in zip(rows, are_tokens, strict=True)]
        attention = [row["attention"][kept] for row, kept in zip(rows, are_tokens, strict=True)]
        return cls(labels, probabilities, tokenizer.pieces(ids), attention)

    def plot(self, position=0):
        """Plots the tokens of a text with the contribution of each.

        The darkest color is that of the largest contribution, which is small in a long text.

        Returns:
            The `matplotlib.figure.Figure`.
        """
        require(self.attention is not None, OF_ATTENTION, attention=None)
        require_entry(self.labels, position)
        label = textwrap.fill(joined(self.labels[position]), LINE)
        contributions = self.attention[position]
        figure = plot_alignment(contributions[None], self.tokens[position], [label])
        figure.axes[0].images[0].set_clim(0.0, contributions.max())
        return figure


class TextScores(NamedTuple):
    """The result of `score`, with an entry for each text.

    Attributes:
        perplexity: float64 array, the exponential of the mean of `-log_probs`; NaN for a text
            without any.
        tokens: List of lists of `str`, the pieces of each text.
        log_probs: List of float32 arrays, the log-probability of each piece given those before it.
    """

    perplexity: np.ndarray
    tokens: list[list[str]]
    log_probs: list[np.ndarray]


class AttentionMaps(NamedTuple):
    """The attention weights of every layer and head.

    Attributes:
        weights: float32 array `(layers, heads, queries, keys)`; rows sum to 1.
        query_tokens: List of `str`, the tokens that attend.
        key_tokens: List of `str`, the tokens attended to.
    """

    weights: np.ndarray
    query_tokens: list[str]
    key_tokens: list[str]

    def plot(self, layer=-1, head=None):
        """Plots one head, or all heads of a layer side by side.

        Args:
            layer: Index of the layer; a negative one counts from the last layer.
            head: Index of the head, or `None` for all.

        Returns:
            The `matplotlib.figure.Figure`.

        Raises:
            ValueError: If there is no such layer or head.
        """
        layers, heads = self.weights.shape[:2]
        require(-layers <= layer < layers, f"a layer from 0 to {layers - 1}", layer=layer)
        if head is None:
            return plot_heads(self.weights[layer], self.key_tokens, self.query_tokens)
        require(-heads <= head < heads, f"a head from 0 to {heads - 1}", head=head)
        return plot_alignment(self.weights[layer, head], self.key_tokens, self.query_tokens)

    def save_html(self, path: str | os.PathLike[str]) -> pathlib.Path:
        """Writes an HTML page to explore all layers and heads, see `zoo.pages`.

        Args:
            path: Path of the file, which is self-contained.

        Returns:
            `pathlib.Path` of the file.
        """
        return save_page(path, self._page())

    def _page(self):
        return attention_page("Attention", [self._view("self-attention")])

    def _view(self, name):
        return text_view(name, self.weights, self.query_tokens, self.key_tokens)

    def _repr_html_(self):
        return framed(self._page())


class TranslationAttention(NamedTuple):
    """The three kinds of attention in an encoder-decoder model, each an `AttentionMaps`.

    Attributes:
        encoder: Self-attention of the source tokens.
        decoder: Causal self-attention of the target tokens; each predicts the next one.
        cross: Cross-attention of target tokens to source tokens.
    """

    encoder: AttentionMaps
    decoder: AttentionMaps
    cross: AttentionMaps

    def save_html(self, path: str | os.PathLike[str]) -> pathlib.Path:
        """Writes an HTML page to explore all three, see `zoo.pages`.

        Args:
            path: Path of the file, which is self-contained.

        Returns:
            `pathlib.Path` of the file.
        """
        return save_page(path, self._page())

    def _page(self):
        names = "cross", "encoder", "decoder"
        views = [getattr(self, name)._view(f"{name} attention") for name in names]
        return attention_page("Attention of a translation", views)

    def _repr_html_(self):
        return framed(self._page())
