"""Alignments as in their papers, in float64 NumPy: loops over the keys of a row, all visible."""

import numpy as np

from tests.attention import oracle


def monotonic(stop, previous):
    """Raffel et al. 2017: a sum over the keys at which the reader may have stopped before."""
    keys = range(len(stop))
    return np.array(
        [stop[j] * sum(previous[k] * np.prod(1 - stop[k:j]) for k in range(j + 1)) for j in keys]
    )


def monotonic_by_recursion(stop, previous):
    """The same, from key to key, for many keys."""
    arrives, weights = 0.0, []
    for p, before in zip(stop, previous, strict=True):
        arrives = arrives + before
        weights.append(p * arrives)
        arrives = (1 - p) * arrives
    return np.array(weights)


def stepwise(stay, previous):
    """He et al. 2019."""
    return np.array(
        [
            previous[j] * stay[j] + (previous[j - 1] * (1 - stay[j - 1]) if j else 0.0)
            for j in range(len(stay))
        ]
    )


def forward(scores, previous):
    """Zhang et al. 2018, without the transition agent."""
    softmax = np.exp(scores - scores.max()) / np.exp(scores - scores.max()).sum()
    weights = [
        (previous[j] + (previous[j - 1] if j else 0.0)) * softmax[j] for j in range(len(scores))
    ]
    return np.array(weights) / sum(weights)


def next_row(alignment, scores, previous, training, head=()):
    """Returns the weights of a row after the ones before."""
    kind = type(alignment).__name__
    if kind == "Forward":
        return forward(scores, previous)
    scores = scores + oracle.weight(alignment, "bias")[head].item()
    with np.errstate(over="ignore"):
        probabilities = 1 / (1 + np.exp(-scores)) if training else (scores >= 0).astype(float)
    return {"Monotonic": monotonic, "Stepwise": stepwise}[kind](probabilities, previous)


class Following:
    """The normalizer of a decoder with an alignment, which remembers the weights of each head."""

    def __init__(self, alignment, training):
        self.alignment, self.training, self.previous = alignment, training, {}

    def __call__(self, scores, visible, head=()):
        """Returns the next weights, for scores and visible keys `(batch, 1, keys)`."""
        weights = np.zeros(scores.shape)
        previous = self.previous.get(head, self._first(visible))
        for row in np.ndindex(scores.shape[:-1]):
            seen = visible[row]
            if seen.any():
                rows = scores[row][seen], previous[row][seen]
                weights[row][seen] = next_row(self.alignment, *rows, self.training, head)
        self.previous[head] = weights
        return weights

    @staticmethod
    def _first(visible):
        return (visible & (visible.cumsum(-1) == 1)).astype(float)
