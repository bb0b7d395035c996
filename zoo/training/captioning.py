"""Training of captioning models on Flickr8k."""

import dataclasses
import functools
import pathlib
from typing import ClassVar

import keras
import numpy as np
import tensorflow as tf

from zoo.data.captions import plain
from zoo.data.features import cache_features, load_features
from zoo.decoding import BeamSampler
from zoo.loading import build, load
from zoo.losses import TokenCrossentropy
from zoo.metrics.caption_rewards import CaptionReward
from zoo.metrics.captions import caption_scores
from zoo.models.backbone import Backbone
from zoo.training import runs
from zoo.training.evaluation import captioner_quality, evaluate_captioner
from zoo.training.self_critical import PolicyGradientLoss, self_critical_captions

SHUFFLED_IMAGES = 1000
IMAGES_THAT_EARN = 16  # a batch of self-critical training


class ValidationCaptions(keras.callbacks.Callback):
    """Describes validation images after an epoch: logs `val_bleu_4`, `val_cider`, `val_reward`.

    Args:
        features: Data set of `annotations` and `captions`, as returned by
            `zoo.data.features.load_features`.
        rewards: Weights of the scores in `val_reward`, the mean of `CaptionReward`.
        sampler: Sampler of the captions; greedy search is fast.
        batch_size: Number of images to process at a time.
    """

    def __init__(self, features, rewards, sampler="greedy", batch_size=64):
        super().__init__()
        self.annotations, self.references = _annotations_and_references(features)
        self.rewards, self.sampler, self.batch_size = rewards, sampler, batch_size

    def on_epoch_end(self, epoch, logs=None):
        captions = self.model.caption_annotations(
            self.annotations, sampler=self.sampler, batch_size=self.batch_size
        )
        scores = caption_scores(captions, self.references, with_meteor=False)
        if logs is not None:
            logs |= {"val_bleu_4": scores.bleu_4, "val_cider": scores.cider}
            logs["val_reward"] = mean_reward(captions, self.references, self.rewards)


USE = (
    "Teaching, demonstrations and research on attention: describing a photograph of people or "
    "animals in an everyday scene in one English sentence."
)
LIMITS = (
    "Trained on 6,000 photographs, mostly of people, children and dogs outdoors, and describes "
    "any image in these terms. It miscounts, mixes up colors, and guesses age and sex. No decision "
    "about people should be based on it."
)


@dataclasses.dataclass(frozen=True)
class CaptioningRecipe:
    """Training of a captioning model on Flickr8k.

    Attributes:
        architecture: Name of the architecture.
        overrides: Arguments of the model that differ from the defaults of the architecture.
        begin_with: Name of a trained model whose weights and tokenizer it begins with, or `""`.
        tail_of: Name of a trained `Matcher` whose tail gives the weights of that in `overrides`, or
            `""` for those of ImageNet.
        backbone: Arguments of `zoo.Backbone` that differ from its own.
        views: Number of views of each training image in an epoch: the whole, mirrored, cropped.
        vocabulary_size: Number of tokens in the vocabulary.
        epochs, batch_size: As for `Captioner.fit`.
        learning_rate: Peak of the cosine schedule, after `warmup_steps`.
        label_smoothing, subword_dropout: As for `TokenCrossentropy` and `Captioner.batches`.
        self_critical_epochs: Passes over the images afterwards, each in any of its views, that
            learn from rewards, see `self_critical_captions`.
        self_critical_learning_rate: Initial value of their cosine schedule.
        self_critical_momentum: Momentum of the moving average of the weights in these.
        rewards: Mixtures of rewards in these, each as `weights` of `CaptionReward`. Starting from
            the same weights, the model learns from each mixture separately, which also selects the
            epoch; the resulting weights are averaged (Ramé et al. 2023, Rewarded soups,
            https://arxiv.org/abs/2306.04488). All else is selected by the mean of the mixtures.
        average_momentum: Momentum of the moving average of the weights, which is saved.
        dtype: Dtype policy of the computation in training.
        num_beams: Number of beams of the trained model.
        length_penalties: Candidates, of which the one with the highest reward on the validation
            images is used. 0 ranks by the sum of a caption's log-probabilities, 1 by the mean.
        seed: Seed of everything random.
    """

    architecture: str
    overrides: dict = dataclasses.field(default_factory=dict)
    begin_with: str = ""
    tail_of: str = ""
    backbone: dict = dataclasses.field(default_factory=dict)
    views: int = 4
    vocabulary_size: int = 3000
    epochs: int = 5
    batch_size: int = 64
    learning_rate: float = 1e-3
    warmup_steps: int = 300
    label_smoothing: float = 0.1
    subword_dropout: float = 0.0
    self_critical_epochs: int = 0
    self_critical_learning_rate: float = 1e-4
    self_critical_momentum: float = 0.99
    rewards: list = dataclasses.field(default_factory=lambda: [{"cider": 1.0}])
    average_momentum: float = 0.999
    dtype: str = "mixed_bfloat16"
    num_beams: int = 5
    length_penalties: tuple = (0.0, 0.25, 0.5, 0.75, 1.0)
    seed: int = 1

    splits: ClassVar = ("train", "validation")
    measured_splits: ClassVar = ("validation",)
    test_splits: ClassVar = ("validation",)

    def __post_init__(self):
        if self.self_critical_epochs and self.overrides.get("attention") == "hard":
            raise ValueError(
                "Self-critical training teaches soft attention: hard attention draws where it looks"
                " while it learns, but describes without drawing. Train a soft model first and name"
                " it as begin_with. Received: attention='hard', self_critical_epochs="
                f"{self.self_critical_epochs}."
            )

    def load(self, split, data_dir=None):
        """Returns a split of images and captions, from the folder with the original archives."""
        from zoo.data.flickr8k import load_flickr8k

        return load_flickr8k(split, manual_dir=data_dir).map(
            lambda example: {**example, "captions": plain(example["captions"])}
        )

    def train(self, train_images, validation_images, run_dir):
        """Trains a model; restarted after a crash, it resumes after the last finished epoch.

        Args:
            train_images, validation_images: Data sets of `image`, `captions` and `name`.
            run_dir: Folder for the features of the images, checkpoints, the tokenizer, TensorBoard
                logs and `history.csv`.

        Returns:
            The trained `Captioner` in float32, with the averaged weights of the epochs with the
            highest reward on the validation images, and the length penalty with the highest
            reward.
        """
        run_dir = pathlib.Path(run_dir)
        run_dir.mkdir(parents=True, exist_ok=True)
        keras.utils.set_random_seed(self.seed)
        model = self._begin(train_images, run_dir)
        train, validation = run_dir / "features" / "train", run_dir / "features" / "validation"
        cache_features(model.backbone, train_images, train, views=self.views)
        cache_features(model.backbone, validation_images, validation)
        views = [load_features(train, view) for view in range(self.views)]
        train = functools.reduce(tf.data.Dataset.concatenate, views)
        validation = load_features(validation)
        self._learn_captions(model, train_images, train, validation, run_dir)
        best = [run_dir / runs.BEST]
        if self.self_critical_epochs:
            folders = [run_dir / f"self_critical_{each + 1}" for each in range(len(self.rewards))]
            for rewards, folder in zip(self.rewards, folders, strict=True):
                # Captions are drawn without dropout, so they are learned from without it.
                model = self._build(model.tokenizer, self.dtype, dropout=0.0, doubly_stochastic=0.0)
                model.load_weights(run_dir / runs.BEST)
                self._learn_from_rewards(model, rewards, views, validation, folder)
            best = [folder / runs.BEST for folder in folders]
        trained = self._build(model.tokenizer, "float32")
        runs.load_mean_weights(trained, best)
        trained.default_sampler = self._best_sampler(trained, validation)
        return trained

    def _begin(self, train_images, run_dir):
        """Returns the model before its first step."""
        if self.begin_with:
            trained = load(self.begin_with)
            model = self._build(trained.tokenizer, self.dtype)
            # Soft and hard attention differ in a baseline alone, which is not trained by gradients.
            runs.copy_weights(trained, model)
            tail = trained.core.tail
        else:
            tokenizer = self._tokenizer(train_images, run_dir / "tokenizer.json")
            model = self._build(tokenizer, self.dtype)
            tail = load(self.tail_of).core.image_tower.tail if self.tail_of else "imagenet"
        if model.core.tail is not None:
            model.core.tail.start_from(tail)
        return model

    def _learn_captions(self, model, images, train, validation, run_dir):
        captions = sum(len(each) for each in images.map(_captions))
        model.compile(
            optimizer=self.make_optimizer(captions * self.views // self.batch_size),
            loss=TokenCrossentropy(self.label_smoothing),
            weighted_metrics=[],
        )
        done = runs.restore(model, run_dir)
        seed = self.seed + done  # a run that goes on draws anew
        model.fit(
            train.shuffle(SHUFFLED_IMAGES, seed=seed),
            batch_size=self.batch_size,
            subword_dropout=self.subword_dropout,
            seed=seed,
            initial_epoch=done,
            epochs=self.epochs,
            validation_data=validation,
            callbacks=_callbacks(run_dir, validation, self._mean_rewards()),
        )

    def _learn_from_rewards(self, model, rewards, views, validation, run_dir):
        run_dir.mkdir(exist_ok=True)
        steps = -(-int(views[0].cardinality()) // IMAGES_THAT_EARN)
        steps *= self.self_critical_epochs
        model.compile(
            optimizer=runs.self_critical_optimizer(
                self.self_critical_learning_rate, steps, self.self_critical_momentum
            ),
            loss=PolicyGradientLoss(model.tokenizer),
            weighted_metrics=[],
        )
        done = runs.restore(model, run_dir)
        seed = self.seed + done
        train = _any_view(views, seed)
        model.fit(
            self_critical_captions(model, train, rewards, batch_size=IMAGES_THAT_EARN, seed=seed),
            initial_epoch=done,
            epochs=self.self_critical_epochs,
            callbacks=_callbacks(run_dir, validation, rewards),
        )

    def _mean_rewards(self):
        names = dict.fromkeys(name for mixture in self.rewards for name in mixture)
        return {
            name: sum(mixture.get(name, 0.0) for mixture in self.rewards) / len(self.rewards)
            for name in names
        }

    def evaluate(self, model, images):
        """Returns every metric of a model on a data set of `image` and `captions`."""
        return evaluate_captioner(model, images)

    def quality(self, scores, split, model):
        """Returns the entries of the card for the results of `evaluate`."""
        return captioner_quality(scores, split, model.default_sampler)

    def for_card(self):
        """Returns the entries of the card on the data, and on how the weights were chosen."""
        data = {
            "name": "Flickr8k",
            "language": "en",
            "source": "Flickr8k_Dataset and Flickr8k_text, 6,000 training and 1,000 validation "
            "images with five captions each",
            "terms": "non-commercial research; the photographs belong to the photographers",
            "citation": "Hodosh, Young and Hockenmaier 2013, Framing Image Description as a Ranking"
            " Task (https://doi.org/10.1613/jair.3994)",
        }
        mixture = " + ".join(f"{weight:g} {name}" for name, weight in self._mean_rewards().items())
        chosen_by = (
            f"reward of captions of the validation split ({mixture}): the epoch with greedy "
            f"decoding, the length penalty with {self.num_beams} beams"
        )
        if len(self.rewards) > 1:
            chosen_by += (
                "; an epoch of self-critical training by the mixture of rewards it was trained on"
            )
        return {
            "variant": "English",
            "data": data,
            "use": USE,
            "limits": LIMITS,
            "call": 'caption("photo.jpg")',
            "chosen_by": chosen_by,
        }

    def make_optimizer(self, steps_per_epoch):
        steps = self.epochs * steps_per_epoch
        return keras.optimizers.Adam(
            runs.cosine(self.learning_rate, steps, self.warmup_steps),
            **runs.averaging(self.average_momentum),
        )

    def _build(self, tokenizer, dtype, **overrides):
        backbone = Backbone(**self.backbone)
        overrides = {"channels": backbone.channels, **self.overrides, **overrides}
        return build(self.architecture, tokenizer, dtype, backbone=backbone, **overrides)

    def _best_sampler(self, model, features):
        annotations, references = _annotations_and_references(features)

        def reward(sampler):
            captions = model.caption_annotations(annotations, sampler)
            return mean_reward(captions, references, self._mean_rewards())

        return max(
            [
                BeamSampler(num_beams=self.num_beams, length_penalty=penalty, exact=False)
                for penalty in self.length_penalties
            ],
            key=reward,
        )

    def _tokenizer(self, images, path):
        captions = images.map(_captions).as_numpy_iterator()
        texts = (caption.decode() for each in captions for caption in each)
        return runs.tokenizer(path, texts, self.vocabulary_size)


def mean_reward(captions, references, rewards):
    """Returns the mean reward of captions.

    Args:
        captions: A list of strings, one for each image.
        references: For each image a list of strings; n-gram frequencies are computed from these.
        rewards: Weights of the scores, as `weights` of `CaptionReward`.

    Example:

    >>> references = [["a dog runs"], ["a cat sleeps", "a cat"]]
    >>> round(mean_reward(["a dog", "a cat"], references, {"bleu_1": 1.0}), 3)
    0.858
    """
    references = [[text.split() for text in texts] for texts in references]
    earned = CaptionReward(references, rewards)([text.split() for text in captions], references)
    return float(earned.mean())


def _callbacks(run_dir, validation, rewards):
    measure = ValidationCaptions(validation, rewards)
    return runs.callbacks(run_dir, "val_reward", "max", [measure])


def _any_view(views, seed):
    """Returns images in one of their views, drawn anew in each epoch."""

    def choose(number, *views):
        annotations = tf.stack([view["annotations"] for view in views])
        return {**views[0], "annotations": annotations[number % len(views)]}

    numbers = tf.data.Dataset.random(seed=seed, rerandomize_each_iteration=True)
    return tf.data.Dataset.zip(numbers, *views).map(choose)


def _captions(example):
    return example["captions"]


def _annotations_and_references(features):
    """Returns an array `(images, positions, channels)` and a list of lists of `str`."""
    examples = list(features.as_numpy_iterator())
    references = [[caption.decode() for caption in each["captions"]] for each in examples]
    return np.stack([each["annotations"] for each in examples]), references
