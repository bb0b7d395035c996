"""OpenAI's protocol of embeddings, for models that turn texts into vectors.

https://platform.openai.com/docs/api-reference/embeddings
"""

import base64
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf

from zoo.server.bodies import model_of, object_of, texts_of
from zoo.server.errors import Refused
from zoo.server.models import DEFAULT

KNOWN = ("model", "input", "encoding_format", "dimensions", "user")
FORMATS = ("float", "base64")
MOST_TEXTS = 2048  # as in OpenAI's API


class Wanted(NamedTuple):
    """A request of a client for embeddings."""

    model: Any
    texts: list
    is_base64: bool


def request_of(body, models, limits):
    """Reads the body of a request.

    Args:
        body: `bytes`.
        models: Dictionary of names to models.
        limits: A `Limits`, of texts.

    Returns:
        A `Wanted`.

    Raises:
        Refused: If something is missing, unknown or out of range.
    """
    content = {name: value for name, value in object_of(body).items() if value is not None}
    unknown = sorted(content.keys() - set(KNOWN))
    if unknown:
        raise Refused(400, f"These options are not supported: {', '.join(unknown)}.")
    model = model_of(content, models, _embeds_texts, "model that embeds texts")
    texts = texts_of(content, "input", MOST_TEXTS, limits)
    if not texts:
        raise Refused(400, "'input' must hold at least one string.")
    form, size = content.get("encoding_format", "float"), content.get("dimensions")
    if form not in FORMATS:
        raise Refused(400, f"'encoding_format' must be one of {', '.join(FORMATS)}.")
    own = model.signatures[DEFAULT].outputs["embedding"].shape[-1]
    if size not in (None, own):
        raise Refused(400, f"'dimensions' must be {own}, the size of the vectors of {model.name}.")
    return Wanted(model, texts, form == "base64")


def answer_of(wanted, observe):
    """Returns the JSON of an answer, as a Python object.

    Args:
        wanted: A `Wanted`.
        observe: Function that is called with the number of rows of each batch.
    """
    model, texts = wanted.model, wanted.texts
    signature = model.signatures[DEFAULT]
    parts = [
        texts[first : first + signature.largest]
        for first in range(0, len(texts), signature.largest)
    ]
    vectors = [
        vector
        for part in parts
        for vector in signature({"text": np.array(part, object)}, observe)["embedding"]
    ]
    data = [
        {"object": "embedding", "index": number, "embedding": _spelled(vector, wanted.is_base64)}
        for number, vector in enumerate(vectors)
    ]
    read = int(tf.size(model.task.tokenizer.tokenize(texts).values))
    usage = {"prompt_tokens": read, "total_tokens": read}
    return {"object": "list", "data": data, "model": model.name, "usage": usage}


def _embeds_texts(model):
    """Returns whether a model is in memory, and turns texts into vectors."""
    if not hasattr(model.task, "embed"):
        return False
    return [spec.name for spec in model.signatures[DEFAULT].inputs] == ["text"]


def _spelled(vector, is_base64):
    if is_base64:
        return base64.b64encode(vector.astype("<f4").tobytes()).decode()
    return vector.tolist()
