"""The Tatoeba files: their names, the content they are pinned to, and how they are read."""

import gzip
import hashlib
import pathlib

FILES = {"train": "train.tsv.gz", "dev": "dev.tsv.gz"}
HELD_OUT = 1000  # English sentences

# sha256 and bytes of every file.
CHECKSUMS = {
    "train.tsv.gz": (
        "87399bcfda61b6abeaef399c4dabd16306653d3b003b3e63bdd1dab066bb4dc0",
        3890865,
    ),
    "dev.tsv.gz": (
        "58b5f4f01d881fb075543e0f421d22b4cb8ba4621a11f0e7d7350d1b0b9ee47e",
        63816,
    ),
}

HOW_TO_GET = (
    "These two files are a fixed split of manythings.org's deu-eng file of 2018-05-13, in which no "
    "sentence of either language stands in two parts: gzipped lines of an English sentence, a tab "
    "and its German translation. They cannot be downloaded: https://www.manythings.org/anki offers "
    "its newest file only, and a split of that one would have other sentences of the training part "
    "in the part that is measured. If you have them, put them into one folder and name it: "
    "manual_dir='<folder>' in Python; for the recipe, call it tatoeba_en_de, beside multi30k in "
    "one folder: --data-dir '<folder>'. To train on the newest file, give its sentences to fit."
)


def find_file(folder, part):
    """Finds and checks a file.

    Args:
        folder: Path of the folder, or `None` if none was given.
        part: A key of `FILES`.

    Returns:
        The path.

    Raises:
        FileNotFoundError: If it is missing; the message says what it should contain.
        ValueError: If its content is not the pinned one.
    """
    name = FILES[part]
    if folder is None:
        raise FileNotFoundError(
            f"Tatoeba: no folder with {' and '.join(FILES.values())} was named.\n{HOW_TO_GET}"
        )
    folder = pathlib.Path(folder).expanduser()
    path = folder / name
    if not path.is_file():
        raise FileNotFoundError(
            f"Tatoeba: {name} is not in the folder '{folder}'"
            f"{'' if folder.is_dir() else ', which does not exist'}.\n{HOW_TO_GET}"
        )
    content = path.read_bytes()
    found, expected = (hashlib.sha256(content).hexdigest(), len(content)), CHECKSUMS[name]
    if found != expected:
        raise ValueError(
            f"{path} is not the Tatoeba file of that name: expected sha256 {expected[0]} "
            f"({expected[1]} bytes), found {found[0]} ({found[1]} bytes). It is damaged or another "
            f"version.\n{HOW_TO_GET}"
        )
    return path


def read_translations(path):
    """Reads a file whose lines are an English sentence, a tab and a German one.

    Returns:
        Dictionary from each English sentence to the list of its translations, both in the order of
        the file.

    Raises:
        ValueError: If a line does not have two fields.
    """
    text = gzip.decompress(pathlib.Path(path).read_bytes()).decode("utf-8")
    translations = {}
    for number, line in enumerate(text.removesuffix("\n").split("\n"), start=1):
        english, tab, german = line.partition("\t")
        if not (english and tab and german) or "\t" in german:
            raise ValueError(
                f"{path}, line {number}: expected an English sentence, a tab and a German one. "
                f"Found: {line!r:.80}."
            )
        translations.setdefault(english, []).append(german)
    return translations


def hold_out(translations, number):
    """Holds out sentences for validation; the remaining ones are for training.

    The English sentences with the smallest sha256 are held out, each with all its translations.
    The remaining sentences have none of these translations, either.

    Args:
        translations: Dictionary from sentences to lists of translations.
        number: Number of sentences to hold out.

    Returns:
        Two such dictionaries: the remaining sentences, and those held out.

    Example:

    >>> remaining, held_out = hold_out({"Hi.": ["Hallo!"], "Hello.": ["Hallo!", "Tag!"]}, 1)
    >>> remaining, held_out
    ({'Hello.': ['Tag!']}, {'Hi.': ['Hallo!']})
    """
    order = sorted(translations, key=lambda text: hashlib.sha256(text.encode()).digest())
    held_out = {english: translations[english] for english in order[:number]}
    seen = {german for each in held_out.values() for german in each}
    remaining = {}
    for english, each in translations.items():
        unseen = [german for german in each if german not in seen]
        if english not in held_out and unseen:
            remaining[english] = unseen
    return remaining, held_out
