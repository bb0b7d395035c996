"""What the runs of all recipes have in common: checkpoints, logs, going on after a crash."""

import csv

import keras
import numpy as np

from zoo.training.schedules import WarmUp

BEST = "best.weights.h5"
HISTORY = "history.csv"


def cosine(learning_rate, steps, warmup_steps, cycles=1):
    """Returns a schedule that rises, then falls to 1 %, `cycles` times, each 20 % lower."""
    falling = keras.optimizers.schedules.CosineDecayRestarts(
        learning_rate, max(steps // cycles, 1), t_mul=1.0, m_mul=0.8, alpha=0.01
    )
    return WarmUp(falling, min(warmup_steps, steps // 2))


def self_critical_optimizer(learning_rate, steps, average_momentum=0.99):
    """Returns the optimizer of self-critical training: a cosine without warm-up."""
    return keras.optimizers.Adam(
        cosine(learning_rate, steps, warmup_steps=0),
        global_clipnorm=1.0,
        use_ema=True,
        ema_momentum=average_momentum,
        ema_overwrite_frequency=None,
    )


def callbacks(run_dir, monitor, mode, measure=()):
    """Returns the callbacks of a run that keeps the averaged weights of its best epoch.

    Args:
        run_dir: Folder of the run.
        monitor, mode: Which entry of the logs is best where, as for `ModelCheckpoint`.
        measure: Callbacks that add entries to the logs, by the averaged weights.
    """
    best_path = run_dir / BEST
    # The order counts: the backup keeps the raw weights, everything below sees the averaged ones.
    return [
        keras.callbacks.BackupAndRestore(
            run_dir / "backup", double_checkpoint=True, delete_checkpoint=False
        ),
        keras.callbacks.SwapEMAWeights(swap_on_epoch=True),
        *measure,
        keras.callbacks.ModelCheckpoint(
            best_path,
            monitor=monitor,
            mode=mode,
            save_best_only=True,
            save_weights_only=True,
            initial_value_threshold=best_so_far(run_dir, monitor, mode),
        ),
        keras.callbacks.CSVLogger(run_dir / HISTORY, append=True),
        keras.callbacks.TensorBoard(run_dir / "tensorboard"),
    ]


def best_so_far(run_dir, monitor, mode):
    """Returns what a run that goes on has to beat, `None` for a new one."""
    if not (run_dir / BEST).exists():
        return None
    best = {"min": min, "max": max}[mode]
    return best((float(row[monitor]) for row in history(run_dir)), default=None)


def history(run_dir):
    """Returns what was logged of each epoch so far."""
    path = run_dir / HISTORY
    if not path.exists():
        return []
    with open(path, newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def load_mean_weights(model, paths):
    """Gives a model the mean of the weights in several files.

    Models that learned on from the same weights mostly lie in one basin, where the mean is no worse
    than any of them (Wortsman et al. 2022, Model soups, https://arxiv.org/abs/2203.05482).
    """
    loaded = []
    for path in paths:
        model.load_weights(path)
        loaded.append([weight.numpy() for weight in model.weights])
    for weight, values in zip(model.weights, zip(*loaded, strict=True), strict=True):
        weight.assign(np.mean(values, axis=0))
