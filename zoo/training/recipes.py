"""How the shipped models were trained: everything that `python -m zoo train NAME` does."""

import csv
import dataclasses
import pathlib

import keras
import tensorflow as tf

from keras_attention.errors import unknown_name
from zoo import catalog
from zoo.architectures import ARCHITECTURES, build
from zoo.decoding import BeamSampler
from zoo.evaluation import best_sampler, evaluate_translator, for_card
from zoo.text import ByteBPETokenizer
from zoo.training.bleu import ValidationBleu
from zoo.training.losses import TokenCrossentropy
from zoo.training.schedules import WarmUp


@dataclasses.dataclass(frozen=True)
class TranslationRecipe:
    """Training of a translation model on Multi30k.

    Attributes:
        architecture: Name of the architecture.
        pair: Languages, source first.
        overrides: Arguments of the model that differ from the architecture's own.
        vocabulary_size: Tokens of the vocabulary that both languages share.
        epochs, batch_size: As for `fit`.
        learning_rate: Where the cosine schedule begins, after `warmup_steps`.
        cycles: How many times it falls to 1 % of that; each time it begins 20 % lower.
        label_smoothing, subword_dropout: As for `TokenCrossentropy` and `Translator.batches`.
        average_momentum: Momentum of the moving average of the weights, which is what is kept.
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
    learning_rate: float = 1.3e-3
    cycles: int = 2
    warmup_steps: int = 300
    label_smoothing: float = 0.1
    subword_dropout: float = 0.05
    average_momentum: float = 0.998
    dtype: str = "mixed_bfloat16"
    num_beams: int = 5
    length_penalties: tuple = (0.6, 1.0, 1.4, 1.8, 2.2)
    seed: int = 1


_MULTI30K_MODEL = {"decoder_units": 384, "dropout": 0.3}

RECIPES = {
    "bahdanau_nmt_multi30k_en_de": TranslationRecipe("bahdanau_nmt", overrides=_MULTI30K_MODEL),
    "luong_nmt_multi30k_en_de": TranslationRecipe("luong_nmt", overrides=_MULTI30K_MODEL),
}


SPLITS = ("train", "validation")
TEST_SPLIT = "test_2016_flickr"
HISTORY = "history.csv"


def train(recipe, train_pairs, validation_pairs, run_dir):
    """Trains a model; started again after a crash, it goes on with the last finished epoch.

    Args:
        recipe: A `TranslationRecipe`.
        train_pairs, validation_pairs: Data sets of (source, target) strings.
        run_dir: Folder for checkpoints, the tokenizer, TensorBoard logs and `history.csv`.

    Returns:
        The trained `Translator` in float32, with the averaged weights of the epoch that had the
        best BLEU on the validation pairs, and the length penalty that does best there.
    """
    run_dir = pathlib.Path(run_dir)
    run_dir.mkdir(parents=True, exist_ok=True)
    keras.utils.set_random_seed(recipe.seed)
    tokenizer = _tokenizer(recipe, train_pairs, run_dir / "tokenizer.json")
    model = build(recipe.architecture, tokenizer, recipe.dtype, **recipe.overrides)
    num_pairs = int(train_pairs.cardinality())
    model.compile(
        optimizer=_optimizer(recipe, num_pairs // recipe.batch_size),
        loss=TokenCrossentropy(recipe.label_smoothing),
        weighted_metrics=[],  # each would look at all logits once more
    )
    best_path = run_dir / "best.weights.h5"
    seed = recipe.seed + len(_history(run_dir))  # a run that goes on draws anew
    model.fit(
        train_pairs.shuffle(num_pairs, seed=seed),
        batch_size=recipe.batch_size,
        subword_dropout=recipe.subword_dropout,
        seed=seed,
        epochs=recipe.epochs,
        validation_data=validation_pairs,
        callbacks=_callbacks(run_dir, validation_pairs, best_path),
    )
    trained = build(recipe.architecture, tokenizer, "float32", **recipe.overrides)
    trained.load_weights(best_path)
    trained.default_sampler = best_sampler(
        trained,
        validation_pairs,
        [
            BeamSampler(num_beams=recipe.num_beams, length_penalty=penalty, exact=False)
            for penalty in recipe.length_penalties
        ],
    )
    return trained


def run(name, data_dir, run_dir, epochs=None):
    """Does what `python -m zoo train NAME` does: trains, measures, and writes a preset.

    Args:
        name: Name of a recipe.
        data_dir: Folder with the raw files of the data set, or `None` to download them.
        run_dir: Folder for checkpoints and logs; the preset goes to `run_dir / name`.
        epochs: Epochs instead of the recipe's.

    Returns:
        The folder of the preset.

    Raises:
        ValueError: If there is no such recipe, or the preset is there already.
    """
    if name not in RECIPES:
        raise ValueError(unknown_name("recipe", name, RECIPES))
    recipe, folder = RECIPES[name], pathlib.Path(run_dir) / name
    if epochs is not None:
        recipe = dataclasses.replace(recipe, epochs=epochs)
    if folder.exists():
        raise ValueError(f"{folder} is there already. Choose another --run-dir, or remove it.")
    splits = {split: load_pairs(recipe.pair, split, data_dir) for split in (*SPLITS, TEST_SPLIT)}
    model = train(recipe, *(splits[split] for split in SPLITS), run_dir)
    quality = []
    for split in (SPLITS[1], TEST_SPLIT):
        scores = evaluate_translator(model, splits[split], recipe.pair.split("-")[1])
        quality += for_card(scores, split, model.default_sampler)
    catalog.save(model, folder, _card(name, recipe, quality))
    return folder


def load_pairs(pair, split, data_dir):
    """Returns a split of Multi30k as pairs, downloaded or from the folder with its raw files."""
    from zoo.datasets import load_multi30k

    return load_multi30k(pair, split, manual_dir=data_dir)


def _card(name, recipe, quality):
    return {
        "task": ARCHITECTURES[recipe.architecture].task.task_name,
        "architecture": recipe.architecture,
        "description": f"{ARCHITECTURES[recipe.architecture].description}, {recipe.pair}",
        "data": {
            "name": f"Multi30k {recipe.pair}",
            "pair": recipe.pair,
            "source": "https://github.com/multi30k/dataset (task 1, train)",
            "terms": "research use",
            "citation": "Elliott et al. 2016, Multi30K: Multilingual English-German Image "
            "Descriptions (https://aclanthology.org/W16-3210)",
        },
        "quality": quality,
        "training": {
            "command": f"python -m zoo train {name}",
            "chosen_by": "sacreBLEU of the validation split: the epoch by greedy translations, the "
            f"length penalty by those with {recipe.num_beams} beams",
            "recipe": dataclasses.asdict(recipe),
            "versions": {"keras": keras.__version__, "tensorflow": tf.__version__},
        },
    }


def _tokenizer(recipe, pairs, path):
    """Learns the shared vocabulary once; a run that goes on must not learn another one."""
    if not path.exists():
        sentences = [text.decode() for pair in pairs.as_numpy_iterator() for text in pair]
        ByteBPETokenizer.train(sentences, recipe.vocabulary_size).save(path)
    return ByteBPETokenizer.load(path)


def _optimizer(recipe, steps_per_epoch):
    steps = recipe.epochs * steps_per_epoch
    cycles = keras.optimizers.schedules.CosineDecayRestarts(
        recipe.learning_rate, max(steps // recipe.cycles, 1), t_mul=1.0, m_mul=0.8, alpha=0.01
    )
    return keras.optimizers.Adam(
        WarmUp(cycles, min(recipe.warmup_steps, steps // 2)),
        beta_2=0.98,
        global_clipnorm=1.0,
        use_ema=True,
        ema_momentum=recipe.average_momentum,
        ema_overwrite_frequency=None,
    )


def _callbacks(run_dir, validation_pairs, best_path):
    # The order counts: the backup keeps the raw weights, everything below sees the averaged ones.
    return [
        keras.callbacks.BackupAndRestore(
            run_dir / "backup", double_checkpoint=True, delete_checkpoint=False
        ),
        keras.callbacks.SwapEMAWeights(swap_on_epoch=True),
        ValidationBleu(validation_pairs),
        keras.callbacks.ModelCheckpoint(
            best_path,
            monitor="val_bleu",
            mode="max",
            save_best_only=True,
            save_weights_only=True,
            initial_value_threshold=_best_so_far(run_dir, best_path),
        ),
        keras.callbacks.CSVLogger(run_dir / HISTORY, append=True),
        keras.callbacks.TensorBoard(run_dir / "tensorboard"),
    ]


def _best_so_far(run_dir, best_path):
    """Returns the BLEU to beat for a run that goes on, `None` for a new one."""
    if not best_path.exists():
        return None
    return max((float(row["val_bleu"]) for row in _history(run_dir)), default=None)


def _history(run_dir):
    """Returns what was logged of each epoch so far."""
    path = run_dir / HISTORY
    if not path.exists():
        return []
    with open(path, newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))
