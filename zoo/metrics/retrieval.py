"""Recall of retrieving the texts of images, and the images of texts, by similarity."""

from typing import NamedTuple

import numpy as np

RANKS = (1, 5, 10)


class RetrievalScores(NamedTuple):
    """Recalls in percent, each a dictionary from the number of answers k to the recall.

    Attributes:
        image_to_text: Share of images with one of their texts among the first k texts.
        text_to_image: Share of texts whose image is among the first k images.
    """

    image_to_text: dict
    text_to_image: dict


def retrieval_scores(similarities, owners):
    """Returns the `RetrievalScores` of similarities, as papers on Flickr8k report them.

    Ties and NaN count as errors: constant similarities find nothing.

    Args:
        similarities: Array (images × texts).
        owners: For each text the index of its image.

    Raises:
        ValueError: If `similarities` has other axes, or `owners` does not name an image for each
            text.

    Example:

    >>> scores = retrieval_scores(np.array([[0.9, 0.2, 0.5], [0.3, 0.1, 0.4]]), [0, 0, 1])
    >>> scores.image_to_text[1], scores.text_to_image[1]
    (100.0, 66.66...)
    """
    similarities, owners = np.asarray(similarities), np.asarray(owners)
    if similarities.ndim != 2:
        raise ValueError(
            "`similarities` must be an array (images × texts). Received: an array of shape "
            f"{similarities.shape}."
        )
    images = len(similarities)
    is_index = owners.dtype.kind in "iu" and ((owners >= 0) & (owners < images)).all()
    if owners.shape != similarities.shape[1:] or not is_index:
        raise ValueError(
            "`owners` must have the index of an image for each text: here "
            f"{similarities.shape[1]} integers from 0 to {images - 1}. Received: {owners!r}."
        )
    texts = np.arange(len(owners))
    own = similarities[owners, texts]  # (texts,)
    image_ranks = (~(similarities < own)).sum(axis=0) - 1
    best = np.full(images, -np.inf)
    np.fmax.at(best, owners, own)
    belongs = owners == np.arange(images)[:, None]
    text_ranks = (~(similarities < best[:, None]) & ~belongs).sum(axis=1)
    text_ranks = np.where(belongs.any(axis=1), text_ranks, np.inf)  # without a text, none is right
    return RetrievalScores(
        {k: 100.0 * float(np.mean(text_ranks < k)) for k in RANKS},
        {k: 100.0 * float(np.mean(image_ranks < k)) for k in RANKS},
    )
