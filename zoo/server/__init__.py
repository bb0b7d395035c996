"""A server for zoo models and exported models, with the protocols of TF Serving and OpenAI."""

from zoo.server.app import make_app, require_sendable
from zoo.server.limits import Limits
from zoo.server.models import ExportedModel, LoadedModel, model_of, name_of, require_distinct
from zoo.server.run import bind, run

__all__ = [
    "ExportedModel",
    "Limits",
    "LoadedModel",
    "bind",
    "make_app",
    "model_of",
    "name_of",
    "require_distinct",
    "require_sendable",
    "run",
]
