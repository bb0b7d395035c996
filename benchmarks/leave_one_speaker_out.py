"""How well a recipe for spoken digits understands a speaker whom it has never heard.

python -m benchmarks.leave_one_speaker_out
python -m benchmarks.leave_one_speaker_out --data-dir FOLDER --seed 2

Trains once for each of the six speakers, by the recipe as it stands, on the 2,500 recordings of the
other five, and measures on all 500 recordings of the speaker. The averaged weights of the last
epoch count: nothing is chosen by the speaker who is left out. A line is written as soon as it is
measured, to `leave_one_speaker_out.jsonl` in --run-dir; a run that broke off goes on with the next
speaker.
"""

import dataclasses
import json
import pathlib

import click
import keras
import numpy as np

from zoo.data.spoken_digit import SPEAKERS
from zoo.losses import TokenCrossentropy
from zoo.training.recipes import RECIPES


def accuracy_without(recipe, speaker, data_dir):
    """Returns the accuracy on a speaker's recordings of a model that learned from the others."""
    keras.utils.set_random_seed(recipe.seed)
    train = recipe.load(f"-{speaker}", data_dir)
    model = recipe.make_model(recipe.dtype)
    optimizer = recipe.make_optimizer(recipe.steps_of_epoch(train))
    model.compile(optimizer, TokenCrossentropy(recipe.label_smoothing))
    model.fit(
        recipe.lessons(model.reader, train, recipe.seed),
        epochs=recipe.epochs,
        callbacks=[keras.callbacks.SwapEMAWeights(swap_on_epoch=True)],
        verbose=2,
    )
    return recipe.evaluate(model, recipe.load(speaker, data_dir))["accuracy"]


@click.command()
@click.option("--name", default="conformer_spoken_digit", show_default=True)
@click.option("--data-dir", help="Folder where TFDS has prepared spoken_digit.")
@click.option("--run-dir", type=click.Path(path_type=pathlib.Path), default=pathlib.Path("runs"))
@click.option("--seed", type=int, default=1, show_default=True)
@click.option("--epochs", type=int, help="Epochs instead of the recipe's.")
def main(name, data_dir, run_dir, seed, epochs):
    """How well a recipe for spoken digits understands a speaker whom it has never heard."""
    recipe = RECIPES[name]
    recipe = dataclasses.replace(recipe, seed=seed, epochs=epochs or recipe.epochs)
    run_dir.mkdir(parents=True, exist_ok=True)
    path = run_dir / "leave_one_speaker_out.jsonl"
    run = {"name": name, "seed": seed, "epochs": recipe.epochs}
    lines = path.read_text().splitlines() if path.exists() else []
    measured = [line for line in map(json.loads, lines) if run.items() <= line.items()]
    found = {line["speaker"]: line["accuracy"] for line in measured}
    for speaker in SPEAKERS:
        if speaker not in found:
            found[speaker] = accuracy_without(recipe, speaker, data_dir)
            with open(path, "a") as file:
                file.write(json.dumps({**run, "speaker": speaker, "accuracy": found[speaker]}))
                file.write("\n")
        click.echo(f"{100 * found[speaker]:6.2f} %  {speaker}")
    click.echo(f"{100 * np.mean(list(found.values())):6.2f} %  mean of {len(found)} speakers")


if __name__ == "__main__":
    main()
