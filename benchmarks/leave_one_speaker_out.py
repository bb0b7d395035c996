"""Accuracy of a recipe for spoken digits on speakers that it was not trained on.

python -m benchmarks.leave_one_speaker_out
python -m benchmarks.leave_one_speaker_out --data-dir FOLDER --seed 2

For each of the six speakers, trains with the unchanged recipe on the 2,500 recordings of the other
five, and measures the accuracy on all 500 recordings of this speaker. The averaged weights of the
last epoch are used, so that the held-out speaker is never used for model selection. Each result is
written as a line of `leave_one_speaker_out.jsonl` in --run-dir as soon as it is measured; an
interrupted run continues with the next speaker. With --only-write, the jobs are only written, each
to its own folder, so that `python -m zoo.learning FOLDER` can run them elsewhere; running the
benchmark again then measures the trained models.
"""

import dataclasses
import json
import pathlib

import click
import keras
import numpy as np

from zoo.data.spoken_digit import SPEAKERS
from zoo.learning.job import write
from zoo.training.recipes import RECIPES


def job_without(recipe, speaker, data_dir, folder):
    """Returns the job of training on all speakers but one, and its arrays."""
    keras.utils.set_random_seed(recipe.seed)
    examples = recipe.load(f"-{speaker}", data_dir)
    return recipe.make_job(recipe.make_model("float32"), examples, folder)


@click.command()
@click.option("--name", default="conformer_spoken_digit", show_default=True)
@click.option("--data-dir", help="Folder where TFDS prepared spoken_digit.")
@click.option("--run-dir", type=click.Path(path_type=pathlib.Path), default=pathlib.Path("runs"))
@click.option("--seed", type=int, default=1, show_default=True)
@click.option("--epochs", type=int, help="Overrides the epochs of the recipe.")
@click.option("--only-write", is_flag=True, help="Only write the jobs, to run them elsewhere.")
def main(name, data_dir, run_dir, seed, epochs, only_write):
    """Measure a recipe for spoken digits on speakers that it was not trained on."""
    recipe = RECIPES[name]
    recipe = dataclasses.replace(recipe, seed=seed, epochs=epochs or recipe.epochs)
    run_dir.mkdir(parents=True, exist_ok=True)
    path = run_dir / "leave_one_speaker_out.jsonl"
    run = {"name": name, "seed": seed, "epochs": recipe.epochs}
    lines = path.read_text().splitlines() if path.exists() else []
    measured = [line for line in map(json.loads, lines) if run.items() <= line.items()]
    found = {line["speaker"]: line["accuracy"] for line in measured}
    for speaker in SPEAKERS:
        folder = run_dir / f"without_{speaker}_{seed}_{recipe.epochs}"
        if only_write:
            job = folder / "learning"
            write(job, *job_without(recipe, speaker, data_dir, job))
            continue
        if speaker not in found:
            # `train` needs validation data; its results are not used.
            train = recipe.load(f"-{speaker}", data_dir)
            model = recipe.train(train, train, folder)
            found[speaker] = recipe.evaluate(model, recipe.load(speaker, data_dir))["accuracy"]
            with open(path, "a") as file:
                file.write(json.dumps({**run, "speaker": speaker, "accuracy": found[speaker]}))
                file.write("\n")
        click.echo(f"{100 * found[speaker]:6.2f}%  {speaker}")
    if found:
        click.echo(f"{100 * np.mean(list(found.values())):6.2f}%  mean of {len(found)} speakers")


if __name__ == "__main__":
    main()
