"""Answers a file of texts, or a folder of images or sounds, of any size, in a file.

Answers are appended as they come. An interrupted run continues where it stopped, with the same
answers as an uninterrupted one: `OUTPUT.progress` records the progress, and is removed at the end.
A row that cannot be answered becomes an empty line and an entry in `OUTPUT.errors`.

A file that ends with `.jsonl` holds JSON lines: texts, or objects with a `text`. One that ends with
`.tsv` holds columns without a header, the text first. One that ends with `.csv` is refused, also as
output; any other holds one text per line. If several texts are needed, such as a question and a
context, they come from objects, by name, or the first columns.
"""

import codecs
import functools
import hashlib
import itertools
import json
import os
import pathlib
import sys
from typing import Any, NamedTuple

import click

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None

from zoo.atomic import whole
from zoo.readers import PICTURES, SOUNDS, files_of

JSON_LINES, COLUMNS = ".jsonl", ".tsv"
COMMAS = ".csv"  # of which a line is neither a text nor a row
PROGRESS, ERRORS = ".progress", ".errors"
TEXT, FILE = "text", "file"


class Row(NamedTuple):
    """A row of the input.

    Attributes:
        place: Where the next row begins: a byte offset in a file, or the index of a file in a
            folder.
        fields: Dictionary of the fields of the row in the output besides its answer.
        content: Input of the model.
        problem: Why there is no content, or `None`.
    """

    place: int
    fields: dict
    content: Any = None
    problem: str | None = None


def refuse_utf16(content, name):
    """Raises a `ValueError` if bytes begin like a text in UTF-16."""
    if content.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        raise ValueError(f"{name} is in UTF-16. Save it in UTF-8.")


class TextFile:
    """The texts of a file, one row per line.

    Args:
        path: Its path.
        names: Names of the texts in a line. If there are several, the content of a row is a tuple.

    Raises:
        ValueError: If it is a CSV file, an image, a sound, in UTF-16 or no regular file, or a line
            of such a file has room for only one text.
    """

    def __init__(self, path, names=(TEXT,)):
        self.path, self.kind = pathlib.Path(path), pathlib.Path(path).suffix.lower()
        self.names = tuple(names)
        if self.kind == COMMAS:
            raise ValueError(
                f"The texts must be in a {JSON_LINES}, {COLUMNS} or .txt file. Received: {path}. "
                f"Write lines of JSON into a {JSON_LINES} file; columns between tabs, the text "
                f"first and no header, into a {COLUMNS} file; or one text per line into a .txt."
            )
        if self.kind in PICTURES + SOUNDS:
            raise ValueError(
                f"{path} is not a file of texts. For a model of images or sounds, give the folder "
                "that it is in, or the file itself as an argument."
            )
        if len(self.names) > 1 and self.kind not in (COLUMNS, JSON_LINES):
            raise ValueError(
                f"{path} should end with {JSON_LINES}, for objects with {self._told}, or with "
                f"{COLUMNS}, for these as columns."
            )
        if not self.path.is_file():
            raise ValueError(f"{path} is not a file that can be read again after an interruption.")
        with open(self.path, "rb") as file:
            refuse_utf16(file.read(2), path)
        told = self.path.stat()
        self.size = told.st_size
        self.state = {"bytes": told.st_size, "modified": told.st_mtime_ns}

    def rows(self, place):
        """Yields each `Row` from a place on."""
        with open(self.path, "rb") as file:
            file.seek(place)
            for line in file:
                begin = b"\xef\xbb\xbf" if place == 0 else b""
                place += len(line)
                yield self._row(place, line.removeprefix(begin).rstrip(b"\r\n"))

    def _row(self, place, line):
        try:
            text = line.decode()
            if self.kind == COLUMNS:
                columns, count = text.split("\t"), len(self.names)
                if len(columns) < count:
                    raise ValueError(f"A line has the columns {self._told}.")
                others = {f"column_{n}": x for n, x in enumerate(columns[count:], start=count + 1)}
                return self._of_fields(
                    place, {**dict(zip(self.names, columns, strict=False)), **others}
                )
            if self.kind == JSON_LINES:
                found = json.loads(text)
                is_text = len(self.names) == 1 and not isinstance(found, dict)
                fields = {self.names[0]: found} if is_text else found
                if not isinstance(fields, dict) or not all(
                    isinstance(fields.get(name), str) for name in self.names
                ):
                    string = "a string, or " if len(self.names) == 1 else ""
                    raise ValueError(f"A line is {string}an object with {self._told}.")
                return self._of_fields(place, fields)
            return self._of_fields(place, {self.names[0]: text})
        except UnicodeDecodeError as error:
            return Row(place, {}, problem=f"The line is not in UTF-8: {error}.")
        except json.JSONDecodeError as error:
            told = f"{error.msg} at character {error.pos}"
            return Row(place, {}, problem=f"The line is not JSON: {told}.")
        except UnicodeEncodeError:
            return Row(
                place, {}, problem="The line has half of a surrogate pair, which is no text."
            )
        except (ValueError, RecursionError) as error:
            return Row(place, {}, problem=str(error))

    def _of_fields(self, place, fields):
        texts = tuple(fields[name] for name in self.names)
        _json(fields)  # which fails for half of a surrogate pair: that is no text
        return Row(place, fields, texts if len(texts) > 1 else texts[0])

    @property
    def _told(self):
        return " and ".join(f"a {name!r}" for name in self.names)


def state_of(files):
    """Returns a hash of the names of files, their sizes, and the times they were modified at."""
    told = hashlib.sha256()
    for file in files:
        try:
            found = file.stat()
        except OSError as error:  # which is told when the file is read
            told.update(f"{file.name!r} {error.errno}\n".encode())
        else:
            told.update(f"{file.name!r} {found.st_size} {found.st_mtime_ns}\n".encode())
    return told.hexdigest()


class FileFolder:
    """The images or the sounds in a folder, by name.

    Args:
        path: Its path.
        kind: `"image"` or `"sound"`.

    Raises:
        ValueError: If there is none.
    """

    def __init__(self, path, kind="image"):
        self.files = files_of(path, kind)
        self.size = len(self.files)
        self.state = {f"{kind}s": state_of(self.files)}

    def rows(self, place):
        """Yields each `Row` from a place on."""
        for number, file in enumerate(self.files[place:], start=place + 1):
            name = os.fsencode(file.name).decode(errors="replace")
            try:
                yield Row(number, {FILE: name}, file.read_bytes())
            except OSError as error:
                yield Row(number, {FILE: name}, problem=str(error))


def one_by_one(function, chunks):
    """Yields each chunk with the result of a function for it, without workers."""
    for chunk in chunks:
        yield chunk, function(chunk)


def answer_file(source, output, answer, job, at_once, run=one_by_one):
    """Answers each row of a source in a line of a file.

    Args:
        source: A `TextFile` or a `FileFolder`.
        output: Path of the file to write. The extension determines the lines: for `.jsonl` the
            fields of the row and the answer, for `.tsv` the same as columns, otherwise only the
            answer.
        answer: Takes a list of contents and the number of contents before them, and returns a
            dictionary for each, of str, numbers, or lists of these. JSON lines hold them as they
            are; elsewhere numbers have six digits, and lists become a text with commas.
        job: Dictionary of what the answers depend on besides the source, for JSON.
        at_once: Number of rows to answer at a time.
        run: Function that takes a function and chunks, and yields pairs of a chunk and its result,
            in order: `one_by_one`, or that of `zoo.file_workers.workers`.

    Returns:
        The number of rows that could not be answered.

    Raises:
        ValueError: If the output exists and is complete, was begun by another job, lost what it
            had, or is being written by another process; or if it is a CSV file, or no file.
    """
    output = pathlib.Path(output)
    if not output.name:
        raise ValueError(f"The output must be the path of a file. Received: {os.fspath(output)!r}.")
    if output.suffix.lower() == COMMAS:
        raise ValueError(
            f"The output must be a {JSON_LINES}, {COLUMNS} or .txt file. Received: {output}."
        )
    progress = _progress_of(output)
    job = json.loads(json.dumps({**job, "at_once": at_once, "source": source.state}))
    done = _begin(output, progress, job)
    bar = click.progressbar(
        length=source.size, file=sys.stderr, hidden=not sys.stderr.isatty(), width=0
    )
    with bar, open(output, "ab") as answers, open(_errors_of(output), "ab") as errors:
        _lock(answers)
        answers.truncate(done["bytes"])
        errors.truncate(done["bytes_of_errors"])
        bar.update(done["place"])
        chunks = _in_chunks(source.rows(done["place"]), at_once, done["rows"])
        for (rows, _), found in run(functools.partial(_answered, answer), chunks):
            for number, (row, told) in enumerate(zip(rows, found, strict=True), done["rows"] + 1):
                if isinstance(told, str):
                    done["failed"] += 1
                    errors.write(_json({"line": number, **row.fields, "error": told}))
                    answers.write(b"\n")
                else:
                    answers.write(_line(row.fields, told, output.suffix.lower()))
            bar.update(rows[-1].place - done["place"])
            for file in (answers, errors):
                file.flush()
                os.fsync(file.fileno())
            done |= {
                "place": rows[-1].place,
                "rows": done["rows"] + len(rows),
                "bytes": answers.tell(),
                "bytes_of_errors": errors.tell(),
            }
            _write_progress(progress, job, done)
    if not done["failed"]:
        _errors_of(output).unlink()
    progress.unlink()
    return done["failed"]


def require_unanswered(output):
    """Raises a `ValueError` if the output of `answer_file` exists and is complete."""
    if output.exists() and not _progress_of(output).exists():
        raise ValueError(f"{output} exists already. Remove it, or choose another output.")


def _begin(output, progress, job):
    """Returns the progress so far."""
    if progress.exists():
        begun = json.loads(progress.read_text())
        if begun["job"] != job:
            raise ValueError(
                f"{output} was begun with another input, model or options. Remove it and "
                f"{progress}, or choose another output."
            )
        done = begun["done"]
        for file, size in ((output, done["bytes"]), (_errors_of(output), done["bytes_of_errors"])):
            if size > (file.stat().st_size if file.exists() else 0):
                raise ValueError(
                    f"{file} was changed or removed since the run was interrupted. Remove "
                    f"{progress} and {output} to start again."
                )
        return done
    require_unanswered(output)
    done = {"place": 0, "rows": 0, "failed": 0, "bytes": 0, "bytes_of_errors": 0}
    _write_progress(progress, job, done)
    return done


def _lock(file):
    """Locks an open file until it is closed, on systems and disks that have such locks.

    Raises:
        ValueError: If somebody else has locked it.
    """
    if fcntl is None:
        return
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        raise ValueError(
            f"{file.name} is being written by another process. Wait until that one is done, or "
            "choose another output."
        ) from error
    except OSError:  # a network disk without locks
        pass


def _write_progress(progress, job, done):
    with whole(progress) as unfinished:
        unfinished.write_text(json.dumps({"job": job, "done": done}))


def _progress_of(output):
    return output.with_name(output.name + PROGRESS)


def _errors_of(output):
    return output.with_name(output.name + ERRORS)


def _in_chunks(rows, size, before):
    """Yields lists of consecutive rows, each with the number of rows before it."""
    rows = iter(rows)
    while chunk := list(itertools.islice(rows, size)):
        yield chunk, before
        before += len(chunk)


def _answered(answer, chunk):
    """Returns the answer to each row of a chunk, or a `str` that says why there is none."""
    rows, before = chunk
    found = [row.problem for row in rows]
    places = [place for place, problem in enumerate(found) if problem is None]
    contents = [rows[place].content for place in places]
    for place, each in zip(places, answers_of(contents, answer, before), strict=True):
        found[place] = each
    return found


def answers_of(contents, answer, before=0):
    """Returns the answer to each content, or a `str` that says why there is none.

    Args:
        contents: List of contents.
        answer: As for `answer_file`; its answers may be anything but a `str`.
        before: Number of contents before them.
    """
    try:
        return answer(contents, before) if contents else []
    except Exception:  # one of them, which is to harm no other
        return [_answer_of_one(content, answer, before) for content in contents]


def _answer_of_one(content, answer, before):
    try:
        return answer([content], before)[0]
    except Exception as error:
        return " ".join(str(error).split()) or type(error).__name__


def _line(fields, answer, kind):
    if kind == JSON_LINES:
        return _json({**fields, **answer})
    told = map(_told, answer.values())
    columns = [*fields.values(), *told] if kind == COLUMNS else told
    flat = [" ".join(str(x).splitlines()).replace("\t", " ") for x in columns]
    return "\t".join(flat).encode() + b"\n"


def _told(value):
    """Returns an answer as a `str`."""
    if isinstance(value, list):
        return ", ".join(map(_told, value))
    return f"{value:.6g}" if isinstance(value, float) else str(value)


def _json(content):
    return json.dumps(content, ensure_ascii=False).encode() + b"\n"
