"""Training of joint embedding models of pictures and texts on Flickr8k."""

import dataclasses
import pathlib
from typing import ClassVar

import keras
import tensorflow as tf

from zoo.data.captions import plain
from zoo.data.features import cache_features, load_features
from zoo.loading import build
from zoo.metrics.contrastive import ContrastiveLoss
from zoo.models.backbone import Backbone
from zoo.training import runs
from zoo.training.correlations import start_from_correlations
from zoo.training.evaluation import evaluate_matcher, matcher_quality, matcher_scores

USE = (
    "Teaching, demonstrations and research: finding photographs of people or animals in everyday "
    "scenes that match an English sentence, and the sentence that matches a photograph."
)
LIMITS = (
    "Trained only on 6,000 photographs, mostly of people, children and dogs outdoors, and their "
    "captions: it knows no other words, no names and no text in images, and it counts poorly. "
    "Labels work best when phrased like the captions. It guesses age and sex: no decision about "
    "people should be based on it, and it must not be used to identify anyone."
)


class ValidationRecalls(keras.callbacks.Callback):
    """Searches among validation images after an epoch: logs `val_recall` and the recalls at 1.

    `val_recall` is the mean of the recalls at 1, 5 and 10 in both directions. It also logs
    `epochs`, by which the last epoch is the best: evaluation images are not used for model
    selection.

    Args:
        features: Data set of `annotations` and `captions`, as returned by
            `zoo.data.features.load_features`.
    """

    def __init__(self, features):
        super().__init__()
        self.features = features.cache()

    def on_epoch_end(self, epoch, logs=None):
        scores = matcher_scores(self.model, self.features)
        if logs is not None:
            recalls = [*scores.image_to_text.values(), *scores.text_to_image.values()]
            logs["val_recall"] = sum(recalls) / len(recalls)
            logs["epochs"] = epoch + 1
            logs["val_image_to_text_1"] = scores.image_to_text[1]
            logs["val_text_to_image_1"] = scores.text_to_image[1]


@dataclasses.dataclass(frozen=True)
class MatchingRecipe:
    """Training of a model of pictures and captions on Flickr8k.

    It starts from the directions in which pictures and words correlate, see
    `zoo.training.correlations`, and every batch has all captions of its pictures. A tail starts
    with the weights of the backbone.

    Attributes:
        architecture: Name of the architecture.
        overrides: Arguments of the model that differ from the defaults of the architecture.
        backbone: Arguments of `zoo.Backbone` that differ from its own.
        views: Number of views of the training images, a different one in each epoch: the whole,
            mirrored, cropped.
        vocabulary_size: Number of tokens in the vocabulary.
        epochs, batch_size: As for `Matcher.fit`.
        learning_rate: Peak of the cosine schedule, after `warmup_steps`.
        weight_decay: Weight decay of all matrices except those of a tail.
        average_momentum: Momentum of the moving average of the weights, which is saved.
        dtype: Dtype policy of the computation in training.
        seed: Seed of everything random.
    """

    architecture: str
    overrides: dict = dataclasses.field(default_factory=dict)
    backbone: dict = dataclasses.field(default_factory=dict)
    views: int = 2
    vocabulary_size: int = 5000
    epochs: int = 15
    batch_size: int = 500
    learning_rate: float = 1e-3
    warmup_steps: int = 20
    weight_decay: float = 1.0
    average_momentum: float = 0.95
    dtype: str = "mixed_bfloat16"
    seed: int = 1

    splits: ClassVar = ("train", "validation")
    measured_splits: ClassVar = ("validation",)
    test_splits: ClassVar = ("validation",)

    def load(self, split, data_dir=None):
        """Returns a split of images and captions, from the folder with the original archives."""
        from zoo.data.flickr8k import load_flickr8k

        return load_flickr8k(split, manual_dir=data_dir)

    def train(self, train_images, validation_images, run_dir):
        """Trains a model; restarted after a crash, it resumes after the last finished epoch.

        Args:
            train_images, validation_images: Data sets of `image`, `captions` and `name`.
            run_dir: Folder for the features of the images, checkpoints, the tokenizer, TensorBoard
                logs and `history.csv`.

        Returns:
            The trained `Matcher` in float32, with the averaged weights of the last epoch.
        """
        run_dir = pathlib.Path(run_dir)
        run_dir.mkdir(parents=True, exist_ok=True)
        keras.utils.set_random_seed(self.seed)
        tokenizer = self._tokenizer(train_images, run_dir / "tokenizer.json")
        model = self._build(tokenizer, self.dtype)
        train, validation = run_dir / "features" / "train", run_dir / "features" / "validation"
        cache_features(model.backbone, train_images, train, views=self.views)
        cache_features(model.backbone, validation_images, validation)
        validation = load_features(validation)
        model.compile(
            optimizer=self.make_optimizer(
                -(-int(train_images.cardinality()) // self.batch_size), _tail_variables(model)
            ),
            loss=ContrastiveLoss(),
        )
        done = runs.restore(model, run_dir)
        if not done:
            if model.core.config.tail:
                model.core.image_tower.tail.start_from(model.backbone.weights_source)
            start_from_correlations(
                model, [load_features(train, view) for view in range(self.views)]
            )
        seed = self.seed + done  # a run that goes on draws anew
        model.fit(
            self._epochs(train),
            batch_size=self.batch_size,
            seed=seed,
            initial_epoch=done,
            epochs=self.epochs,
            verbose=2,
            callbacks=runs.callbacks(run_dir, "epochs", "max", [ValidationRecalls(validation)]),
        )
        trained = self._build(tokenizer, "float32")
        trained.load_weights(run_dir / runs.BEST)
        return trained

    def _epochs(self, folder):
        """Returns the images in one of their views, a different one in each pass."""
        views = [load_features(folder, view) for view in range(self.views)]
        count = views[0].cardinality()
        numbers = tf.data.Dataset.random(seed=self.seed, rerandomize_each_iteration=True).take(1)
        choices = numbers.flat_map(
            lambda number: tf.data.Dataset.from_tensors(number % self.views).repeat(count)
        )
        return tf.data.Dataset.choose_from_datasets(views, choices)

    def evaluate(self, model, images):
        """Returns every metric of a model on a data set of `image` and `captions`."""
        return evaluate_matcher(model, images)

    def quality(self, scores, split, model):
        """Returns the entries of the card for the results of `evaluate`."""
        return matcher_quality(scores, split)

    def for_card(self):
        """Returns the entries of the card on the data, and on how the weights were chosen."""
        data = {
            "name": "Flickr8k",
            "source": "Flickr8k_Dataset and Flickr8k_text, 6,000 training and 1,000 validation "
            "images with five captions each",
            "terms": "non-commercial research; the photographs belong to the photographers",
            "citation": "Hodosh, Young and Hockenmaier 2013, Framing Image Description as a Ranking"
            " Task (https://doi.org/10.1613/jair.3994)",
        }
        return {
            "variant": "English",
            "data": data,
            "use": USE,
            "limits": LIMITS,
            "call": 'search("a dog jumps over a fence", "photographs")',
            "chosen_by": "the last epoch is kept",
        }

    def make_optimizer(self, steps_per_epoch, tail=()):
        optimizer = keras.optimizers.AdamW(
            runs.cosine(self.learning_rate, self.epochs * steps_per_epoch, self.warmup_steps),
            weight_decay=self.weight_decay,
            beta_2=0.98,
            **runs.averaging(self.average_momentum),
        )
        names = ["gamma", "beta", "bias", "log_scale"]
        optimizer.exclude_from_weight_decay(var_list=list(tail), var_names=names)
        return optimizer

    def _build(self, tokenizer, dtype):
        backbone = Backbone(**self.backbone)
        positions = backbone.grid[0] * backbone.grid[1]
        overrides = {"channels": backbone.channels, "positions": positions, **self.overrides}
        return build(self.architecture, tokenizer, dtype, backbone=backbone, **overrides)

    def _tokenizer(self, images, path):
        captions = images.map(lambda example: plain(example["captions"])).as_numpy_iterator()
        texts = (caption.decode() for each in captions for caption in each)
        return runs.tokenizer(path, texts, self.vocabulary_size)


def _tail_variables(model):
    core = model.core
    return core.image_tower.tail.trainable_variables if core.config.tail else []
