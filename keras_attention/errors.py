"""Messages of errors that users make."""

import difflib


def unknown_name(kind, name, known):
    """Returns the message for an unknown name, with the nearest known ones.

    Args:
        kind: What the name is of: `"score"`, `"sampler"`, ...
        name: What came.
        known: The names that are known.
    """
    near = difflib.get_close_matches(str(name), known)
    hint = f" Did you mean {' or '.join(map(repr, near))}?" if near else ""
    return f"Unknown {kind} {name!r}.{hint} Known: {', '.join(known)}."
