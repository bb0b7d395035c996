"""Training of translation models on Multi30k."""

import dataclasses
import pathlib
from typing import ClassVar

import keras

from zoo.catalog import build
from zoo.decoding import BeamSampler
from zoo.metrics.crossentropy import TokenCrossentropy
from zoo.tasks.translation import SHORTEST_LIMIT
from zoo.training import runs
from zoo.training.bleu import ValidationBleu
from zoo.training.evaluation import best_sampler, evaluate_translator, translator_quality
from zoo.training.self_critical import PolicyGradientLoss, self_critical_translations

SOURCES_THAT_EARN = 48  # a batch of self-critical training
USE = (
    "Teaching, demonstrations and research on attention: descriptions of photographs, one sentence "
    "at a time."
)
LIMITS = (
    "Knows captions of photographs only, one sentence each. Everyday speech, questions, news, and "
    "text in capitals come out wrong."
)


@dataclasses.dataclass(frozen=True)
class TranslationRecipe:
    """Training of a translation model on Multi30k.

    Attributes:
        architecture: Name of the architecture.
        pair: Languages, source first.
        overrides: Arguments of the model that differ from the architecture's own.
        vocabulary_size: Tokens of the vocabulary that both languages share.
        epochs, batch_size: As for `fit`.
        optimizer: `"adam"`, or `"muon"` for the matrices between the embeddings.
        learning_rate: Where the cosine schedule begins, after `warmup_steps`.
        cycles: How many times it falls to 1 % of that; each time it begins 20 % lower.
        label_smoothing, subword_dropout: As for `TokenCrossentropy` and `Translator.batches`.
        average_momentum: Momentum of the moving average of the weights, which is what is kept.
        self_critical_epochs: Passes over the sources afterwards that learn from the BLEU of drawn
            translations, see `self_critical_translations`.
        self_critical_learning_rate: Where the cosine schedule of these begins.
        dtype: Policy of the computation in training.
        num_beams: Beams that the trained model translates with.
        length_penalties: Of these it uses the one that does best on the validation pairs.
        seed: Seed of everything random.
    """

    architecture: str
    pair: str = "en-de"
    overrides: dict = dataclasses.field(default_factory=dict)
    vocabulary_size: int = 5000
    epochs: int = 28
    batch_size: int = 80
    optimizer: str = "adam"
    learning_rate: float = 1.3e-3
    cycles: int = 2
    warmup_steps: int = 300
    label_smoothing: float = 0.1
    subword_dropout: float = 0.05
    average_momentum: float = 0.998
    self_critical_epochs: int = 0
    self_critical_learning_rate: float = 5e-5
    dtype: str = "mixed_bfloat16"
    num_beams: int = 5
    length_penalties: tuple = (0.6, 1.0, 1.4, 1.8, 2.2)
    seed: int = 1

    splits: ClassVar = ("train", "validation")
    measured_splits: ClassVar = ("validation", "test_2016_flickr")

    def load(self, split, data_dir=None):
        """Returns a split as pairs, downloaded or from the folder with the raw files."""
        from zoo.data.multi30k import load_multi30k

        return load_multi30k(self.pair, split, manual_dir=data_dir)

    def train(self, train_pairs, validation_pairs, run_dir):
        """Trains a model; started again after a crash, it goes on with the last finished epoch.

        Args:
            train_pairs, validation_pairs: Data sets of (source, target) strings.
            run_dir: Folder for checkpoints, the tokenizer, TensorBoard logs and `history.csv`.

        Returns:
            The trained `Translator` in float32, with the averaged weights of the epoch that had
            the best BLEU on the validation pairs, the length penalty that does best there, and the
            longest source of the training pairs as its `max_source_length`.
        """
        run_dir = pathlib.Path(run_dir)
        run_dir.mkdir(parents=True, exist_ok=True)
        keras.utils.set_random_seed(self.seed)
        tokenizer = self._tokenizer(train_pairs, run_dir / "tokenizer.json")
        model = build(self.architecture, tokenizer, self.dtype, **self.overrides)
        self._learn_pairs(model, train_pairs, validation_pairs, run_dir)
        best = run_dir / runs.BEST
        if self.self_critical_epochs:
            # Translations are drawn without dropout, so they are learned from without it.
            overrides = {**self.overrides, "dropout": 0.0}
            model = build(self.architecture, tokenizer, self.dtype, **overrides)
            model.load_weights(best)
            self._learn_from_bleu(model, train_pairs, validation_pairs, run_dir / "self_critical")
            best = run_dir / "self_critical" / runs.BEST
        trained = build(self.architecture, tokenizer, "float32", **self.overrides)
        trained.load_weights(best)
        lengths = train_pairs.batch(1024).map(lambda source, _: trained.source_lengths(source))
        longest = max(int(each.max()) for each in lengths.as_numpy_iterator())
        trained.max_source_length = max(SHORTEST_LIMIT, longest)
        samplers = [
            BeamSampler(num_beams=self.num_beams, length_penalty=penalty, exact=False)
            for penalty in self.length_penalties
        ]
        trained.default_sampler = best_sampler(trained, validation_pairs, samplers)
        return trained

    def _learn_pairs(self, model, train_pairs, validation_pairs, run_dir):
        num_pairs = int(train_pairs.cardinality())
        model.compile(
            optimizer=self.make_optimizer(num_pairs // self.batch_size),
            loss=TokenCrossentropy(self.label_smoothing),
            weighted_metrics=[],  # each would look at all logits once more
        )
        bleu = ValidationBleu(validation_pairs)
        done = runs.restore(model, run_dir)
        seed = self.seed + done  # a run that goes on draws anew
        model.fit(
            train_pairs.shuffle(num_pairs, seed=seed),
            batch_size=self.batch_size,
            subword_dropout=self.subword_dropout,
            seed=seed,
            initial_epoch=done,
            epochs=self.epochs,
            validation_data=validation_pairs,
            callbacks=runs.callbacks(run_dir, "val_bleu", "max", [bleu]),
        )

    def _learn_from_bleu(self, model, train_pairs, validation_pairs, run_dir):
        run_dir.mkdir(exist_ok=True)
        steps = -(-int(train_pairs.cardinality()) // SOURCES_THAT_EARN) * self.self_critical_epochs
        model.compile(
            optimizer=runs.self_critical_optimizer(self.self_critical_learning_rate, steps),
            loss=PolicyGradientLoss(model.tokenizer),
            weighted_metrics=[],
        )
        done = runs.restore(model, run_dir)
        batches = self_critical_translations(
            model, train_pairs, batch_size=SOURCES_THAT_EARN, seed=self.seed + done
        )
        bleu = ValidationBleu(validation_pairs)
        model.fit(
            batches,
            initial_epoch=done,
            epochs=self.self_critical_epochs,
            callbacks=runs.callbacks(run_dir, "val_bleu", "max", [bleu]),
        )

    def evaluate(self, model, pairs):
        """Returns every metric of a model on pairs."""
        return evaluate_translator(model, pairs, self.pair.split("-")[1])

    def quality(self, scores, split, model):
        """Returns what the card says of the results of `evaluate`."""
        return translator_quality(scores, split, model.default_sampler)

    def for_card(self):
        """Returns what the card says of the data, and how the weights were chosen."""
        data = {
            "name": f"Multi30k {self.pair}",
            "pair": self.pair,
            "source": "https://github.com/multi30k/dataset (task 1, train)",
            "terms": "research use (its captions come from Flickr30k, which is for non-commercial "
            "research and education)",
            "citation": "Elliott et al. 2016, Multi30K: Multilingual English-German Image "
            "Descriptions (https://aclanthology.org/W16-3210)",
        }
        chosen_by = (
            "sacreBLEU of the validation split: the epoch by greedy translations, the length "
            f"penalty by those with {self.num_beams} beams"
        )
        return {
            "variant": self.pair,
            "data": data,
            "use": USE,
            "limits": LIMITS,
            "call": 'translate("A man rides a bike.")',
            "chosen_by": chosen_by,
        }

    def make_optimizer(self, steps_per_epoch):
        steps = self.epochs * steps_per_epoch
        schedule = runs.cosine(self.learning_rate, steps, self.warmup_steps, self.cycles)
        common = {
            "global_clipnorm": 1.0,
            "use_ema": True,
            "ema_momentum": self.average_momentum,
            "ema_overwrite_frequency": None,
        }
        if self.optimizer == "muon":
            return keras.optimizers.Muon(
                schedule, adam_beta_2=0.98, weight_decay=0.05, adam_weight_decay=0.0, **common
            )
        return keras.optimizers.Adam(schedule, beta_2=0.98, **common)

    def _tokenizer(self, pairs, path):
        """Returns the vocabulary that both languages share."""
        sentences = (text.decode() for pair in pairs.as_numpy_iterator() for text in pair)
        return runs.tokenizer(path, sentences, self.vocabulary_size)
