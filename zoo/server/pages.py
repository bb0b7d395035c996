"""The models offered on the page of a server, and the requests of the page to models in memory."""

import base64
import binascii

from zoo.pages import picture_view, text_view
from zoo.readers.text.sentences import split_sentences
from zoo.server.bodies import is_unicode, object_of, require_seed
from zoo.server.completions import TOP_K
from zoo.server.errors import Refused
from zoo.server.models import DEFAULT

METHODS = ("translate", "caption", "generate")  # of tasks that the page can ask
INPUTS = {"text": "text", "image_bytes": "picture"}  # of exported models
BEAMS = (2, 4, 8)  # each is compiled, so there are few
SAMPLERS = {
    "greedy": (),
    "beam": ("num_beams",),
    "random": ("temperature",),
    "top_k": ("temperature", "k"),
    "top_p": ("temperature", "p"),
}
KINDS = ("cross", "encoder", "decoder")  # of attention in a Transformer
MOST_CHARACTERS = 5000  # of a text
MOST_TOKENS = 300  # that a language model adds at a time
MOST_WEIGHTS = 4_000_000  # of a view, a byte each


def offer_of(model, new_tokens):
    """Returns the description of a model for the page, `None` if the page does not support it.

    Args:
        model: A `LoadedModel` or an `ExportedModel`.
        new_tokens: Maximum number of tokens that a completion adds.

    Returns:
        Dictionary of `name`; `input`, `"text"` or `"picture"`; `writes`, whether it continues texts
        token by token; `samplers`, those to choose from with their options, `None` if the sampler
        is fixed; and for a fixed one `signature` and whether it `draws` with a seed.
    """
    if model.task is None:
        return _offer_of_exported(model)
    method = getattr(model.task, "task_method", None)
    if method not in METHODS:
        return None
    return {
        "name": model.name,
        "input": "picture" if method == "caption" else "text",
        "writes": hasattr(model.task, "stream"),
        "samplers": SAMPLERS,
        "beams": BEAMS,
        "k": TOP_K,
        "tokens": min(MOST_TOKENS, new_tokens),
    }


def _offer_of_exported(model):
    """Returns the offer of a SavedModel, whose sampler was chosen when it was exported."""
    signature = model.signatures.get(DEFAULT)
    if signature is None or "text" not in signature.outputs:
        return None
    names = [spec.name for spec in signature.inputs]
    inputs = [name for name in names if name in INPUTS]
    if len(inputs) != 1 or not {*names} <= {*inputs, "seed"}:
        return None
    return {
        "name": model.name,
        "input": INPUTS[inputs[0]],
        "writes": False,
        "samplers": None,
        "signature": "explain" if "explain" in model.signatures else DEFAULT,
        "field": inputs[0],
        "draws": "seed" in names,
    }


def answer_of(model, body, limits):
    """Returns the answer of a model in memory to the page, as a Python object.

    Args:
        model: A `LoadedModel`.
        body: `bytes` of a JSON object of `text` or `picture`, base64; and, if the page chose them,
            `sampler`, a dictionary of `name` and its options, and `seed`.
        limits: A `Limits`, of pictures.

    Returns:
        Dictionary of `text` and `views`, a list of views of `zoo.pages`.

    Raises:
        Refused: If something is missing, unknown or out of range.
    """
    content, task = object_of(body), model.task
    method = getattr(task, "task_method", None)
    if method not in METHODS:
        raise Refused(404, f"The page does not support {model.name}.")
    sampler, seed = _sampler(task, content.get("sampler")), content.get("seed", 0)
    require_seed(seed)
    try:
        if method == "caption":
            return _caption(task, _picture(content, limits), sampler, seed)
        text = content.get("text")
        if not isinstance(text, str) or not is_unicode(text):
            raise Refused(400, "'text' must be a string.")
        if len(text) > MOST_CHARACTERS:
            raise Refused(400, f"'text' has at most {MOST_CHARACTERS} characters on the page.")
        if method == "translate":
            return _translation(task, text, sampler, seed)
        limit = {}
        if hasattr(task, "stream"):  # beams share the context with the prompt
            limit = {"max_length": max(1, min(MOST_TOKENS, task.core.context_length // 4))}
        return {"text": task.generate(text, sampler=sampler, seed=seed, **limit), "views": []}
    except ValueError as error:
        raise Refused(400, str(error)) from error


def _caption(task, picture, sampler, seed):
    found = task.caption([picture], sampler, return_attention=True, seed=seed)
    # The page has the picture already.
    view = picture_view("caption", found.attention[0][None, None], found.words[0], b"")
    return {"text": _best(found.texts[0]), "views": [view]}


def _translation(task, text, sampler, seed):
    found = task.translate([text], sampler, return_attention=True, seed=seed)
    translated = _best(found.texts[0])
    alignment = found.attention[0][None, None], found.tokens[0], found.source_tokens[0]
    views = [("alignment", alignment)]
    if text.strip() and len(split_sentences(text)) == 1:  # several are translated one by one
        try:
            every = task.attention(text, translated)
            views = [(f"{name} attention", getattr(every, name)) for name in KINDS]
        except ValueError:  # a recurrent model has one attention, and a long text was cut
            pass
    small = [(name, view) for name, view in views if 0 < view[0].size <= MOST_WEIGHTS]
    return {"text": translated, "views": [text_view(name, *view) for name, view in small]}


def _best(texts):
    return texts if isinstance(texts, str) else texts[0]


def _picture(content, limits):
    try:
        picture = base64.b64decode(content.get("picture"), validate=True)
    except (binascii.Error, TypeError, ValueError) as error:
        raise Refused(400, "'picture' must be base64.") from error
    limits.require_picture(picture)
    return picture


def _sampler(task, wanted):
    """Returns the sampler that the page chose; defaults to that of the model."""
    if wanted is None:
        return task.default_sampler
    name = wanted.get("name") if isinstance(wanted, dict) else None
    if not isinstance(name, str) or name not in SAMPLERS:
        raise Refused(400, f"'sampler' must name one of {', '.join(SAMPLERS)}.")
    options = {key: value for key, value in wanted.items() if key != "name"}
    if options.keys() != {*SAMPLERS[name]}:
        raise Refused(400, f"{name} takes {', '.join(SAMPLERS[name]) or 'no options'}.")
    for key, choices in (("num_beams", BEAMS), ("k", TOP_K)):
        if key in options and (type(options[key]) is not int or options[key] not in choices):
            raise Refused(400, f"{key!r} must be one of {', '.join(map(str, choices))}.")
    for key in {"temperature", "p"} & options.keys():
        if type(options[key]) not in (int, float):
            raise Refused(400, f"{key!r} must be a number.")
    try:
        return task.sampler(name, **options)
    except (ValueError, OverflowError) as error:
        raise Refused(400, str(error)) from error
