"""Where a model of pictures and texts starts: the directions in which the two correlate."""

import math

import numpy as np

RIDGE = 1.0  # of the mean variance: that much is added to all variances
PICTURES_A_STEP = 250


def start_from_correlations(matcher, views):
    """Makes both towers of a model linear maps to the canonical directions of a data set.

    $$ \\Sigma_x^{-1/2} \\Sigma_{xt} \\Sigma_t^{-1/2} = U S V^T, \\quad
       f(x) = S U^T \\Sigma_x^{-1/2} (x - \\bar x), \\quad g(t) = S V^T \\Sigma_t^{-1/2} (t - \\bar t) $$

    x is the mean of the normalized vectors of a picture in all views, t the counts of the tokens of
    a text, weighted by their inverse document frequency. Both covariances have a ridge. The poolings
    begin with even weights. The sizes of all maps are such that Adam changes them at one rate.

    Papers: Hotelling 1936 (https://doi.org/10.1093/biomet/28.3-4.321); Hodosh et al. 2013, section
    4 (https://doi.org/10.1613/jair.3994).

    Args:
        matcher: A `Matcher` whose core is a `Clip` without blocks, with pooling by attention, and
            with towers of the size of the common space.
        views: List of data sets of `annotations` and `captions`, the same pictures in each.
    """
    core = matcher.core
    size, length = core.config.embedding_size, core.config.max_length
    pictures = np.mean([_pictures(view) for view in views], axis=0)
    token_ids = _token_ids(matcher, views[0])  # (pictures, captions, length)
    texts = _frequencies(token_ids, core.config.vocabulary_size, core.config.pad_id)
    rarity = np.log(len(texts) / (1.0 + (texts > 0).sum(axis=0)))
    texts *= np.maximum(rarity, 0.0)
    (picture_map, picture_mean), (text_map, text_mean) = canonical_maps(
        pictures, texts.reshape(len(pictures), -1, texts.shape[-1]), size
    )
    text_map *= np.maximum(rarity, 0.0)[:, None]
    picture_scale = 1.0 / (math.sqrt(len(picture_map)) * picture_map.std())
