"""Texts with times: the segments of a transcription."""

import itertools
import os
import pathlib
from typing import NamedTuple

import numpy as np

from zoo.atomic import whole
from zoo.tasks.result_parts import require_entry
from zoo.tasks.subtitles import require_subtitles, subtitles


class Segment(NamedTuple):
    """A part of a transcription.

    Attributes:
        start, end: Its times in the sound, in seconds.
        text: Its text.
    """

    start: float
    end: float
    text: str


class TimedTranscription(NamedTuple):
    """The result of `transcribe(..., return_timestamps=True)`, with an entry for each sound.

    Attributes:
        texts: List of `str`, the texts.
        segments: List of lists of `Segment`s, the parts of each text in order.
    """

    texts: list[str]
    segments: list[list[Segment]]

    def save_subtitles(self, path: str | os.PathLike[str], position: int = 0) -> pathlib.Path:
        """Writes the segments of one of the sounds as a file of subtitles.

        Args:
            path: Path of the file; its ending is that of the format, `.srt` (SubRip) or `.vtt`
                (WebVTT, https://www.w3.org/TR/webvtt1).
            position: Index of the sound.

        Returns:
            `pathlib.Path` of the file.

        Raises:
            ValueError: If there is no such sound, or the ending is another one.
        """
        require_entry(self.texts, position)
        path = pathlib.Path(path)
        require_subtitles(path)
        text = subtitles(self.segments[position], path.suffix.lower())
        with whole(path) as unfinished:
            unfinished.write_text(text, encoding="utf-8")
        return path


def segments_of(ids, first, seconds, step):
    """Splits the tokens of a window at its timestamps (Radford et al. 2022, section 3.8).

    A segment is between two timestamps. Where the window ends within a segment, this is left out,
    and should be heard again from its start.

    Args:
        ids: int32 `(tokens,)`.
        first: Id of the token for the time 0. Those of later times follow.
        seconds: Length of the window.
        step: Time from one timestamp to the next, in seconds.

    Returns:
        A list of `(start, end, ids)`, and after how many seconds the next window starts.

    Example:

    >>> ids = np.array([100, 7, 8, 110, 110, 9, 130, 130, 7])
    >>> segments, seconds = segments_of(ids, first=100, seconds=2.0, step=0.02)
    >>> [(float(start), float(end), part.tolist()) for start, end, part in segments]
    [(0.0, 0.2, [7, 8]), (0.2, 0.6, [9])]
    >>> float(seconds)
    0.6
    """
    is_time = ids >= first
    times = (ids - first) * step
    starts = np.flatnonzero(is_time[:-1] & is_time[1:]) + 1  # right behind the end of another one
    if not len(starts):
        later = times[ids > first]
        end = later[-1] if len(later) else seconds
        return [(0.0, end, ids[~is_time])] if len(ids) else [], seconds
    ends_itself = not is_time[-2] and is_time[-1]  # nothing is said behind
    borders = [0, *starts, *([len(ids)] if ends_itself else [])]
    parts = [slice(*pair) for pair in itertools.pairwise(borders)]
    segments = [(times[part][0], times[part][-1], ids[part][~is_time[part]]) for part in parts]
    return segments, seconds if ends_itself else segments[-1][1]
