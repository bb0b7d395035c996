"""A training job: a core, its data and its settings, in a folder of plain files.

Recipes read strings, pictures or sounds with TensorFlow. Once these are arrays, the rest needs
Keras alone. It may run in this process, or by `python -m zoo.learning FOLDER` on another backend or
another machine, such as JAX on a GPU, where TensorFlow need not be installed. A job that is done
is not run again.
"""

import dataclasses
import json
import pathlib
import shutil

import keras
import numpy as np

from zoo.architectures import ARCHITECTURES
from zoo.atomic import sweep, whole
from zoo.learning.learner import Learner
from zoo.learning.masked import MaskedWindows, OfPlaces
from zoo.learning.pictures import Pictures
from zoo.learning.schedules import WarmUp  # noqa: F401  (registered: optimizers hold it)
from zoo.learning.sounds import Sounds
from zoo.learning.texts import LabelledTexts
from zoo.learning.windows import Windows

DATA = {
    "masked": MaskedWindows,
    "pictures": Pictures,
    "sounds": Sounds,
    "texts": LabelledTexts,
    "windows": Windows,
}
AROUND = {"masked": OfPlaces}  # the model around the core for such data
UNDECAYED = ["gamma", "beta", "bias"]  # parts of the names of variables
JOB, ARRAYS, LEARNED, HISTORY = "job.json", "arrays.npz", "learned.weights.h5", "history.csv"
BACKUP = "backup"  # folder of the state after the last epoch


@dataclasses.dataclass(frozen=True)
class Job:
    """Model, data and settings of a training job.

    Attributes:
        architecture: Name of the architecture of the core.
        config: Config of the core.
        data: Kind of the data, a key of `DATA`.
        options: Arguments of its class, besides the arrays.
        optimizer: Config of the optimizer, which averages the weights; the average is kept.
        epochs: Passes over the data. The weights after the last one are kept.
        label_smoothing: As for `TokenCrossentropy`.
        teachers: For each teacher, the architecture, the config and the weights file of its core.
        teacher_share: As for `Learner`.
        begin_with: File of the initial weights, or `""`.
        dtype: Policy of the computation.
        seed: Seed of everything random.
    """

    architecture: str
    config: dict
    data: str
    options: dict
    optimizer: dict
    epochs: int
    label_smoothing: float = 0.0
    teachers: tuple = ()
    teacher_share: float = 0.0
    begin_with: str = ""
    dtype: str = "mixed_bfloat16"
    seed: int = 1


def write(folder, job, arrays):
    """Writes a job and its arrays; the file of the job comes last and marks it as complete."""
    folder = pathlib.Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    with whole(folder / ARRAYS) as unfinished, open(unfinished, "wb") as file:
        np.savez_compressed(file, **arrays)
    with whole(folder / JOB) as unfinished:
        unfinished.write_text(json.dumps(dataclasses.asdict(job), indent=1) + "\n")


def learned(folder, make):
    """Runs a job, and returns the file of its weights; writes the job first if it does not exist.

    An existing job continues as it was written, even if the recipe has changed since.

    Args:
        folder: Its folder.
        make: Returns the `Job` and its arrays.
    """
    folder = pathlib.Path(folder)
    if (folder / JOB).exists():
        print(f"{folder} holds a job: it goes on as it was written.")
    else:
        write(folder, *make())
    return work(folder)


def work(folder):
    """Runs the job of a folder; started again after a crash, it resumes after the last epoch.

    Args:
        folder: Folder that `write` has written.

    Returns:
        The file of the learned weights, those of the core.

    Raises:
        FileNotFoundError: If there is no job, or a file that it names is missing.
    """
    folder = pathlib.Path(folder)
    weights = folder / LEARNED
    if weights.exists():
        return weights
    if not (folder / JOB).exists():
        raise FileNotFoundError(f"There is no {JOB} in {folder}. A recipe writes it.")
    sweep(folder)
    job, state = Job(**json.loads((folder / JOB).read_text())), _newest_state(folder)
    done = 0 if state is None else _epochs(state)
    keras.utils.set_random_seed(job.seed)
    with np.load(folder / ARRAYS) as arrays:
        # A job that goes on draws anew.
        data = DATA[job.data](dict(arrays), seed=job.seed + done, **job.options)
    core = _core(job.architecture, job.config, job.dtype)
    if job.begin_with:
        core.load_weights(folder / job.begin_with)
    around = AROUND.get(job.data, lambda core: core)
    teachers = [around(_trained(folder, teacher, job.dtype)) for teacher in job.teachers]
    learner = Learner(around(core), teachers, job.teacher_share, job.label_smoothing, data.lens)
    optimizer = keras.optimizers.deserialize(job.optimizer)
    optimizer.exclude_from_weight_decay(var_names=UNDECAYED)
    optimizer.build(learner.trainable_variables)  # a step that makes variables is traced twice
    # Batches differ in length: on a CPU, XLA on TensorFlow and PyTorch's compiler would spend more
    # time compiling than computing.
    learner.compile(optimizer, jit_compile=keras.backend.backend() == "jax")
    if state is not None:
        learner.load_weights(state)
    learner.fit(
        data,
        initial_epoch=done,
        epochs=job.epochs,
        shuffle=False,  # the data set shuffles
        verbose=2,
        callbacks=[_SaveState(folder), keras.callbacks.CSVLogger(folder / HISTORY, append=True)],
    )
    # At its end, `fit` has replaced the weights with their average.
    with whole(weights) as unfinished:
        core.save_weights(unfinished)
    shutil.rmtree(folder / BACKUP, ignore_errors=True)
    return weights


class _SaveState(keras.callbacks.Callback):
    """Saves the weights of the model and of the optimizer after each epoch, in one file.

    Keras' `BackupAndRestore` writes over its only file: a process that is killed then loses all.

    Args:
        folder: Folder of the job.
    """

    def __init__(self, folder):
        super().__init__()
        self.folder = folder

    def on_epoch_end(self, epoch, logs=None):
        state = _state(self.folder, epoch + 1)
        with whole(state) as unfinished:
            self.model.save_weights(unfinished)
        _state(self.folder, epoch).unlink(missing_ok=True)


def _state(folder, epochs):
    return folder / BACKUP / f"epoch-{epochs}.weights.h5"


def _newest_state(folder):
    return max((folder / BACKUP).glob("epoch-*.weights.h5"), key=_epochs, default=None)


def _epochs(state):
    """Returns the number in the name of the file of a state."""
    return int(state.name.partition(".")[0].removeprefix("epoch-"))


def _trained(folder, told, dtype):
    core = _core(told["architecture"], told["config"], dtype)
    core.load_weights(folder / told["weights"])
    return core


def _core(architecture, config, dtype):
    core = ARCHITECTURES[architecture].core(**{**config, "dtype": dtype})
    core.build()
    return core
