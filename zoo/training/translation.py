"""Training of translation models."""

import dataclasses
import pathlib
from typing import ClassVar

import keras

from zoo.data.pairs import all_pairs, draw_pairs, with_targets
from zoo.decoding import BeamSampler
from zoo.loading import build, load
from zoo.losses import TokenCrossentropy
from zoo.tasks.source_to_target import SHORTEST_LIMIT
from zoo.training import runs
from zoo.training.bleu import ValidationBleu
from zoo.training.distillation import with_soft_labels
from zoo.training.evaluation import best_sampler, evaluate_translator, translator_quality
from zoo.training.lessons import with_translations
from zoo.training.self_critical import PolicyGradientLoss, self_critical_translations
from zoo.training.translation_data import DATA

LESSONS = "lessons.jsonl"
SOURCES_THAT_EARN = 48  # a batch of self-critical training


@dataclasses.dataclass(frozen=True)
class TranslationRecipe:
    """Training of a translation model.

    Attributes:
        architecture: Name of the architecture.
        data: What it learns from, a key of `translation_data.DATA`.
        pair: Languages, source first.
        overrides: Arguments of the model that differ from the architecture's own.
        begin_with: Name of a trained model that provides the initial weights and the tokenizer, or
            `""`.
        teacher: Name of a trained model that it learns from and whose tokenizer it shares, or `""`:
            each source gets a translation by the teacher as an additional target.
        teacher_share: Weight of the teacher's predictions in the labels, from 0 to 1, see
            `zoo.training.distillation`.
        vocabulary_size: Tokens of the vocabulary that both languages share.
        epochs, batch_size: As for `fit`.
        examples_per_epoch: How many examples an epoch draws; 0 for all.
        optimizer: `"adam"`, or `"muon"` for the matrices between the embeddings.
        learning_rate: Start of the cosine schedule, after `warmup_steps`.
        cycles: Number of times that it falls to 1% of that; each cycle starts 20% lower.
        label_smoothing, subword_dropout: As for `TokenCrossentropy` and `Translator.batches`.
        average_momentum: Momentum of the moving average of the weights, which is kept.
        self_critical_epochs: Number of additional epochs, which learn from the BLEU of sampled
            translations, see `self_critical_translations`.
        self_critical_examples_per_epoch: How many examples each of these draws; 0 for all.
        self_critical_learning_rate: Start of the cosine schedule of these epochs.
        dtype: Dtype policy of the training.
        num_beams: Number of beams that the trained model translates with.
        length_penalties: Candidates; the one that does best on the validation pairs is used.
        seed: Seed of everything random.
    """

    architecture: str
    data: str = "multi30k"
    pair: str = "en-de"
    overrides: dict = dataclasses.field(default_factory=dict)
    begin_with: str = ""
    teacher: str = ""
    teacher_share: float = 0.0
    vocabulary_size: int = 5000
    epochs: int = 28
    batch_size: int = 80
    examples_per_epoch: int = 0
    optimizer: str = "adam"
    learning_rate: float = 1.3e-3
    cycles: int = 2
    warmup_steps: int = 300
    label_smoothing: float = 0.1
    subword_dropout: float = 0.05
    average_momentum: float = 0.998
    self_critical_epochs: int = 0
    self_critical_examples_per_epoch: int = 0
    self_critical_learning_rate: float = 5e-5
    dtype: str = "mixed_bfloat16"
    num_beams: int = 5
    length_penalties: tuple = (0.6, 1.0, 1.4, 1.8, 2.2)
    seed: int = 1

    splits: ClassVar = ("train", "validation")

    def __post_init__(self):
        if not 0.0 <= self.teacher_share <= 1.0 or (self.teacher_share and not self.teacher):
            raise ValueError(
                "`teacher_share` must be from 0 to 1, and 0 without a `teacher`. Received: "
                f"teacher_share={self.teacher_share} of teacher={self.teacher!r}."
            )
        if self.teacher and self.begin_with:
            raise ValueError(
                "A recipe has a `teacher`, whose tokenizer the model shares, or weights to "
                f"`begin_with`, which bring another one. Received: teacher={self.teacher!r}, "
                f"begin_with={self.begin_with!r}."
            )

    @property
    def measured_splits(self):
        return DATA[self.data].measured_splits

    @property
    def test_splits(self):
        return DATA[self.data].test_splits

    def load(self, split, data_dir=None):
        """Returns a split, downloaded or from the folder with the raw files.

        Its elements are pairs, or sources with a vector of targets.
        """
        return DATA[self.data].load(split, self.pair, data_dir)

    def train(self, train, validation, run_dir):
        """Trains a model; started again after a crash, it resumes after the last finished epoch.

        Args:
            train, validation: Data sets of pairs, or of sources with a vector of targets.
            run_dir: Folder for checkpoints, the tokenizer, TensorBoard logs and `history.csv`.

        Returns:
            The trained `Translator` in float32, with the averaged weights of the epoch that had
            the best BLEU on the validation data, the length penalty that does best there, and the
            longest source of the training data as its `max_source_length`.
        """
        run_dir = pathlib.Path(run_dir)
        run_dir.mkdir(parents=True, exist_ok=True)
        keras.utils.set_random_seed(self.seed)
        teacher = load(self.teacher) if self.teacher else None
        model = self._begin(train, run_dir, teacher)
        tokenizer = model.tokenizer
        pairs = with_targets(train)
        lessons = with_translations(train, teacher, run_dir / LESSONS) if teacher else pairs
        self._learn_pairs(model, lessons, validation, run_dir, teacher)
        best = run_dir / runs.BEST
        if self.self_critical_epochs:
            # Translations are drawn without dropout, so they are learned from without it.
            overrides = {**self.overrides, "dropout": 0.0}
            model = build(self.architecture, tokenizer, self.dtype, **overrides)
            model.load_weights(best)
            self._learn_from_bleu(model, pairs, validation, run_dir / "self_critical")
            best = run_dir / "self_critical" / runs.BEST
        trained = build(self.architecture, tokenizer, "float32", **self.overrides)
        trained.load_weights(best)
        sources = train.map(lambda source, _: source)
        lengths = sources.batch(1024).map(trained.source_lengths)
        longest = max(int(each.max()) for each in lengths.as_numpy_iterator())
        trained.max_source_length = max(SHORTEST_LIMIT, longest)
        samplers = [
            BeamSampler(num_beams=self.num_beams, length_penalty=penalty, exact=False)
            for penalty in self.length_penalties
        ]
        trained.default_sampler = best_sampler(trained, validation, samplers)
        return trained

    def _begin(self, train, run_dir, teacher):
        """Returns the model before its first step."""
        if teacher:
            return build(self.architecture, teacher.tokenizer, self.dtype, **self.overrides)
        if not self.begin_with:
            tokenizer = self._tokenizer(all_pairs(train), run_dir / "tokenizer.json")
            return build(self.architecture, tokenizer, self.dtype, **self.overrides)
        trained = load(self.begin_with)
        model = build(self.architecture, trained.tokenizer, self.dtype, **self.overrides)
        runs.copy_weights(trained, model)
        return model

    def _learn_pairs(self, model, train, validation, run_dir, teacher):
        num_examples = int(train.cardinality())
        examples_per_epoch = self.examples_per_epoch or num_examples
        model.compile(
            optimizer=self.make_optimizer(examples_per_epoch // self.batch_size),
            loss=TokenCrossentropy(self.label_smoothing),
            weighted_metrics=[],  # each would look at all logits once more
        )
        bleu = ValidationBleu(validation)
        done = runs.restore(model, run_dir)
        seed = self.seed + done  # a run that goes on draws anew
        drawn = train.shuffle(num_examples, seed=seed).take(examples_per_epoch)
        batches = model.batches(
            draw_pairs(drawn, seed),
            batch_size=self.batch_size,
            subword_dropout=self.subword_dropout,
            seed=seed,
        )
        if self.teacher_share:
            batches = with_soft_labels(batches, [teacher], [self.teacher_share])
        model.fit(
            batches,
            initial_epoch=done,
            epochs=self.epochs,
            validation_data=all_pairs(validation),
            callbacks=runs.callbacks(run_dir, "val_bleu", "max", [bleu]),
        )

    def _learn_from_bleu(self, model, train, validation, run_dir):
        run_dir.mkdir(exist_ok=True)
        num_examples = int(train.cardinality())
        examples_per_epoch = self.self_critical_examples_per_epoch or num_examples
        steps = -(-examples_per_epoch // SOURCES_THAT_EARN) * self.self_critical_epochs
        model.compile(
            optimizer=runs.self_critical_optimizer(self.self_critical_learning_rate, steps),
            loss=PolicyGradientLoss(model.tokenizer),
            weighted_metrics=[],
        )
        done = runs.restore(model, run_dir)
        seed = self.seed + done
        drawn = train.shuffle(num_examples, seed=seed).take(examples_per_epoch)
        batches = self_critical_translations(
            model, draw_pairs(drawn, seed), batch_size=SOURCES_THAT_EARN, seed=seed
        )
        bleu = ValidationBleu(validation)
        model.fit(
            batches,
            initial_epoch=done,
            epochs=self.self_critical_epochs,
            callbacks=runs.callbacks(run_dir, "val_bleu", "max", [bleu]),
        )

    def evaluate(self, model, examples):
        """Returns every metric of a model on a split."""
        return evaluate_translator(model, examples, self.pair.split("-")[1])

    def quality(self, scores, split, model):
        """Returns the entries of the card for the results of `evaluate`."""
        return translator_quality(scores, split, model.default_sampler)

    def for_card(self):
        """Returns the entries of the card about the data and the choice of the weights."""
        data = DATA[self.data]
        chosen_by = (
            f"sacreBLEU on {data.chosen_by}: the epoch with greedy decoding, the length penalty "
            f"with {self.num_beams} beams"
        )
        return {
            "variant": self.pair,
            "data": data.for_card(self.pair),
            "use": data.use,
            "limits": data.limits,
            "call": data.call,
            "chosen_by": chosen_by,
        }

    def make_optimizer(self, steps_per_epoch):
        steps = self.epochs * steps_per_epoch
        schedule = runs.cosine(self.learning_rate, steps, self.warmup_steps, self.cycles)
        averaging = runs.averaging(self.average_momentum)
        if self.optimizer == "muon":
            return keras.optimizers.Muon(
                schedule, adam_beta_2=0.98, weight_decay=0.05, adam_weight_decay=0.0, **averaging
            )
        return keras.optimizers.Adam(schedule, beta_2=0.98, **averaging)

    def _tokenizer(self, pairs, path):
        """Returns the vocabulary that both languages share."""
        sentences = (text.decode() for pair in pairs.as_numpy_iterator() for text in pair)
        return runs.tokenizer(path, sentences, self.vocabulary_size)
