"""Training of language models on the characters of tiny Shakespeare."""

import dataclasses
import functools
import pathlib
from typing import ClassVar

import keras

from zoo.data.windows import random_windows
from zoo.loading import build
from zoo.losses import TokenCrossentropy
from zoo.readers.text import ByteBPETokenizer
from zoo.training import runs
from zoo.training.distillation import side_by_side, with_soft_labels, with_swapped_words
from zoo.training.evaluation import evaluate_language_model, language_model_quality

USE = (
    "Teaching, demonstrations and tests of language models: text in the manner of Shakespeare's "
    "plays."
)
LIMITS = (
    "Knows one megabyte of Shakespeare, character by character, and looks back 256 characters: "
    "the words and the verse are right, the sense is not. It knows no other style, language or "
    "fact."
)


@dataclasses.dataclass(frozen=True)
class LanguageRecipe:
    """Training of a language model of the characters of tiny Shakespeare.

    Attributes:
        architecture: Name of the architecture.
        overrides: Arguments of the model that differ from the architecture's own.
        opening: As for `TextGenerator`.
        epochs, batch_size: As for `TextGenerator.fit`.
        optimizer: `"adamw"`, or `"muon"` for the matrices between the embeddings.
        learning_rate: Where the cosine schedule begins, after `warmup_steps`.
        weight_decay: Decay of all matrices.
        average_momentum: Momentum of the moving average of the weights, which is what is kept.
        dtype: Policy of the computation in training.
        seed: Seed of everything random.
        teachers: Arguments of the recipes of models that are trained before. The model then begins
            with the weights of the first of them and learns from all, see
            `zoo.training.distillation`.
        teacher_shares: Share of each teacher in the labels, together above 0 and at most 1; the
            rest is what the text says.
        swapped_words: Half of each batch are windows of the text with this share of the words
            swapped, where the labels are those of the teachers alone.
    """

    architecture: str
    overrides: dict = dataclasses.field(default_factory=dict)
    opening: str = "\n"
    epochs: int = 30
    batch_size: int = 32
    optimizer: str = "adamw"
    learning_rate: float = 1.5e-3
    warmup_steps: int = 100
    weight_decay: float = 0.1
    average_momentum: float = 0.995
    dtype: str = "mixed_bfloat16"
    seed: int = 1
    teachers: list = dataclasses.field(default_factory=list)
    teacher_shares: list = dataclasses.field(default_factory=list)
    swapped_words: float = 0.25

    splits: ClassVar = ("train", "validation")
    measured_splits: ClassVar = ("validation", "test", "validation+test")
    test_splits: ClassVar = ("validation+test",)

    def __post_init__(self):
        shares = self.teacher_shares
        if len(shares) != len(self.teachers) or (shares and not 0.0 < sum(shares) <= 1.0 + 1e-6):
            raise ValueError(
                "`teacher_shares` must hold a share for each of `teachers`, together above 0 and at"
                f" most 1. Received: teacher_shares={shares} for {len(self.teachers)} teachers."
            )

    def load(self, split, data_dir=None):
        """Returns the text of a split, downloaded or from the folder where TFDS has prepared it."""
        from zoo.data.tiny_shakespeare import load_tiny_shakespeare

        return load_tiny_shakespeare(split, data_dir)

    def train(self, train_text, validation_text, run_dir):
        """Trains a model; started again after a crash, it goes on with the last finished epoch.

        Args:
            train_text, validation_text: Two `str`.
            run_dir: Folder for checkpoints, TensorBoard logs and `history.csv`, and for the same of
                each teacher, `teacher_1` and so on.

        Returns:
            The trained `TextGenerator` in float32, with the averaged weights of the epoch that had
            the lowest loss on the validation text.
        """
        run_dir = pathlib.Path(run_dir)
        run_dir.mkdir(parents=True, exist_ok=True)
        teachers = [
            LanguageRecipe(**each).train(train_text, validation_text, run_dir / f"teacher_{number}")
            for number, each in enumerate(self.teachers, start=1)
        ]
        keras.utils.set_random_seed(self.seed)
        model = self._build(self.dtype)
        if teachers:
            model.set_weights(teachers[0].get_weights())
        windows = functools.partial(self._windows, model, train_text, teachers)
        model.compile(
            optimizer=self.make_optimizer(int(windows(self.seed).cardinality())),
            loss=TokenCrossentropy(),
            weighted_metrics=[],
        )
        done = runs.restore(model, run_dir)
        model.fit(
            windows(self.seed + done),  # a run that goes on draws anew
            initial_epoch=done,
            epochs=self.epochs,
            validation_data=validation_text,
            batch_size=self.batch_size,
            callbacks=runs.callbacks(run_dir, "val_loss", "min"),
        )
        trained = self._build("float32")
        trained.load_weights(run_dir / runs.BEST)
        return trained

    def _windows(self, model, text, teachers, seed):
        """Returns batches of windows of a text: those of one epoch."""
        length, stream = model.core.context_length, model.tokens(text)
        if not teachers:
            return random_windows(stream, length, self.batch_size, seed)
        swapped = with_swapped_words(text, self.swapped_words, self.seed)
        alone = [share / sum(self.teacher_shares) for share in self.teacher_shares]
        lessons = []
        for part, shares in ((stream, self.teacher_shares), (model.tokens(swapped), alone)):
            seed += 1  # other places of the one text than of the other
            windows = random_windows(part, length, self.batch_size // 2, seed)
            lessons.append(with_soft_labels(windows, teachers, shares))
        return side_by_side(*lessons)

    def evaluate(self, model, text):
        """Returns every metric of a model on a text."""
        return evaluate_language_model(model, text)

    def quality(self, scores, split, model):
        """Returns what the card says of the results of `evaluate`."""
        return language_model_quality(scores, split, model.core.context_length)

    def for_card(self):
        """Returns what the card says of the data, and how the weights were chosen."""
        data = {
            "name": "tiny Shakespeare",
            "language": "en",
            "source": "https://github.com/karpathy/char-rnn (TFDS tiny_shakespeare 1.0.0: 90 % "
            "train, 5 % validation, 5 % test)",
            "terms": "public domain",
            "citation": "Karpathy 2015, The Unreasonable Effectiveness of Recurrent Neural Networks"
            " (https://karpathy.github.io/2015/05/21/rnn-effectiveness/)",
        }
        chosen_by = "the lowest loss on the validation split of TFDS, over epochs"
        return {
            "variant": "characters",
            "data": data,
            "use": USE,
            "limits": LIMITS,
            "call": 'generate("ROMEO:", max_length=80)',
            "chosen_by": chosen_by,
        }

    def make_optimizer(self, steps_per_epoch):
        schedule = runs.cosine(self.learning_rate, self.epochs * steps_per_epoch, self.warmup_steps)
        common = {
            "weight_decay": self.weight_decay,
            "global_clipnorm": 1.0,
            "use_ema": True,
            "ema_momentum": self.average_momentum,
            "ema_overwrite_frequency": None,
        }
        if self.optimizer == "muon":
            optimizer = keras.optimizers.Muon(
                schedule, adam_beta_2=0.99, adam_weight_decay=self.weight_decay, **common
            )
        else:
            optimizer = keras.optimizers.AdamW(schedule, beta_2=0.99, **common)
        optimizer.exclude_from_weight_decay(var_names=["gamma", "beta", "bias"])
        return optimizer

    def _build(self, dtype):
        tokenizer = ByteBPETokenizer([], prefix_space=False)
        return build(self.architecture, tokenizer, dtype, opening=self.opening, **self.overrides)
