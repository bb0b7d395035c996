"""Exports tasks for serving: SavedModels for TF Serving, ONNX, LiteRT."""

from zoo.serving.encoders import Encoders, pixel_inputs, token_inputs
from zoo.serving.endpoints import Endpoint
from zoo.serving.export import require_free, require_versions, write_version
from zoo.serving.graphs import (
    CONFIG,
    GRAPH_FORMATS,
    LABELS,
    PROCESSOR,
    PROMPTS,
    require_format,
    write_graphs,
)
from zoo.serving.server_config import write_server_config
from zoo.serving.steps import Start

__all__ = [
    "CONFIG",
    "GRAPH_FORMATS",
    "LABELS",
    "PROCESSOR",
    "PROMPTS",
    "Encoders",
    "Endpoint",
    "Start",
    "pixel_inputs",
    "require_format",
    "require_free",
    "require_versions",
    "token_inputs",
    "write_graphs",
    "write_server_config",
    "write_version",
]
