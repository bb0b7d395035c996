"""Training of language models on the characters of tiny Shakespeare."""

import dataclasses
import functools
import pathlib
from typing import ClassVar

import keras

from zoo.learning.job import LEARNED, Job, learned
from zoo.loading import build
from zoo.readers.text import ByteBPETokenizer
from zoo.training import runs
from zoo.training.calibration import best_output_scale
from zoo.training.distillation import with_swapped_words
from zoo.training.evaluation import evaluate_language_model, language_model_quality

USE = (
    "Teaching, demonstrations and tests of language models: text in the style of Shakespeare's "
    "plays."
)
LIMITS = (
    "Trained on the characters of one megabyte of Shakespeare, with a context of 256 characters: "
    "the words and the verse are right, the meaning is not. It knows no other style or language, "
    "and no facts."
)


@dataclasses.dataclass(frozen=True)
class LanguageRecipe:
    """Training of a language model of the characters of tiny Shakespeare.

    Attributes:
        architecture: Name of the architecture.
        overrides: Arguments of the model that differ from the defaults of the architecture.
        opening: As for `TextGenerator`.
        epochs, batch_size: As for `TextGenerator.fit`.
        optimizer: `"adamw"`, or `"muon"` for the matrices between the embeddings.
        learning_rate: Peak of the cosine schedule, after `warmup_steps`.
        weight_decay: Weight decay of all matrices.
        average_momentum: Momentum of the moving average of the weights, which is saved.
        dtype: Dtype policy of the computation in training.
        seed: Seed of everything random.
        teachers: Arguments of the recipes of models that are trained first. The model then starts
            with the weights of the first one and learns from all, see
            `zoo.learning.learner.Learner`.
        teacher_share: Share of the teachers' mean predictions in the labels, 0 to 1.
        swapped_words: Half of each batch are windows of the text with this share of the words
            swapped, whose labels only come from the teachers.
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
    teacher_share: float = 0.8
    swapped_words: float = 0.25

    splits: ClassVar = ("train", "validation")
    measured_splits: ClassVar = ("validation", "test", "validation+test")
    test_splits: ClassVar = ("validation+test",)

    def __post_init__(self):
        if not 0.0 <= self.teacher_share <= 1.0:
            raise ValueError(
                f"`teacher_share` must be from 0 to 1. Received: {self.teacher_share}."
            )

    def load(self, split, data_dir=None):
        """Returns the text of a split, downloaded or from the folder where TFDS has prepared it."""
        from zoo.data.tiny_shakespeare import load_tiny_shakespeare

        return load_tiny_shakespeare(split, data_dir)

    def train(self, train_text, validation_text, run_dir):
        """Trains a model; restarted after a crash, it resumes after the last finished epoch.

        Args:
            train_text, validation_text: Two `str`; the latter only chooses the factor of the
                logits, see `zoo.training.calibration.best_output_scale`.
            run_dir: Folder of the run. What is learned is in `learning` and, for each teacher, in
                `teacher_1` and so on, see `zoo.learning`.

        Returns:
            The trained `TextGenerator` in float32, with the averaged weights of the last epoch.
        """
        run_dir = pathlib.Path(run_dir)

        def make():
            for number, teacher in enumerate(self._teachers(), start=1):
                folder = run_dir / f"teacher_{number}"
                learned(folder, functools.partial(teacher.make_job, train_text))
            return self.make_job(train_text)

        weights = learned(run_dir / "learning", make)
        trained = self._build("float32")
        trained.core.load_weights(weights)
        scale = best_output_scale(trained, validation_text)
        calibrated = self._build("float32", output_scale=scale)
        calibrated.core.load_weights(weights)
        return calibrated

    def make_job(self, text):
        """Returns the `zoo.learning.job.Job` of a run, and its arrays."""
        model = self._build("float32")
        arrays = {"tokens": model.tokens(text).astype("uint16")}
        if self.teachers:
            swapped = with_swapped_words(text, self.swapped_words, self.seed)
            arrays["unlabelled"] = model.tokens(swapped).astype("uint16")
        length = model.core.context_length
        steps = max(1, round(len(arrays["tokens"]) / (self.batch_size * length)))
        job = Job(
            self.architecture,
            model.core.get_config(),
            "windows",
            {"batch_size": self.batch_size, "context_length": length},
            keras.optimizers.serialize(self.make_optimizer(steps)),
            self.epochs,
            teachers=[
                teacher.as_teacher(f"teacher_{number}")
                for number, teacher in enumerate(self._teachers(), start=1)
            ],
            teacher_share=self.teacher_share,
            begin_with=f"../teacher_1/{LEARNED}" if self.teachers else "",
            dtype=self.dtype,
            seed=self.seed,
        )
        return job, arrays

    def as_teacher(self, name):
        """Returns the description of this recipe's model in the job of a student.

        Args:
            name: Folder of its job, next to that of the student.
        """
        config = self._build("float32").core.get_config()
        weights = f"../{name}/{LEARNED}"
        return {"architecture": self.architecture, "config": config, "weights": weights}

    def _teachers(self):
        return [LanguageRecipe(**each) for each in self.teachers]

    def evaluate(self, model, text):
        """Returns every metric of a model on a text."""
        return evaluate_language_model(model, text)

    def quality(self, scores, split, model):
        """Returns the entries of the card for the results of `evaluate`."""
        return language_model_quality(scores, split, model.core.context_length)

    def for_card(self):
        """Returns the entries of the card on the data, and on how the weights were chosen."""
        data = {
            "name": "tiny Shakespeare",
            "language": "en",
            "source": "https://github.com/karpathy/char-rnn (TFDS tiny_shakespeare 1.0.0: 90 % "
            "train, 5% validation, 5% test)",
            "terms": "public domain",
            "citation": "Karpathy 2015, The Unreasonable Effectiveness of Recurrent Neural Networks"
            " (https://karpathy.github.io/2015/05/21/rnn-effectiveness/)",
        }
        chosen_by = "the last epoch is kept; output_scale has the lowest loss on validation"
        return {
            "variant": "character-level",
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
            **runs.averaging(self.average_momentum),
        }
        if self.optimizer == "muon":
            return keras.optimizers.Muon(
                schedule, adam_beta_2=0.99, adam_weight_decay=self.weight_decay, **common
            )
        return keras.optimizers.AdamW(schedule, beta_2=0.99, **common)

    def _build(self, dtype, **options):
        tokenizer = ByteBPETokenizer([], prefix_space=False)
        options |= self.overrides
        return build(self.architecture, tokenizer, dtype, opening=self.opening, **options)
