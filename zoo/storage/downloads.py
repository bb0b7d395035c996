"""Presets from elsewhere: archives, local or at a URL, and Hugging Face repositories."""

import contextlib
import hashlib
import os
import pathlib
import re
import sys
import urllib.parse

import keras
import pooch

from zoo.atomic import flush, unfinished_folder
from zoo.storage import CARD, CONFIG, FILES
from zoo.storage.archives import LARGEST_ARCHIVE, unpack
from zoo.storage.kinds import HUB, REPOSITORY, is_adapter, is_checkpoint
from zoo.storage.presets import check_files, fingerprint

PIN = "#sha256="
# The files of a transformers checkpoint, besides those of a preset; no code.
OF_CHECKPOINTS = (
    "*.spm",
    "*_Dense/config.json",
    "*_Dense/model.safetensors",
    "*_Pooling/config.json",
    "adapter_config.json",
    "adapter_model.safetensors",
    "added_tokens.json",
    "chat_template.jinja",
    "config_sentence_transformers.json",
    "generation_config.json",
    "merges.txt",
    "model*.safetensors",
    "model.safetensors.index.json",
    "modules.json",
    "preprocessor_config.json",
    "processor_config.json",
    "sentence_bert_config.json",
    "sentencepiece.bpe.model",
    "special_tokens_map.json",
    "spiece.model",
    "spm.model",
    "tokenizer.model",
    "tokenizer_config.json",
    "vocab.json",
    "vocab.txt",
)
PICKLED = (  # if there is nothing better
    "*_Dense/pytorch_model.bin",
    "pytorch_model*.bin",
    "pytorch_model.bin.index.json",
)
SECONDS = 30  # to wait for a server
_BLOCK = 2**16  # bytes


def is_elsewhere(name):
    """Whether a name is one that `fetch` resolves.

    Example:

    >>> [is_elsewhere(name) for name in ("luong_nmt", "https://a.org/b.zip", "hf://a/b", "b.zip")]
    [False, True, True, True]
    """
    return "://" in name or name.partition(PIN)[0].endswith(".zip")


def fetch(name):
    """Returns a folder with the files of a preset, which is kept for later calls.

    Args:
        name: The URL `https://...` or the path of an archive; both may end with `#sha256=` and the
            hash of the archive, in which case `http://` is accepted, too. Or `hf://user/name` or
            `hf://user/name@revision`, a repository on the Hugging Face Hub.

    Returns:
        A `pathlib.Path`: in `presets` in the folder of Keras, which is `~/.keras` or the value of
        `KERAS_HOME`, or in the cache of the Hugging Face client.

    Raises:
        ValueError: If the name has another form, or an archive does not match its hash or does not
            contain a preset.
        OSError: If the download fails, or there is no such archive.
        ImportError: If the Hugging Face client is missing.
    """
    if name.startswith(HUB):
        return _from_hub(name.removeprefix(HUB))
    address, pin, sha256 = name.partition(PIN)
    sha256 = sha256.lower()
    if pin and not re.fullmatch("[0-9a-f]{64}", sha256):
        raise ValueError(f"{PIN} should go before 64 hexadecimal digits. Received: {name}.")
    if "://" not in address:
        archive = pathlib.Path(address)
        found = _checked_hash(archive, address, sha256)
        return _unpacked(archive.stem, found, address, lambda _: archive)
    if "#" in address:
        raise ValueError(f"A URL may end with {PIN} and a hash, no other part. Received: {name}.")
    _require_safe(address, sha256)
    stem = pathlib.PurePosixPath(urllib.parse.urlsplit(address).path).stem
    # The key is the whole name: an archive that came without a hash was not compared with one.
    key = hashlib.sha256(name.encode()).hexdigest()
    return _unpacked(stem, key, address, lambda folder: _download(address, sha256, folder))


def _unpacked(stem, key, address, get):
    """Returns the folder of an archive; unpacks it, atomically, unless it was unpacked before.

    Args:
        stem, key: The name of the folder: the readable part, and the part that makes it unique.
        address: Where the archive is, for messages.
        get: Returns the path of the archive; may write it into the folder it is given.
    """
    home = pathlib.Path(os.environ.get("KERAS_HOME") or pathlib.Path.home() / ".keras")
    folder = home / "presets" / f"{re.sub('[^A-Za-z0-9_]', '-', stem)[:60]}-{key[:32]}"
    if (folder / CARD).is_file():
        return folder
    with unfinished_folder(folder.parent) as unfinished:
        archive = get(unfinished)
        new = unfinished / "preset"
        try:
            unpack(archive, new)
            check_files(new, "Its author has to create the archive again.")
        except ValueError as error:
            raise ValueError(f"{address} holds no preset that can be used: {error}") from error
        flush(new)
        try:
            os.rename(new, folder)
        except OSError:
            if not (folder / CARD).is_file():  # else another process was faster
                raise
    return folder


def _require_safe(url, sha256):
    scheme = urllib.parse.urlsplit(url).scheme
    if scheme == "http" and not sha256:
        raise ValueError(
            f"Anybody on the way could change what comes from {url}. Use https://, or append the "
            f"hash of the archive: {url}{PIN}..."
        )
    if scheme not in ("http", "https"):
        raise ValueError(
            "A preset comes from a folder, a .zip file, https://... or hf://user/name. "
            f"Received: {url}."
        )


def _checked_hash(archive, address, sha256):
    """Returns the hash of an archive, which must be `sha256` unless that is empty."""
    found = fingerprint(archive)["sha256"]
    if sha256 not in ("", found):
        raise ValueError(
            f"{address} is damaged, or another one: its sha256 should be {sha256}. "
            f"Found: {found}. Get it again, or ask its provider for its hash."
        )
    return found


def _download(url, sha256, folder):
    """Downloads an archive into a folder, and returns its path."""
    path = folder / "archive.zip"

    try:
        with (
            open(path, "wb") as file,
            contextlib.redirect_stdout(sys.stderr),  # the output of a command stays clean
        ):
            print(f"Downloading {url}")
            archive = _Limited(file, url)

            def check(response, **_):
                _require_safe(response.url, sha256)  # where redirections led to
                archive.expect(response.headers.get("Content-Length"))

            get = pooch.HTTPDownloader(
                chunk_size=_BLOCK, timeout=SECONDS, hooks={"response": check}
            )
            get(url, archive, pooch=None)
    except OSError as error:
        raise ConnectionError(
            f"{url} could not be downloaded: {error}. Download it on a machine with internet, and "
            "load it by the path of the .zip file."
        ) from error
    _checked_hash(path, url, sha256)
    return path


class _Limited:
    """A file that accepts at most the size of the largest archive, and shows the progress."""

    def __init__(self, file, url):
        self._file, self._url = file, url

    def expect(self, size):
        self._bar = keras.utils.Progbar(size and int(size), interval=1, unit_name="byte")

    def write(self, block):
        self._file.write(block)
        if self._file.tell() > LARGEST_ARCHIVE:
            raise ValueError(
                f"{self._url} gives more than {LARGEST_ARCHIVE} bytes, the most that an archive "
                "may have."
            )
        self._bar.update(self._file.tell())

    def flush(self):
        self._file.flush()


def _from_hub(name):
    """Returns the folder of a Hugging Face Hub repository, in the cache of its client."""
    repository, _, revision = name.partition("@")
    if not REPOSITORY.fullmatch(repository):
        raise ValueError(
            f"Expected {HUB}user/name or {HUB}user/name@revision. Received: {HUB}{name}."
        )
    try:
        import huggingface_hub
    except ImportError as error:
        raise ImportError(
            f"{HUB} needs the client of Hugging Face: pip install 'keras-attention-zoo[hub]'."
        ) from error

    def download(*patterns):
        try:
            folder = huggingface_hub.snapshot_download(
                repository, revision=revision or None, allow_patterns=list(patterns)
            )
        except OSError as error:  # which says what was asked for or not, as the version has it
            raise OSError(f"{HUB}{name} cannot be downloaded: {error}") from error
        return pathlib.Path(folder)

    folder = download(*FILES, *OF_CHECKPOINTS)
    if (folder / CARD).is_file():
        return folder
    if not is_checkpoint(folder):
        raise ValueError(
            f"{HUB}{name} holds neither a preset nor a checkpoint of transformers: in the root of "
            f"the repository there is no {CARD}, and no {CONFIG} of a model."
        )
    if is_adapter(folder):
        has_weights = (folder / "adapter_model.safetensors").is_file()
        return folder if has_weights else download("adapter_model.bin")
    places = folder, *folder.glob("*_Dense")
    are_safe = all(any(place.glob("model*.safetensors")) for place in places)
    return folder if are_safe else download(*PICKLED)
