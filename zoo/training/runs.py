"""Shared parts of the runs of all recipes: schedules, the log, resuming after a crash.

After each epoch `backup` holds its state: the weights of the model and of the optimizer, and a JSON
file with the log of all epochs and the hash of the weights. That file is written last and completes
the epoch: a run that is killed resumes after the last complete epoch.
"""

import csv
import dataclasses
import json
import pathlib

import keras
import numpy as np

from zoo.atomic import sweep, whole
from zoo.learning.schedules import WarmUp
from zoo.readers.text import ByteBPETokenizer
from zoo.storage import TOKENIZER
from zoo.storage.presets import fingerprint

BACKUP = "backup"  # folder of the states after epochs
BEST = "best.weights.h5"
HISTORY = "history.csv"
RECIPE = "recipe.json"
RESUMED = (  # patterns of what a run resumes from
    *(BACKUP, BEST, HISTORY, TOKENIZER),
    *("learning", "lessons.jsonl", "self_critical*", "teacher_*"),
)
STATES = 2  # that are kept


def keep_recipe(run_dir, name, recipe):
    """Writes the recipe of a run into its folder, for `require_same_recipe`.

    Args:
        run_dir: Folder of the run.
        name: Name of the recipe.
        recipe: The recipe, a dataclass.
    """
    with whole(pathlib.Path(run_dir) / RECIPE) as unfinished:
        content = {"name": name, "recipe": dataclasses.asdict(recipe)}
        unfinished.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")


def require_same_recipe(run_dir, name, recipe):
    """Raises a `ValueError` if a folder holds what a run of this recipe cannot resume from.

    That is a run of another recipe, or files of something else under the names of those of a run,
    which it would read or write over.

    Args:
        run_dir, name, recipe: As for `keep_recipe`.
    """
    path = pathlib.Path(run_dir) / RECIPE
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
        of_run, before = content["name"], dict(content["recipe"])
    except FileNotFoundError:
        there = sorted(each.name for pattern in RESUMED for each in path.parent.glob(pattern))
        if there:
            raise ValueError(
                f"{run_dir} holds {', '.join(there)}, and no {RECIPE}: these are not files of a "
                "run, which would read them or write over them. Choose another --run-dir."
            ) from None
        return
    except (OSError, ValueError, TypeError, KeyError) as error:
        raise ValueError(
            f"{path} is not the recipe of a run, or is damaged. Choose another --run-dir."
        ) from error
    if of_run != name:
        raise ValueError(
            f"{run_dir} holds a run of {of_run}, not of {name}. Choose another --run-dir."
        )
    now = json.loads(json.dumps(dataclasses.asdict(recipe)))
    names = [each for each in {**before, **now} if before.get(each) != now.get(each)]
    if names:
        told, asked = (
            ", ".join(f"{each}={values.get(each)!r:.80}" for each in names)
            for values in (before, now)
        )
        raise ValueError(
            f"{run_dir} holds a run of {name} with {told}. Received: {asked}. Resume it as it was "
            "begun, or choose another --run-dir."
        )


def cosine(learning_rate, steps, warmup_steps, cycles=1):
    """Returns a schedule that rises, then falls to 1%, `cycles` times, each 20% lower."""
    falling = keras.optimizers.schedules.CosineDecayRestarts(
        learning_rate, max(steps // cycles, 1), t_mul=1.0, m_mul=0.8, alpha=0.01
    )
    return WarmUp(falling, min(warmup_steps, steps // 2))


def averaging(momentum):
    """Returns the arguments of an optimizer that clips gradients and averages the weights."""
    return {
        "global_clipnorm": 1.0,
        "use_ema": True,
        "ema_momentum": momentum,
        "ema_overwrite_frequency": None,
    }


def self_critical_optimizer(learning_rate, steps, average_momentum=0.99):
    """Returns the optimizer of self-critical training: a cosine without warm-up."""
    return keras.optimizers.Adam(
        cosine(learning_rate, steps, warmup_steps=0),
        **averaging(average_momentum),
    )


def callbacks(run_dir, monitor, mode, measure=()):
    """Returns the callbacks of a run that keeps the averaged weights of its best epoch.

    Args:
        run_dir: Folder of the run.
        monitor: Entry of the logs that selects the best epoch.
        mode: `"min"` or `"max"`.
        measure: Callbacks that add entries to the logs, by the averaged weights.
    """
    # The order counts: the state holds the raw weights, everything below sees the averaged ones.
    return [
        _SaveState(run_dir),
        keras.callbacks.SwapEMAWeights(swap_on_epoch=True),
        *measure,
        _FinishEpoch(run_dir, monitor, mode),
        keras.callbacks.TensorBoard(run_dir / "tensorboard"),
    ]


def restore(model, run_dir):
    """Restores the newest readable state of a run.

    Args:
        model: A compiled model.
        run_dir: Folder of the run.

    Returns:
        The number of finished epochs, for `initial_epoch` of `fit`.
    """
    sweep(run_dir)
    states = sorted((run_dir / BACKUP).glob("epoch-*.json"), key=_epochs, reverse=True)
    for state in states:
        rows = _read(state)
        if rows is not None:
            break
        print(f"{state} is damaged, or the weights beside it. It is ignored.")
    else:
        rows = []
        if states:
            print(f"{run_dir}: there is no other state, training begins anew.")
    _write_history(run_dir, rows)  # what a killed process did not come to
    if rows:
        if not model.optimizer.built:
            model.optimizer.build(model.trainable_variables)
        model.load_weights(_weights(state))
        print(f"{run_dir}: training goes on after epoch {len(rows)}.")
    return len(rows)


def best_so_far(run_dir, monitor, mode):
    """Returns the value that the next epoch has to beat, or `None`."""
    if not (run_dir / BEST).exists():
        return None
    values = [float(row[monitor]) for row in history(run_dir)]
    numbers = [value for value in values if value == value]  # not those that are not a number
    return {"min": min, "max": max}[mode](numbers, default=None)


def history(run_dir):
    """Returns the logs of all epochs so far."""
    path = run_dir / HISTORY
    if not path.exists():
        return []
    with open(path, newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def tokenizer(path, texts, vocabulary_size, kind=ByteBPETokenizer, **options):
    """Returns the tokenizer of a run, which is trained once: a resumed run keeps it.

    Args:
        path: File of the tokenizer.
        texts: Texts to train it on; not read if the file exists.
        vocabulary_size: Number of its tokens.
        kind: Its class.
        **options: Additional arguments of `kind.train`.
    """
    try:
        return kind.load(path)
    except FileNotFoundError:
        pass
    except ValueError as error:
        print(f"{error} It is learned anew.")
    kind.train(texts, vocabulary_size, **options).save(path)
    return kind.load(path)


def copy_weights(trained, model):
    """Gives a model the trainable weights of another one of the same shapes."""
    pairs = trained.core.trainable_variables, model.core.trainable_variables
    for value, variable in zip(*pairs, strict=True):
        variable.assign(value)


def load_mean_weights(model, paths):
    """Gives a model the mean of the weights in several files.

    Models fine-tuned from the same weights mostly lie in one basin, where the mean is no worse than
    any of them (Wortsman et al. 2022, Model soups, https://arxiv.org/abs/2203.05482).
    """
    loaded = []
    for path in paths:
        model.load_weights(path)
        loaded.append([weight.numpy() for weight in model.weights])
    for weight, values in zip(model.weights, zip(*loaded, strict=True), strict=True):
        weight.assign(np.mean(values, axis=0))


class _SaveState(keras.callbacks.Callback):
    """Saves the weights of the model and of the optimizer after each epoch.

    Args:
        run_dir: Folder of the run.
    """

    def __init__(self, run_dir):
        super().__init__()
        self.run_dir = run_dir

    def on_epoch_end(self, epoch, logs=None):
        with whole(_weights(_state(self.run_dir, epoch + 1))) as unfinished:
            self.model.save_weights(unfinished)


class _FinishEpoch(keras.callbacks.Callback):
    """Saves the best weights and the log of an epoch, which completes it.

    Args:
        run_dir: Folder of the run: `best.weights.h5` and `history.csv` go there.
        monitor: Entry of the logs that selects the best epoch.
        mode: `"min"` or `"max"`.
    """

    def __init__(self, run_dir, monitor, mode):
        super().__init__()
        self.run_dir, self.monitor, self.mode = run_dir, monitor, mode

    def on_epoch_end(self, epoch, logs=None):
        if self._is_best(logs[self.monitor]):
            with whole(self.run_dir / BEST) as unfinished:
                self.model.save_weights(unfinished)
        row = {"epoch": str(epoch)} | {name: str(logs[name]) for name in sorted(logs)}
        rows, state = [*history(self.run_dir), row], _state(self.run_dir, epoch + 1)
        content = {"weights": fingerprint(_weights(state)), "history": rows}
        with whole(state) as unfinished:
            unfinished.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")
        _write_history(self.run_dir, rows)
        kept = range(epoch + 2 - STATES, epoch + 2)
        for path in state.parent.glob("epoch-*"):
            if _epochs(path) not in kept:
                path.unlink()

    def _is_best(self, value):
        best = best_so_far(self.run_dir, self.monitor, self.mode)
        return best is None or {"min": value < best, "max": value > best}[self.mode]


def _write_history(run_dir, rows):
    if not rows:
        (run_dir / HISTORY).unlink(missing_ok=True)
        return
    names = dict.fromkeys(name for row in rows for name in row)
    with (
        whole(run_dir / HISTORY) as unfinished,
        open(unfinished, "w", newline="", encoding="utf-8") as file,
    ):
        writer = csv.DictWriter(file, names, restval="NA")
        writer.writeheader()
        writer.writerows(rows)


def _state(run_dir, epochs):
    return run_dir / BACKUP / f"epoch-{epochs}.json"


def _weights(state):
    return state.with_suffix(".weights.h5")


def _epochs(path):
    """Returns the number in the name of a file of a state."""
    return int(path.name.partition(".")[0].removeprefix("epoch-"))


def _read(state):
    """Returns the history that a state holds, `None` if it or its weights are damaged."""
    try:
        content = json.loads(state.read_text(encoding="utf-8"))
        is_whole = content["weights"] == fingerprint(_weights(state))
    except (OSError, ValueError):
        return None
    return content["history"] if is_whole else None
