"""The raw Multi30k files: their names, the content they are pinned to, and how they are read."""

import gzip
import hashlib
import pathlib

URL = "https://raw.githubusercontent.com/multi30k/dataset/master/data/task1/raw/"

# TFDS split -> upstream's prefix of the names of its files.
FILE_PREFIXES = {
    "train": "train",
    "validation": "val",
    "test_2016_flickr": "test_2016_flickr",
    "test_2017_flickr": "test_2017_flickr",
    "test_2017_mscoco": "test_2017_mscoco",
}

# sha256, bytes and name of every file at upstream's commit a3d2e0d. The URL follows the branch;
# these hashes pin the content.
_CHECKSUM_TABLE = """\
9204244e408ccb38d2a55cfcd344df15005fc42a07a6e55ca6c52b6ababb8cc8  22890  test_2016_flickr.de.gz
611d361c6334bc7246101d48097c13cf5c4413c5befc793cc629934359d532d9  21077  test_2016_flickr.en.gz
6d326e188d259fb1d04ac19eae3af956559b3a0b93d7635e56c90987c40c8b90  22310  test_2016_flickr.fr.gz
a2c89666db00c495cd8513b9d708d5a3acc205d7de312ef2bf5fb7ebc1540aee  21471  test_2017_flickr.de.gz
76a444ee25172e72695cddb13ae4a3bda59430617be88e0bb46b60504f054074  19138  test_2017_flickr.en.gz
3ba671ceb2299f3304ffafefea7a833d08632fbaf0ba18546f8a2ec2391af496  20434  test_2017_flickr.fr.gz
799e4854c25d601cb6cb6be29eabe5667734c61ace2f495e03e429031a0bc338  10230  test_2017_mscoco.de.gz
aab300bfb4427697987e02cd0aacd44bfe8aa50456231b6474c08038bbed2b58  8844  test_2017_mscoco.en.gz
754f3072ba9f124569ba5258b32730fc1d214bbf8e0c6dfb2b74401676220db0  9751  test_2017_mscoco.fr.gz
726e39b2fa9eb9ffb6dc763fb35a179f80fae06ffc5d28b6ace5faa883de28a6  637044  train.de.gz
d79cfa999dd4c51d2cb42499b6796d5a882c3a8a961923c25a898c90f8bbd56f  568929  train.en.gz
622e75069e9f4c577425c4f277116ce66e63a2401c0a2312d90073cb12379a3c  604242  train.fr.gz
f0cba2f995189cf5770f29a8a9a537a3ad3f51657ad873405082ff6863a5e75a  24681  val.de.gz
14f7d25ddd868909a9213e361768460edcacdd6ab9d1e77b92560dc10c10dc28  21650  val.en.gz
ca3106f1a72390591d25f6c45cb4cd39dec4cd3f123e099748a3ce5256c160e9  23001  val.fr.gz
"""
CHECKSUMS = {
    name: (sha256, int(size)) for sha256, size, name in map(str.split, _CHECKSUM_TABLE.splitlines())
}


def split_file_names(split, languages):
    """Returns the name of the file of each language, e.g. `["val.en.gz", "val.de.gz"]`."""
    return [f"{FILE_PREFIXES[split]}.{language}.gz" for language in languages]


def pinned_content(split, languages):
    """Returns a short hash of the content that the files of a split are pinned to."""
    hashes = [CHECKSUMS[name][0] for name in split_file_names(split, languages)]
    return hashlib.sha256("".join(hashes).encode()).hexdigest()[:16]


def find_split_files(folder, split, languages):
    """Finds and checks the files of one split in a folder, or in its subfolder `raw`.

    Args:
        folder: Path of the folder.
        split: A key of `FILE_PREFIXES`.
        languages: Language codes, e.g. `("en", "de")`.

    Returns:
        A list of paths, one for each language.

    Raises:
        FileNotFoundError: If a file is in neither place; the message says where to get it.
        ValueError: If the content of a file is not the pinned one.
    """
    names = split_file_names(split, languages)
    folder = pathlib.Path(folder).expanduser()
    places = [folder / "raw", folder]
    found = [_first_existing(places, name) for name in names]
    missing = [name for name, path in zip(names, found, strict=True) if path is None]
    if missing:
        raise FileNotFoundError(
            f"Multi30k split {split!r} is not in the folder '{folder}'"
            f"{'' if folder.is_dir() else ', which does not exist'}: looked for "
            f"{' and '.join(names)} in '{places[0]}' and '{places[1]}', "
            f"did not find {' and '.join(missing)}.\n{how_to_get(missing)}"
        )
    for path in found:
        _check_content(path)
    return found


def read_pairs(paths):
    """Reads two gzipped files with one sentence per line, which are translations of each other.

    Args:
        paths: The source file and the target file.

    Returns:
        A list of `(source, target)` strings in the order of the files.

    Raises:
        ValueError: If the files differ in their number of lines.
    """
    source, target = (_read_lines(path) for path in paths)
    if len(source) != len(target):
        raise ValueError(
            f"Multi30k: {paths[0]} has {len(source)} lines, but {paths[1]} has {len(target)}. "
            "Line n of one must be the translation of line n of the other: fetch both files again."
        )
    return list(zip(source, target, strict=True))


def how_to_get(names):
    """Returns the part of an error message that says where the files are and where they go."""
    urls = "\n".join(f"  {URL}{name}" for name in names)
    return (
        f"Download, on a machine with internet:\n{urls}\n"
        "put the files into one folder (or its subfolder raw/), and name it: --data-dir '<folder>',"
        " or manual_dir='<folder>' in Python."
    )


def _first_existing(places, name):
    return next((place / name for place in places if (place / name).is_file()), None)


def _check_content(path):
    content = path.read_bytes()
    found = hashlib.sha256(content).hexdigest(), len(content)
    expected = CHECKSUMS[path.name]
    if found != expected:
        raise ValueError(
            f"{path} is not the Multi30k file of that name: expected sha256 {expected[0]} "
            f"({expected[1]} bytes), found {found[0]} ({found[1]} bytes). It is damaged or another "
            f"version.\n{how_to_get([path.name])}"
        )


def _read_lines(path):
    # Not splitlines(): it would also split at other Unicode line separators, and misalign all later
    # lines with their translations.
    text = gzip.decompress(pathlib.Path(path).read_bytes()).decode("utf-8")
    return text.removesuffix("\n").split("\n")
