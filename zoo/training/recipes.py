"""How the shipped models were trained: everything that `python -m zoo train NAME` does."""

import dataclasses
import pathlib

import keras
import tensorflow as tf

from keras_attention.errors import unknown_name
from zoo.architectures import ARCHITECTURES
from zoo.storage import presets
from zoo.tasks.captioning import Captioner
from zoo.tasks.classification import Classifier
from zoo.tasks.masked import MaskFiller
from zoo.tasks.matching import Matcher
from zoo.tasks.translation import Translator
from zoo.tasks.writing import TextGenerator
from zoo.training import runs
from zoo.training.captioning import CaptioningRecipe
from zoo.training.digits import DigitsRecipe
from zoo.training.language import LanguageRecipe
from zoo.training.masked import MaskedRecipe
from zoo.training.matching import MatchingRecipe
from zoo.training.reviews import ReviewsRecipe
from zoo.training.spoken_digits import SpokenDigitsRecipe
from zoo.training.spoken_numbers import SpokenNumbersRecipe
from zoo.training.translation import TranslationRecipe

RECURRENT = {"decoder_units": 384, "dropout": 0.3}
TRANSFORMER = {"num_layers": 4, "size": 192, "num_heads": 4, "hidden": 512, "normalize": "pre"}
TAUGHT = {
    "data": "multi30k+flickr8k",
    "teacher": "transformer_nmt_multi30k_en_de",
    "teacher_share": 0.5,
    "epochs": 24,
    "examples_per_epoch": 29_000,
    "cycles": 2,
    "label_smoothing": 0.0,
}
WRITER = {
    "num_layers": 6,
    "size": 288,
    "num_heads": 6,
    "context_length": 256,
    "activation": "squared_relu",
}
WRITERS = [  # the teachers of the language model
    {**WRITER, "dropout": 0.25},
    {**WRITER, "dropout": 0.3, "activation": "gelu"},
    {**WRITER, "dropout": 0.35, "size": 384},
    {**WRITER, "dropout": 0.3, "num_layers": 8},
]
LOWER = {"layers": ["block_12_add"], "image_size": 288}  # of MobileNetV2
UPPER = {
    "network": "MobileNetV2",
    "image_size": 288,
    "after": "block_12_add",
    "layers": ["out_relu"],
}
CAPTIONER = {"size": 384, "tail": UPPER}
POOLED = {"num_layers": 0, "size": 256, "num_heads": 4, "normalize": "post", "dropout": 0.0}

LICENSE = (
    "Apache-2.0 for these files. The data that the weights were learned from has terms of its own."
)

RECIPES = {
    "clip_flickr8k": MatchingRecipe(
        "clip",
        overrides={
            "embedding_size": 256,
            "max_length": 24,
            "temperature": 0.05,
            "text": {**POOLED, "hiding": 0.3, "scaled": False},
            "image": {**POOLED, "input_dropout": 0.5},
            "tail": {**UPPER, "layers": ["out_relu", "block_13_expand_relu"], "grid": [3, 3]},
        },
        backbone=LOWER,
        views=4,
        batch_size=250,
        epochs=12,
    ),
    "conformer_spoken_digit": SpokenDigitsRecipe(
        "conformer",
        overrides={
            "num_layers": 3,
            "size": 96,
            "hidden": 192,
            "kernel_size": 9,
            "channels": 32,
            "dropout": 0.2,
        },
        bands=24,
        decibels=40.0,
        each_band=True,
        speed=0.2,
        pause=0.25,
        echo=0.5,
        noise=(5.0, 50.0),
        color=0.8,
        tempo=0.3,
        throat=0.1,
        microphone=0.8,
        gaps={"number": 2, "time": 0.12, "bands": 0.15},
        epochs=47,
        batch_size=256,
        average_momentum=0.998,
    ),
    "conformer_ctc_spoken_digit": SpokenNumbersRecipe(
        "conformer_ctc",
        overrides={
            "num_layers": 3,
            "size": 96,
            "hidden": 192,
            "kernel_size": 9,
            "channels": 32,
        },
        epochs=100,
        batch_size=24,
    ),
    "show_attend_tell_flickr8k": CaptioningRecipe(
        "show_attend_tell",
        overrides={**CAPTIONER, "doubly_stochastic": 0.25},
        tail_of="clip_flickr8k",
        backbone=LOWER,
        epochs=3,
        self_critical_epochs=6,
        self_critical_learning_rate=2e-4,
        self_critical_momentum=0.998,
        rewards=[
            {
                "cider": 1.0,
                "bleu_1": 3.0,
                "bleu_2": 1.0,
                "bleu_3": 1.0,
                "bleu_4": 2.0,
                "unigram_f": 8.0,
            },
            {
                "cider": 1.0,
                "bleu_1": 5.0,
                "bleu_2": 1.0,
                "bleu_3": 1.0,
                "bleu_4": 1.5,
                "unigram_f": 5.0,
            },
        ],
    ),
    "show_attend_tell_hard_flickr8k": CaptioningRecipe(
        "show_attend_tell",
        overrides={**CAPTIONER, "attention": "hard"},
        begin_with="show_attend_tell_flickr8k",
        backbone=LOWER,
        views=2,
        epochs=1,
        learning_rate=4e-4,
    ),
    "bahdanau_nmt_multi30k_en_de": TranslationRecipe(
        "bahdanau_nmt", overrides={**RECURRENT, "order": "conditional"}, **TAUGHT
    ),
    "luong_nmt_multi30k_en_de": TranslationRecipe("luong_nmt", overrides=RECURRENT, **TAUGHT),
    "text_encoder_imdb": ReviewsRecipe(
        "text_encoder",
        overrides={"pooling": "mean", "pooler": None, "dropout": 0.2},
        epochs=4,
        batch_size=64,
        learning_rate=6e-4,
        seed=3,
    ),
    "text_encoder_masked_imdb": MaskedRecipe(
        "text_encoder_masked",
        overrides={
            "num_layers": 4,
            "size": 192,
            "num_heads": 4,
            "hidden": 768,
            "embedding_size": 128,
            "normalize": "pre",
            "relative_buckets": 32,  # by positions alone, it learns nothing for hours
            "max_length": 128,
            "attention_dropout": 0.0,
        },
        epochs=9,
        batch_size=128,
    ),
    "transformer_nmt_multi30k_en_de": TranslationRecipe(
        "transformer_nmt",
        overrides={**TRANSFORMER, "dropout": 0.2},
        epochs=72,
        cycles=3,
        batch_size=128,
        optimizer="muon",
        learning_rate=2e-3,
        warmup_steps=200,
        subword_dropout=0.05,
        average_momentum=0.999,
        self_critical_epochs=4,
        self_critical_examples_per_epoch=6_000,
    ),
    "transformer_nmt_tatoeba_en_de": TranslationRecipe(
        "transformer_nmt",
        data="tatoeba+multi30k",
        overrides={**TRANSFORMER, "dropout": 0.1},
        begin_with="transformer_nmt_multi30k_en_de",
        epochs=8,
        cycles=1,
        batch_size=128,
        examples_per_epoch=90_000,
        optimizer="muon",
        learning_rate=1.2e-3,
        warmup_steps=200,
        subword_dropout=0.0,
        self_critical_epochs=4,
        self_critical_examples_per_epoch=6_000,
    ),
    "transformer_lm_shakespeare": LanguageRecipe(
        "transformer_lm",
        overrides={**WRITER, "dropout": 0.1},
        epochs=108,
        batch_size=64,
        teachers=[
            {"architecture": "transformer_lm", "overrides": overrides, "epochs": 24, "seed": seed}
            for seed, overrides in enumerate(WRITERS, start=1)
        ],
    ),
    "vit_mnist": DigitsRecipe(
        "vit",
        overrides={
            "patch_size": 4,
            "stem": [32, 48, 64, 128],
            "num_layers": 4,
            "size": 128,
            "num_heads": 4,
            "hidden": 256,
            "pooling": "mean",
            "dropout": 0.1,
        },
        epochs=80,
        batch_size=512,
        learning_rate=3e-3,
    ),
}
_OF_ARCHITECTURE = {  # others are those of their task
    "conformer": SpokenDigitsRecipe,
    "conformer_ctc": SpokenNumbersRecipe,
    "text_encoder": ReviewsRecipe,
}
_OF_TASK = {
    Captioner: CaptioningRecipe,
    Classifier: DigitsRecipe,
    MaskFiller: MaskedRecipe,
    Matcher: MatchingRecipe,
    TextGenerator: LanguageRecipe,
    Translator: TranslationRecipe,
}


def run(name, data_dir, run_dir, epochs=None, seed=None):
    """Does what `python -m zoo train NAME` does: trains, measures, and writes a preset.

    Args:
        name: Name of a recipe.
        data_dir: Folder with the data set, or `None` to download it.
        run_dir: Folder for checkpoints and logs; the preset goes to `run_dir / name`.
        epochs: Epochs instead of the recipe's; teachers and self-critical training keep theirs.
        seed: Seed instead of the recipe's.

    Returns:
        The folder of the preset.

    Raises:
        ValueError: If there is no such recipe, the preset is there already, or the folder holds a
            run of another recipe, or with other epochs or another seed.
    """
    if name not in RECIPES:
        own = " To train on your own data, use Python: zoo.load(...).fit(...)."
        raise ValueError(unknown_name("recipe", name, RECIPES) + own)
    recipe, folder = RECIPES[name], pathlib.Path(run_dir) / name
    wanted = {"epochs": epochs, "seed": seed}
    given = {option: value for option, value in wanted.items() if value is not None}
    recipe = dataclasses.replace(recipe, **given)
    if folder.exists():
        raise ValueError(f"{folder} is there already. Choose another --run-dir, or remove it.")
    runs.require_same_recipe(run_dir, name, recipe)
    measured = {split: recipe.load(split, data_dir) for split in recipe.measured_splits}
    data = [recipe.load(split, data_dir) for split in recipe.splits]
    runs.keep_recipe(run_dir, name, recipe)
    model = recipe.train(*data, run_dir)
    for weight in model.core.weights:  # what is measured is what is kept
        weight.assign(weight.numpy().astype("float16"))
    quality = []
    for split, data in measured.items():
        quality += recipe.quality(recipe.evaluate(model, data), split, model)
    presets.save(model, folder, _card(name, recipe, model, quality), dtype="float16")
    return folder


def of_card(card):
    """Returns the recipe by which the model of a card was trained.

    Raises:
        ValueError: If the card tells none.
    """
    try:
        name = card["architecture"]
        recipe = _OF_ARCHITECTURE.get(name) or _OF_TASK[ARCHITECTURES[name].task]
        return recipe(**card["training"]["recipe"])
    except (KeyError, TypeError) as error:
        raise ValueError(
            "This model has no recipe that says what data to measure it on, and how. Measure it in "
            "Python: zoo.load(...).evaluate(...)."
        ) from error


def _card(name, recipe, model, quality):
    told = recipe.for_card()
    return {
        "task": model.task_name,
        "architecture": recipe.architecture,
        "description": f"{model.core.description}, {told['variant']}",
        "data": told["data"],
        "use": told["use"],
        "limits": told["limits"],
        "license": LICENSE,
        "example": {"call": f'zoo.load("{name}").{told["call"]}'},
        "quality": quality,
        "training": {
            "command": f"python -m zoo train {name}",
            "chosen_by": told["chosen_by"],
            "recipe": dataclasses.asdict(recipe),
            "versions": {"keras": keras.__version__, "tensorflow": tf.__version__},
        },
    }
