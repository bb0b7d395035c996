"""Comparison of two folders of features."""

import numpy as np

from zoo.data.features import load_features


def assert_same_features(folder, other, view=0):
    """Fails unless two folders hold the same features, up to rounding."""
    pairs = zip(load_features(folder, view), load_features(other, view), strict=True)
    for found, expected in pairs:
        assert found["name"] == expected["name"]
        assert (found["captions"].numpy() == expected["captions"].numpy()).all()
        np.testing.assert_allclose(
            found["annotations"], expected["annotations"], rtol=1e-3, atol=1e-3
        )
