"""SigLIP: unit vectors of images and texts in a joint space, trained on each pair by itself.

The task, searching, matching and classifying images by texts, is `zoo.tasks.matching.Matcher`.
"""

import keras
from keras import ops

from zoo.metrics.sigmoid import SigmoidLoss
from zoo.models.siglip_towers import SiglipConfig, SiglipImageTower, SiglipTextTower
from zoo.models.two_towers import TwoTowers


@keras.saving.register_keras_serializable(package="zoo")
class Siglip(TwoTowers):
    """Two towers, one of images and one of texts, and the logits of pairs of their outputs.

    $$ S_{ij} = e^t \\frac{f(image_i) \\cdot g(text_j)}{|f(image_i)| |g(text_j)|} + b $$

    The scale e^t and the bias b are learned. The probability that image i and text j belong
    together is the sigmoid of their logit, whatever other images and texts there are.

    Paper: Zhai et al. 2023, Sigmoid Loss for Language Image Pre-Training
    (https://arxiv.org/abs/2303.15343).

    Args:
        vocabulary_size: Number of tokens.
        **options: The other fields of `SiglipConfig`.

    Call arguments:
        inputs: Dictionary of `images`, float `(images, rows, columns, channels)`, and `token_ids`,
            int32 `(texts, max_length)`, padded, as `Matcher` prepares them.

    Output shape:
        Float32 `(images, texts)`: the logits S.

    Example:

    >>> tower = {"num_layers": 1, "size": 8, "num_heads": 2, "hidden": 16}
    >>> core = Siglip(50, positions=4, patch_size=2, max_length=4, text=tower, image=tower)
    >>> token_ids = np.array([[7, 9, 2, 0], [8, 2, 0, 0], [2, 0, 0, 0]])
    >>> logits = core({"images": np.ones((2, 4, 4, 3)), "token_ids": token_ids})
    >>> tuple(logits.shape)
    (2, 3)
    >>> ops.norm(core.embed_texts(token_ids), axis=-1).numpy().round(3).tolist()
    [1.0, 1.0, 1.0]
    """

    Config = SiglipConfig
    architecture = "siglip"
    description = "Joint embedding of images and texts by a sigmoid loss (Zhai et al. 2023)"
    has_start = False  # texts only end with a special token
    is_padded = True  # texts are as long as `max_length`, and padding counts as a token

    def __init__(self, vocabulary_size, **options):
        super().__init__(vocabulary_size=vocabulary_size, **options)
        config, dtype = self.config, self.dtype_policy
        self.text_tower = SiglipTextTower(config, dtype=dtype, name="text_tower")
        self.image_tower = SiglipImageTower(config, dtype=dtype, name="image_tower")
        self.text_projection = keras.layers.Dense(
            config.embedding_size, dtype=dtype, name="text_projection"
        )
        self.image_projection = keras.layers.Identity(dtype=dtype, name="image_projection")

    def build(self, inputs_shape=None):
        super().build()
        self.bias = self.add_scalar("bias", self.config.bias)

    def logits(self, cosines):
        """Returns the logits of cosines `(images, texts)`."""
        return self.scale() * cosines + ops.cast(self.bias, "float32")

    def probabilities(self, cosines):
        """Returns for cosines `(images, texts)` the probability of each pair, by itself."""
        return ops.sigmoid(self.logits(cosines))

    def usual_loss(self):
        """Returns the `zoo.metrics.SigmoidLoss`."""
        return SigmoidLoss()

    def settings_of_logits(self):
        """Returns a dictionary of the numbers that turn cosines into logits."""
        return {"logit_scale": float(self.scale()), "logit_bias": float(self.bias)}
