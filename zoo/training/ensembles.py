"""Translators that learn from several others, which are trained before."""

import dataclasses
import functools

import keras

from zoo.data.pairs import draw_pairs, with_targets
from zoo.learning.job import LEARNED, Job, learned
from zoo.learning.pairs import flat
from zoo.loading import build
from zoo.training.lessons import with_translations

LESSONS = "lessons.jsonl"
PASSES = 8  # in other pieces each, by subword dropout; the ninth epoch is like the first
PAIRS_AT_ONCE = 1024


def learned_from_ensemble(recipe, tokenizer, examples, run_dir):
    """Trains translators on pairs, then one that learns from them, too.

    The teachers differ by their seeds alone. Each translates its share of all sources, as one more
    target; and for each token the student learns what the teachers expect on average, see
    `zoo.learning.learner.Learner`.

    Args:
        recipe: The `TranslationRecipe`.
        tokenizer: The tokenizer of all.
        examples: Data set of sources with a vector of targets, which may be empty; or of pairs.
        run_dir: Folder of the run: the jobs of the teachers are in `teacher_1` and so on, that of
            the student in `learning`.

    Returns:
        The file of the weights of the core of the student.
    """

    def make():
        names, models = _taught(recipe, tokenizer, with_targets(examples), run_dir)
        lessons = with_translations(examples, models, run_dir / LESSONS)
        teachers = [
            {
                "architecture": recipe.architecture,
                "config": model.core.get_config(),
                "weights": f"../{name}/{LEARNED}",
            }
            for name, model in zip(names, models, strict=True)
        ]
        return _job(recipe, tokenizer, _passes(recipe, tokenizer, lessons), teachers)

    return learned(run_dir / "learning", make)


def _taught(recipe, tokenizer, pairs, run_dir):
    """Trains the teachers, and returns the names of their folders and the models."""
    teacher = dataclasses.replace(recipe, label_smoothing=0.1, ensemble=0, teacher_share=0.0)
    names = [f"teacher_{number}" for number in range(1, recipe.ensemble + 1)]
    passes = functools.cache(functools.partial(_passes, recipe, tokenizer, pairs))
    models = []
    for number, name in enumerate(names, start=1):
        seeded = dataclasses.replace(teacher, seed=recipe.seed + number)
        weights = learned(run_dir / name, lambda seeded=seeded: _job(seeded, tokenizer, passes()))
        models.append(build(recipe.architecture, tokenizer, "float32", **recipe.overrides))
        models[-1].core.load_weights(weights)
    return names, models


def _job(recipe, tokenizer, arrays, teachers=()):
    """Returns a job and its arrays."""
    config = build(recipe.architecture, tokenizer, "float32", **recipe.overrides).core.get_config()
    steps = int(arrays["pairs_of_pass"][0]) // recipe.batch_size
    job = Job(
        recipe.architecture,
        config,
        "pairs",
        {
            "batch_size": recipe.batch_size,
            "start_id": tokenizer.start_id,
            "pad_id": tokenizer.pad_id,
        },
        keras.optimizers.serialize(recipe.make_optimizer(steps)),
        recipe.epochs,
        label_smoothing=recipe.label_smoothing,
        teachers=teachers,
        teacher_share=recipe.teacher_share,
        dtype=recipe.dtype,
        seed=recipe.seed,
    )
    return job, arrays


def _passes(recipe, tokenizer, examples):
    """Returns the arrays of `zoo.learning.pairs.TokenPairs`."""
    model = build(recipe.architecture, tokenizer, "float32", **recipe.overrides)
    batches = model.batches(
        draw_pairs(examples, recipe.seed),
        batch_size=PAIRS_AT_ONCE,
        subword_dropout=recipe.subword_dropout,
        seed=recipe.seed,
    )
    passes = range(min(PASSES, recipe.epochs))
    return flat([_pairs(batches, tokenizer.pad_id) for _ in passes])


def _pairs(batches, pad_id):
    """Returns the tokens of all sources and targets, drawn anew in each call."""
    return [
        (source[source != pad_id], target[weight > 0.0])
        for inputs, labels, weights in batches.as_numpy_iterator()
        for source, target, weight in zip(inputs["source_ids"], labels, weights, strict=True)
    ]
