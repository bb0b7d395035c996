"""A preset as one zip file: its files, at the root or in one folder, and nothing else."""

import re
import shutil
import stat
import zipfile
import zlib

from zoo.storage import CARD, FILES, LARGEST, README, TOKENIZER

LARGEST_ARCHIVE = sum(LARGEST.values())

# What writers of archives use; others need modules that some builds of Python lack, or much memory.
_METHODS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
_BROKEN = (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, RuntimeError)


def pack(folder, path):
    """Writes the files of a preset into a new archive."""
    root = re.sub(r"[/\\:]", "_", folder.name)  # a name that `unpack` accepts
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name in FILES:
            if (folder / name).exists():  # a model without texts has no tokenizer
                archive.write(folder / name, f"{root}/{name}")


def unpack(path, folder):
    """Writes the files of an archive into a new folder.

    The archive does not decide where they go: its names are compared, and never used as paths.

    Args:
        path: The archive.
        folder: The folder to create; must not exist.

    Raises:
        ValueError: If it is not a zip file, or is damaged; if it contains anything but the files of
            a preset, once each, at its root or in one folder; if one is a link, compressed by
            another method than Deflate, or too large.
    """
    try:
        with zipfile.ZipFile(path) as archive:
            members = _members(archive)
            folder.mkdir()
            for name, member in members.items():
                # `copyfileobj` never writes more than the size that was checked.
                with archive.open(member) as source, open(folder / name, "wb") as target:
                    shutil.copyfileobj(source, target)
    except _BROKEN as error:
        raise ValueError(f"it is not a zip file, or is damaged: {error}") from error


def _members(archive):
    """Returns a dictionary from the names of the files to their members of the archive."""
    members = {member.filename: member for member in archive.infolist()}
    cards = [name for name in members if name.endswith(CARD)]
    root = min(cards, key=len, default=CARD).removesuffix(CARD)
    is_root = root == "" or (re.fullmatch(r"[^/\\:]+/", root) and root not in ("./", "../"))
    found = [member.filename for member in archive.infolist() if member.filename != root]
    names = [name.removeprefix(root) for name in found if name != root + README]
    names += [] if TOKENIZER in names else [TOKENIZER]
    if not is_root or sorted(names) != sorted(FILES):
        some = ", ".join(map(repr, found[:9])) + (", ..." if len(found) > 9 else "")
        raise ValueError(
            f"an archive should hold {', '.join(FILES)}, in its root or in one folder, and nothing "
            f"else. Found: {some or 'nothing'}"
        )
    files = {name: members[root + name] for name in FILES if root + name in members}
    for name, member in files.items():
        if stat.S_IFMT(member.external_attr >> 16) not in (0, stat.S_IFREG):
            raise ValueError(f"{name} in it should be a file, and is a link or a device")
        if member.compress_type not in _METHODS:
            raise ValueError(f"{name} in it should be stored as it is, or compressed by Deflate")
        size, largest = member.file_size, LARGEST[name]
        if size > largest:
            raise ValueError(f"{name} in it would take {size} bytes, and {largest} are the most")
    return files
