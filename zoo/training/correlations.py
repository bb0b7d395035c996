"""Initialization of a model of pictures and texts by canonical correlation analysis."""

import numpy as np
import tensorflow as tf
from keras import ops

BATCH = 250  # pictures


def start_from_correlations(matcher, views):
    """Initializes both towers of a model as linear maps to the directions of highest correlation.

    A picture is the mean of its normalized vectors in all views, a text the shares of its tokens,
    rare ones with more weight; see `canonical_maps`. The poolings start with uniform weights,
    and the maps are scaled for Adam, whose steps have the same size for all weights.

    Args:
        matcher: A `Matcher`. Its core is a `Clip` whose towers have no blocks and no final
            normalization, pool by attention, do not scale embeddings, and have the size of the
            common space.
        views: List of data sets of `annotations` and `captions`, each of the same pictures in the
            same order, with as many captions for each.
    """
    core = matcher.core
    size = core.config.embedding_size
    pictures = sum(_pictures(core.image_tower.normalized, view) for view in views) / len(views)
    texts, covariance, weights = _texts(matcher, views[0])
    picture_map, text_map = canonical_maps(pictures, texts, covariance, size)
    bias = [-pictures.mean(axis=0) @ picture_map, -texts.mean(axis=0) @ text_map]
    text_map *= weights[:, None]
    scales = [0.033 / picture_map.std(), 0.125 / text_map.std()]
    core.image_tower.inputs.set_weights([scales[0] * picture_map, scales[0] * bias[0]])
    core.text_tower.embedding.table.assign(scales[1] * text_map)
    core.image_tower.place.embeddings.assign(np.zeros((core.image_tower.positions, size)))
    core.text_tower.embedding.place.embeddings.assign(
        np.tile(scales[1] * bias[1], (core.config.max_length, 1))
    )
    for projection in (core.image_projection, core.text_projection):
        projection.set_weights([np.eye(size)])
    for tower in (core.image_tower, core.text_tower):
        tower.pool.query.assign(np.zeros((1, size)))
        for name in ("value", "output"):
            kernel, bias = getattr(tower.pool.attention, f"{name}_projection").weights
            kernel.assign(np.eye(size))


def canonical_maps(pictures, texts, covariance, size):
    """Returns the maps of a regularized canonical correlation analysis.

    $$ L_x L_x^T = \\Sigma_x + \\lambda_x I, \\quad L_t L_t^T = \\Sigma_t + \\lambda_t I, \\quad
       L_x^{-1} \\Sigma_{xt} L_t^{-T} = U S V^T $$

    gives the maps of pictures, L_x^{-T} U S, and of texts, L_t^{-T} V S, with the first columns of
    U and V. The ridges λ are the mean variances.

    Paper: Hotelling 1936 (https://doi.org/10.1093/biomet/28.3-4.321); Hodosh et al. 2013, section 4
    (https://doi.org/10.1613/jair.3994), used it on Flickr8k.

    Args:
        pictures: Array `(pictures, channels)`.
        texts: Array `(pictures, tokens)`, for each picture the mean of its texts.
        covariance: Array `(tokens, tokens)`, that of single texts.
        size: Number of directions.

    Returns:
        Arrays `(channels, size)` and `(tokens, size)`.
    """
    pictures, texts = pictures - pictures.mean(axis=0), texts - texts.mean(axis=0)
    of_pictures = _cholesky(pictures.T @ pictures / len(pictures))
    of_texts = _cholesky(covariance)
    both = np.linalg.solve(of_pictures, pictures.T @ texts / len(pictures))
    both = np.linalg.solve(of_texts, both.T).T
    squares, left = np.linalg.eigh(both @ both.T)
    squares, left = squares[::-1][:size], left[:, ::-1][:, :size]
    picture_map = np.linalg.solve(of_pictures.T, left) * np.sqrt(np.maximum(squares, 0.0))
    return picture_map, np.linalg.solve(of_texts.T, both.T @ left)


def _cholesky(covariance):
    ridge = np.trace(covariance) / len(covariance)
    return np.linalg.cholesky(covariance + ridge * np.eye(len(covariance), dtype="float32"))


def _pictures(normalize, view):
    """Returns the mean of the normalized vectors of each picture `(pictures, channels)`."""
    batches = view.batch(BATCH).as_numpy_iterator()
    means = [ops.mean(ops.cast(normalize(batch["annotations"]), "float32"), 1) for batch in batches]
    return ops.convert_to_numpy(ops.concatenate(means))


def _texts(matcher, view):
    """Returns the mean of the texts of each picture `(pictures, tokens)`, the covariance of texts,
    and the weights of the tokens that are in both.
    """
    config, tokens = matcher.core.config, matcher.core.config.vocabulary_size
    means, moments, counts = [], np.zeros((tokens, tokens), "float32"), np.zeros(tokens)
    for captions in view.map(lambda example: example["captions"]).batch(BATCH):
        pictures, texts = captions.shape
        ids = matcher.read_texts(tf.reshape(captions, [-1])).numpy()
        shares = (ids != config.pad_id).astype("float32")
        shares /= shares.sum(axis=1, keepdims=True)
        mean = np.zeros((pictures, tokens), "float32")
        np.add.at(mean, (np.repeat(np.arange(pictures), texts)[:, None], ids), shares / texts)
        np.add.at(
            moments, (ids[:, :, None], ids[:, None]), shares[:, :, None] * shares[:, None] / texts
        )
        counts += np.bincount(ids[shares > 0], minlength=tokens)
        means.append(mean)
    means = np.concatenate(means)
    weights = np.log1p(len(means) * texts / (1.0 + counts)).astype("float32")
    mean = means.mean(axis=0)
    covariance = moments / len(means) - mean[:, None] * mean
    return means * weights, covariance * weights[:, None] * weights, weights
