"""What the protocols have in common in the bodies of their requests."""

import json

from zoo.server.errors import Refused


def object_of(body):
    """Returns the JSON object that a body holds.

    Raises:
        Refused: If it holds none.
    """
    try:
        content = json.loads(body)
    except (ValueError, RecursionError) as error:
        raise Refused(400, f"The body is not JSON: {error}") from error
    if not isinstance(content, dict):
        raise Refused(400, "The body must be a JSON object.")
    return content


def is_unicode(text):
    """Returns whether a text has no half of a surrogate pair, which JSON can spell."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def require_seed(seed):
    """Raises `Refused` unless a seed is an integer that int32 holds, at least 0."""
    if type(seed) is not int or not 0 <= seed < 2**31:
        raise Refused(400, "'seed' must be from 0 to 2147483647.")


def model_of(content, models, can, what):
    """Returns the model that a request names.

    Args:
        content: Dictionary, the content of a body.
        models: Dictionary of names to models.
        can: Function of a model: whether it can answer such a request.
        what: What such a model is, for error messages.

    Raises:
        Refused: If there is no such model of that name.
    """
    found = {name: each for name, each in models.items() if can(each)}
    name = content.get("model")
    if isinstance(name, str) and name in found:
        return found[name]
    if not found:
        raise Refused(404, f"This server has no {what}. Send requests to :predict.")
    raise Refused(404, f"'model' must be one of {', '.join(found)}.")


def texts_of(content, name, most, limits):
    """Returns the list of texts that an option of a request holds, a text or a list of them.

    Args:
        content: Dictionary, the content of a body.
        name: Name of the option.
        most: Maximum number of texts.
        limits: A `Limits`, of the length of a text.

    Raises:
        Refused: If it holds anything else, or too much.
    """
    value = content.get(name)
    texts = [] if value is None else value if isinstance(value, list) else [value]
    if not all(isinstance(each, str) and is_unicode(each) for each in texts):
        raise Refused(400, f"{name!r} must be a string or a list of strings, in valid Unicode.")
    if len(texts) > most:
        raise Refused(400, f"{name!r} has at most {most} strings, this one {len(texts)}.")
    for text in texts:
        limits.require_text(text.encode())
    return texts
