"""Error messages for mistakes in user input."""

import difflib


def unknown_name(kind, name, known):
    """Returns the message for an unknown name, with the closest known names.

    Args:
        kind: What the name refers to: `"score"`, `"sampler"`, ...
        name: The name received.
        known: The known names.
    """
    near = difflib.get_close_matches(str(name), known)
    hint = f" Did you mean {' or '.join(map(repr, near))}?" if near else ""
    return f"Unknown {kind} {name!r}.{hint} Known: {', '.join(known)}."
