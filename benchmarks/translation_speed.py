"""Speed of the recurrent translators: training in tokens/s, translation in sentences/s.

python -m benchmarks.translation_speed --data-dir /path/to/multi30k
"""

import pathlib
import statistics
import time

import click

import zoo
from zoo import decoding
from zoo.data.multi30k import load_multi30k
from zoo.training import recipes

MODELS = ("bahdanau_nmt_multi30k_en_de", "luong_nmt_multi30k_en_de")
SAMPLERS = {"greedy": decoding.GreedySampler(), "beam 5": zoo.Translator.usual_sampler}
TRAINING_BATCHES = 10


def translation_rate(model, sampler, sources):
    """Sentences per second, sorted and batched by `translate`."""
    start = time.perf_counter()
    model.translate(sources, sampler=sampler)
    return len(sources) / (time.perf_counter() - start)


def one_sentence_rate(model, sampler, sources):
    """Sentences per second, translated one by one."""
    sources = sources[:30]
    start = time.perf_counter()
    for source in sources:
        model.translate(source, sampler=sampler)
    return len(sources) / (time.perf_counter() - start)


def training_rate(model, batches):
    """Target tokens per second, without padding."""
    start = time.perf_counter()
    for inputs, labels, weights in batches:
        model.train_on_batch(inputs, labels, sample_weight=weights)
    tokens = sum(float(weights.numpy().sum()) for _, _, weights in batches)
    return tokens / (time.perf_counter() - start)


def contenders(name, data_dir):
    """The measurements of a model: label -> function that returns a rate."""
    model = zoo.load(name)
    recipe = recipes.RECIPES[name]
    test = load_multi30k("en-de", "test_2016_flickr", manual_dir=data_dir)
    sources = [source.decode() for source, _ in test.as_numpy_iterator()]
    measured = {}
    for label, sampler in SAMPLERS.items():
        measured[f"{label}, test set, sentences/s"] = lambda sampler=sampler: translation_rate(
            model, sampler, sources
        )
        measured[f"{label}, one by one, sentences/s"] = lambda sampler=sampler: one_sentence_rate(
            model, sampler, sources
        )
    learner = zoo.load(name, weights=None, dtype=recipe.dtype)
    learner.compile(weighted_metrics=[])
    train = load_multi30k("en-de", "train", manual_dir=data_dir)
    batches = learner.batches(train, batch_size=recipe.batch_size)
    batches = list(batches.take(TRAINING_BATCHES))
    label = f"training, {recipe.dtype}, batch {recipe.batch_size}, target tokens/s"
    measured[label] = lambda: training_rate(learner, batches)
    return measured


@click.command()
@click.option("--data-dir", type=click.Path(path_type=pathlib.Path), required=True)
@click.option("--rounds", default=5, show_default=True, help="Measured rounds, after a warm-up.")
def main(data_dir, rounds):
    """Measure all models, taking turns so that a busy moment affects all alike."""
    measured = {
        (name, label): measure
        for name in MODELS
        for label, measure in contenders(name, data_dir).items()
    }
    rates = {key: [] for key in measured}
    for round_number in range(rounds + 1):
        for key, measure in measured.items():
            rate = measure()
            if round_number > 0:
                rates[key].append(rate)
    for (name, label), found in rates.items():
        spread = f"{min(found):.0f} to {max(found):.0f}"
        click.echo(f"{name:30} {label:55} {statistics.median(found):8.0f}  ({spread})")


if __name__ == "__main__":
    main()
