"""Files are written whole or not at all: after a kill at any point, the next run ends well."""

import functools
import json
import random
import signal
import subprocess
import sys
import time

import numpy as np
import pytest

from tests.zoo.conftest import PAIRS, ROOT
from tests.zoo.killed import TASKS, calling, training
from zoo import atomic
from zoo.data.feature_manifest import Manifest
from zoo.serving import write_server_config
from zoo.training import runs


class Killed(BaseException):
    """An exception that no code may catch."""


def raise_killed():
    raise Killed


def killing(at, number, cut=False):
    return calling(at, number, raise_killed, cut)


# -------------------------------------------------------------------------------------- training


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    """Returns the results of a task that is not killed."""
    return functools.cache(lambda task: TASKS[task](tmp_path_factory.mktemp("whole") / task))


def assert_equal(found, expected):
    for mine, other in zip(found, expected, strict=True):
        if mine.dtype.kind == "f":
            np.testing.assert_allclose(mine, other, rtol=1e-5, atol=1e-6)
        else:
            np.testing.assert_array_equal(mine, other)


# The tokenizer is written first, then in each epoch weights, best weights, state and log.
@pytest.mark.full
@pytest.mark.parametrize("number", [1, 6, 7, 8, 9])
def test_training_that_was_killed_equals_training_that_was_not(tmp_path, number, results, capsys):
    with killing("os.fsync", number, cut=True), pytest.raises(Killed):
        training(tmp_path)
    assert_equal(training(tmp_path), results("training"))
    done = (number - 1) // 4  # the state comes before the log
    line = f"{tmp_path}: training goes on after epoch {done}.\n" if done else ""
    assert capsys.readouterr().out == line
    assert not list(tmp_path.rglob(f"{atomic.UNFINISHED}*"))


@pytest.mark.full
@pytest.mark.parametrize("name", ["epoch-3.json", "epoch-3.weights.h5"])
def test_a_damaged_state_is_ignored_for_the_one_before(tmp_path, name, results, capsys):
    training(tmp_path)
    cut(tmp_path / "backup" / name)
    assert_equal(training(tmp_path), results("training"))
    told = capsys.readouterr().out
    assert "epoch-3.json is damaged, or the weights beside it. It is ignored." in told
    assert "training goes on after epoch 2." in told
    assert len(list((tmp_path / "backup").iterdir())) == 2 * runs.STATES


@pytest.mark.full
def test_without_a_good_state_training_begins_anew(tmp_path, results, capsys):
    training(tmp_path)
    for path in (tmp_path / "backup").glob("*.json"):
        cut(path)
    assert_equal(training(tmp_path), results("training"))
    assert "there is no other state, training begins anew" in capsys.readouterr().out


def test_a_tokenizer_that_cannot_be_read_is_learned_anew(tmp_path, capsys):
    path, texts = tmp_path / "tokenizer.json", [source for source, _ in PAIRS]
    with killing("os.fsync", 1, cut=True), pytest.raises(Killed):
        runs.tokenizer(path, texts, 300)
    assert not path.exists()
    learned = runs.tokenizer(path, texts, 300).get_config()
    cut(path)
    assert runs.tokenizer(path, texts, 300).get_config() == learned
    assert "tokenizer.json does not hold a ByteBPETokenizer" in capsys.readouterr().out
    assert runs.tokenizer(path, [], 300).get_config() == learned


def cut(path):
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


# ------------------------------------------------------------------------------- everything else


def write_manifest(folder):
    Manifest(1, "a", 5, (4, 2), {"layers": ["one"]}, 1, 1).write(folder)


def write_config(folder):
    (folder / "toy" / "1").mkdir(parents=True, exist_ok=True)
    (folder / "toy" / "1" / "saved_model.pb").touch()
    write_server_config(folder)


@pytest.mark.parametrize("write", [write_manifest, write_config])
def test_a_file_that_is_replaced_is_the_old_one_until_it_is_the_new_one(tmp_path, write):
    write(tmp_path)
    (name, *_) = sorted(each.name for each in tmp_path.iterdir() if each.is_file())
    new = (tmp_path / name).read_text()
    (tmp_path / name).write_text("old")
    for at in ("os.fsync", "os.replace"):
        with killing(at, 1 if name == "manifest.json" else 2), pytest.raises(Killed):
            write(tmp_path)
        assert (tmp_path / name).read_text() == "old"
    write(tmp_path)
    assert (tmp_path / name).read_text() == new


@pytest.mark.few(1)
@pytest.mark.parametrize(
    ("task", "at", "number"),
    [
        ("preparation", "zoo.data.multi30k_files.read_pairs", 1),
        ("preparation", "tensorflow_datasets.core.DatasetInfo.write_to_directory", 1),
        ("export", "os.fsync", 1),
        ("export", "os.rename", 1),
        ("preset", "os.fsync", 1),
        ("preset", "os.replace", 2),
    ],
)
def test_what_was_killed_ends_well_the_next_time(tmp_path, task, at, number, results):
    with killing(at, number, cut=at == "os.fsync"), pytest.raises(Killed):
        TASKS[task](tmp_path / "killed")
    assert_equal(TASKS[task](tmp_path / "killed"), results(task))


# ------------------------------------------------------------------------------ 50 kills by SIGKILL

RANDOM = random.Random(1)
PREPARATION = [
    "zoo.data.multi30k_files.read_pairs",
    "tensorflow_datasets.core.DatasetInfo.write_to_directory",
]
KILLS = [
    *(("training", {"at": "os.fsync", "number": n, "cut": True}) for n in range(1, 11)),
    *(("training", {"at": "os.replace", "number": n}) for n in (3, 6, 9)),
    *(("preparation", {"at": at, "number": 1}) for at in PREPARATION),
    *(("features", {"at": "os.fsync", "number": n, "cut": True}) for n in (1, 2, 4)),
    ("features", {"at": "os.replace", "number": 3}),
    *(("export", {"at": "os.fsync", "number": n, "cut": True}) for n in (1, 2, 3)),
    ("export", {"at": "os.rename", "number": 1}),
    *(("preset", {"at": "os.fsync", "number": n, "cut": True}) for n in range(1, 6)),
    ("preset", {"at": "os.replace", "number": 1}),
    *(("training", RANDOM.random()) for _ in range(7)),
    *((task, RANDOM.random()) for task in list(TASKS)[1:] for _ in range(4)),
]


@pytest.fixture(scope="module")
def seconds(tmp_path_factory):
    """Measures how long a task takes in a process of its own."""

    @functools.cache
    def measure(task):
        process = start(task, tmp_path_factory.mktemp("measured") / task)
        began = time.monotonic()
        assert process.wait() == 0
        return time.monotonic() - began

    return measure


def start(task, folder, *kill):
    """Starts a task in a process of its own, and returns when it has imported everything."""
    command = [sys.executable, "-m", "tests.zoo.killed", task, str(folder), *kill]
    process = subprocess.Popen(
        command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    )
    assert process.stdout.readline() == "ready\n"
    return process


@pytest.mark.full
@pytest.mark.parametrize(("task", "kill"), KILLS)
def test_a_process_that_was_killed_is_followed_by_one_that_ends_well(
    tmp_path, task, kill, results, seconds
):
    exact = isinstance(kill, dict)
    process = start(task, tmp_path / task, *([json.dumps(kill)] if exact else []))
    if not exact:
        time.sleep(kill * seconds(task))
        process.kill()
    process.communicate()
    assert process.returncode == -signal.SIGKILL or not exact
    assert_equal(TASKS[task](tmp_path / task), results(task))
