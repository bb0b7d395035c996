"""CLIP: unit vectors of images and texts in a joint space.

The task, searching, matching and classifying images by texts, is `zoo.tasks.matching.Matcher`.
"""

import keras
from keras import ops

from zoo.metrics.contrastive import ContrastiveLoss
from zoo.models.clip_towers import ClipConfig, GridTower, PatchTower, TextTower
from zoo.models.two_towers import TwoTowers

SHARPEST = 100.0  # at most, similarities are multiplied by this


@keras.saving.register_keras_serializable(package="zoo")
class Clip(TwoTowers):
    """Two towers, one of images and one of texts, and the similarities of their outputs.

    $$ S_{ij} = e^t \\frac{f(image_i) \\cdot g(text_j)}{|f(image_i)| |g(text_j)|} $$

    The scale e^t is learned, and at most 100.

    Paper: Radford et al. 2021, Learning Transferable Visual Models From Natural Language
    Supervision (https://arxiv.org/abs/2103.00020). The image tower takes the grid of vectors of
    another network, such as `zoo.Backbone`; or, with `patch_size`, the pixels.

    Args:
        vocabulary_size: Number of tokens.
        **options: The other fields of `ClipConfig`.

    Call arguments:
        inputs: Dictionary of `images`, float `(images, positions, channels)` or pixels `(images,
            rows, columns, channels)`, and `token_ids`, int32 `(texts, length)`, padded, as
            `Matcher` prepares them.

    Output shape:
        Float32 `(images, texts)`: the similarities S.

    Example:

    >>> tower = {"size": 8, "num_heads": 2, "hidden": 16}
    >>> core = Clip(50, channels=6, positions=4, embedding_size=5, text=tower, image=tower)
    >>> token_ids = np.array([[1, 7, 9, 2], [1, 8, 2, 0], [1, 2, 0, 0]])
    >>> tuple(core({"images": np.ones((2, 4, 6)), "token_ids": token_ids}).shape)
    (2, 3)
    >>> ops.norm(core.embed_texts(token_ids), axis=-1).numpy().round(3).tolist()
    [1.0, 1.0, 1.0]
    """

    Config = ClipConfig
    architecture = "clip"
    description = "Joint embedding of images and texts (Radford et al. 2021)"
    has_start = True  # texts begin with a special token
    is_padded = False  # texts may have any length, and padding is masked

    def __init__(self, vocabulary_size, **options):
        super().__init__(vocabulary_size=vocabulary_size, **options)
        config, dtype = self.config, self.dtype_policy
        self.text_tower = TextTower(config, dtype=dtype, name="text_tower")
        tower = GridTower if config.patch_size is None else PatchTower
        self.image_tower = tower(config, dtype=dtype, name="image_tower")
        self.text_projection, self.image_projection = (
            keras.layers.Dense(config.embedding_size, use_bias=False, dtype=dtype, name=name)
            for name in ("text_projection", "image_projection")
        )

    def scale(self):
        """Returns the factor of the cosines, a scalar."""
        return ops.minimum(super().scale(), SHARPEST)

    def logits(self, cosines):
        """Returns the logits of cosines `(images, texts)`."""
        return self.scale() * cosines

    def probabilities(self, cosines):
        """Returns for cosines `(images, texts)` the probability of each text among all of them."""
        return ops.exp(ops.log_softmax(self.logits(cosines)))  # softmax would warn of one text

    def usual_loss(self):
        """Returns the `zoo.metrics.ContrastiveLoss`."""
        return ContrastiveLoss()

    def settings_of_logits(self):
        """Returns a dictionary of the numbers that turn cosines into logits."""
        return {"logit_scale": float(self.scale())}
