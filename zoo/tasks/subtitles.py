"""The two formats of subtitles."""

import html

SRT, VTT = FORMATS = ".srt", ".vtt"


def require_subtitles(path):
    """Raises a `ValueError` unless the ending of a path is that of a format of subtitles."""
    if path.suffix.lower() not in FORMATS:
        raise ValueError(f"A file of subtitles ends with {' or '.join(FORMATS)}. Received: {path}.")


def subtitles(segments, kind):
    """Returns segments of a text in a format.

    Args:
        segments: List of `zoo.Segment`s.
        kind: `".srt"` or `".vtt"`.

    Example:

    >>> print(subtitles([(0.0, 1.25, "Hello!"), (3723.5, 3725.0, "Bye!")], ".srt"))
    1
    00:00:00,000 --> 00:00:01,250
    Hello!
    <BLANKLINE>
    2
    01:02:03,500 --> 01:02:05,000
    Bye!
    <BLANKLINE>
    """
    cues = ["WEBVTT\n"] if kind == VTT else []
    for number, (start, end, text) in enumerate(segments, 1):
        times = f"{_clock(start)} --> {_clock(end)}"
        if kind == VTT:
            cues.append(f"{times}\n{html.escape(text, quote=False)}\n")
        else:
            cues.append(f"{number}\n{times.replace('.', ',')}\n{text}\n")
    return "\n".join(cues)


def _clock(seconds):
    """Returns a time in hours, minutes, seconds and milliseconds."""
    minutes, milliseconds = divmod(round(seconds * 1000), 60_000)
    hours, minutes = divmod(minutes, 60)
    seconds, milliseconds = divmod(milliseconds, 1000)
    return f"{hours:02}:{minutes:02}:{seconds:02}.{milliseconds:03}"
