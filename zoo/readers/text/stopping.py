"""Texts that end where a stop string begins."""


def cut(text, stops):
    """Returns the text before the first stop string, and whether there was one.

    Example:

    >>> cut("to be or not", ["or", "not"])
    ('to be ', True)
    """
    found = [place for place in (text.find(stop) for stop in stops) if place >= 0]
    return (text[: min(found)], True) if found else (text, False)


def certain(text, stops):
    """Returns the part of an unfinished text that no stop string can remove any more.

    Example:

    >>> certain("to be o", ["or", "not"])
    'to be '
    """
    longest = max(map(len, stops), default=1) - 1
    for held in range(min(longest, len(text)), 0, -1):
        if any(stop.startswith(text[-held:]) for stop in stops):
            return text[:-held]
    return text
