"""Presets changed as an attacker would; run as a program, this module tries to load them.

    python -m tests.zoo.mutations FOLDER FIRST COUNT

copies the preset in FOLDER for each of COUNT mutations, changes the copy by the mutation that is
drawn from its number (FIRST, FIRST + 1, ...), updates the hashes and loads it. It prints a JSON
object: `wrong` lists the mutations that raise anything but `ValueError` or `OSError`, `refused` is
the number of those that raise these errors, `megabytes` is the growth in memory.
"""

import json
import math
import pathlib
import random
import resource
import shutil
import sys
import tempfile

import h5py
import numpy as np

import zoo
from zoo.storage import CARD, CONFIG, TOKENIZER, WEIGHTS, presets

ROOM = 3 * 2**30  # bytes of address space that loading may take, above what libraries have
HUGE = 10**9


def sign(folder):
    """Writes the hashes of changed files into the card, as a forger would."""
    card = json.loads((folder / CARD).read_text())
    card["files"] = {name: presets.fingerprint(folder / name) for name in card["files"]}
    (folder / CARD).write_text(json.dumps(card))


# ------------------------------------------------------------------------------------------- JSON


def nested(depth):
    content = []
    for _ in range(depth):
        content = [content]
    return content


def _object(name, /, **config):
    package, class_name = name.split(">")
    modules = {"zoo": "zoo", "keras_attention": "keras_attention"}
    names = {"module": modules[package], "class_name": class_name, "registered_name": name}
    return {**names, "config": config}


OBJECTS = [
    _object("zoo>AttentionRNNTranslator", vocabulary_size=10**12),
    _object("zoo>TransformerLanguageModel", vocabulary_size=300, num_layers=HUGE),
    _object("zoo>Backbone", name="MobileNetV2", image_size=10**6),
    _object("zoo>BeamSampler", num_beams="many"),
    _object("keras_attention>Additive", units=HUGE),
    _object("keras_attention>RandomSynthesizer", max_length=10**6),
    _object("keras_attention>MultiHeadAttention", num_heads=2, key_dim=HUGE),
    {**_object("keras_attention>General"), "build_config": {"query_shape": [1, 1, HUGE]}},
    {"module": "keras.initializers", "class_name": "Constant", "config": {"value": [HUGE]}},
]
VALUES = [
    *(0, -1, 1, 2**31, HUGE, 10**30, 1.5, 1e308, math.nan, True, None, "", "x", "alibi", "a" * 999),
    *([], {}, [1], {"a": 1}, nested(31), nested(900), [OBJECTS[2]] * 99, {"a": OBJECTS[0]}),
    *OBJECTS,
]


def _places(content):
    """Returns pairs of a dictionary or list and a key, at any depth."""
    keys = content if isinstance(content, dict) else range(len(content))
    places = [(content, key) for key in keys]
    for key in keys:
        if isinstance(content[key], dict | list):
            places += _places(content[key])
    return places


def change_json(path, draw):
    """Changes, removes or adds a value, or damages the text of a JSON file."""
    content = json.loads(path.read_text())
    parent, key = draw.choice(_places(content))
    kind = draw.choice(["value", "value", "value", "larger", "lost", "added", "text"])
    value = draw.choice(VALUES)
    if kind == "larger" and isinstance(parent[key], int):
        value = parent[key] + draw.choice([-1, 1, 1000, 10**6, 10**7])
    if kind == "lost":
        del parent[key]
    elif kind == "added" and isinstance(parent, dict):
        parent[draw.choice(["x", "class_name", "build_config", "num_layers", "backbone"])] = value
    elif kind != "text":
        parent[key] = value
    text = json.dumps(content)
    if kind == "text":
        place = draw.randrange(len(text))
        text = text[:place] + draw.choice(["", "[" * 5000, '"', "\x00"]) + text[place + 1 :]
    path.write_text(text)
    return f"{kind} {key!r}: {repr(value)[:60]}"


# ---------------------------------------------------------------------------------------- weights


def _retyped(dtype):
    def change(file, name, array):
        file[name] = np.zeros(array.shape, dtype)

    return change


def _reshaped(shape):
    def change(file, name, array):
        file[name] = np.zeros(shape(array.shape), array.dtype)

    return change


def _created(**options):
    def change(file, name, array):
        file.create_dataset(name, **{"dtype": array.dtype, "shape": array.shape} | options)

    return change


def _linked(link):
    def change(file, name, array):
        file[name] = link

    return change


def _virtual(file, name, array):
    layout = h5py.VirtualLayout(array.shape, array.dtype)
    layout[:] = h5py.VirtualSource("elsewhere.h5", "x", shape=array.shape)
    file.create_virtual_dataset(name, layout)


def _twice(file, name, array):
    for other in _names(file)[:2]:
        file[name] = file[other]
        return


def _cycle(file, name, array):
    file[name] = file[name.split("/")[0]]


def _marked(content):
    def change(file, name, array):
        file[name] = array
        file[name].attrs["dtype"] = content

    return change


def _filled(value):
    def change(file, name, array):
        file[name] = np.full_like(array, value)

    return change


def _lost(file, name, array):
    pass


def _many(file, name, array):
    for number in range(1000):
        file[f"{name}{number}"] = np.zeros(1)


ARRAYS = {
    **{f"dtype {each}": _retyped(each) for each in ("c8", "S5", "?", "i1", "f8", "V2")},
    "compound": _retyped([("a", "f4"), ("b", "f4")]),
    "transposed": _reshaped(lambda shape: shape[::-1]),
    "another axis": _reshaped(lambda shape: (*shape, 1)),
    "more rows": _reshaped(lambda shape: (shape[0] + 1, *shape[1:]) if shape else (2,)),
    "nothing": _reshaped(lambda shape: (0, *shape)),
    "huge, in pieces": _created(shape=(HUGE, 7), chunks=(1000, 7)),
    "huge, compressed": _created(shape=(HUGE, 7), compression="gzip"),
    "huge, nowhere": _created(shape=(HUGE, 7)),
    "compressed": _created(compression="gzip"),
    "texts": _created(dtype=h5py.string_dtype()),
    "elsewhere": _created(external=[("elsewhere.bin", 0, 10**6)]),
    "soft link": _linked(h5py.SoftLink("/decoder")),
    "external link": _linked(h5py.ExternalLink("elsewhere.h5", "x")),
    "empty": _linked(h5py.Empty("f4")),
    "type": _linked(np.dtype("f4")),
    "virtual": _virtual,
    "twice": _twice,
    "cycle": _cycle,
    "marked": _marked("bfloat16"),
    "marked by many": _marked(["bfloat16"] * 9),
    "infinite": _filled(np.inf),
    "lost": _lost,
    "many": _many,
}


def _names(file):
    names = []
    file.visititems(
        lambda name, item: names.append(name) if isinstance(item, h5py.Dataset) else None
    )
    return names


def change_weights(path, draw, kind=None):
    """Replaces an array with another one, with a link, or with nothing."""
    kind = kind or draw.choice(list(ARRAYS))
    with h5py.File(path, "r+") as file:
        name = draw.choice(_names(file))
        array = file[name][()]
        del file[name]
        ARRAYS[kind](file, name, array)
    return f"{name}: {kind}"


# -------------------------------------------------------------------------------------- the program


def mutate(folder, number):
    """Changes a preset, and returns a description of the change."""
    draw = random.Random(number)
    name = draw.choice([CONFIG, CONFIG, WEIGHTS, WEIGHTS, WEIGHTS, TOKENIZER, CARD])
    if name == WEIGHTS:
        return f"{name}, {change_weights(folder / name, draw)}"
    told = change_json(folder / name, draw)
    if name != CARD:
        sign(folder)
    return f"{name}, {told}"


def main(source, first, count):
    wrong, refused, start = [], 0, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    taken = int(pathlib.Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (taken + ROOM, taken + ROOM))
    for number in range(first, first + count):
        with tempfile.TemporaryDirectory() as scratch:
            folder = pathlib.Path(scratch) / "toy"
            shutil.copytree(source, folder)
            told = mutate(folder, number)
            if told.startswith(WEIGHTS):
                sign(folder)
            print(number, told, file=sys.stderr, flush=True)
            try:
                str(zoo.info(folder))
                zoo.load(folder)
            except (ValueError, OSError) as error:
                refused += 1
                print("   ", " ".join(str(error).split())[:300], file=sys.stderr)
            except BaseException as error:
                wrong.append(f"{number} {told}: {type(error).__name__}: {error}")
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - start
    print(json.dumps({"wrong": wrong, "refused": refused, "megabytes": grown / 1e3}))


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
