"""What turns a task into files that others serve: SavedModels for TF Serving, ONNX, LiteRT."""

from zoo.serving.encoders import Encode
from zoo.serving.endpoints import Endpoint
from zoo.serving.export import require_free, require_versions, write_version
from zoo.serving.graphs import GRAPH_FORMATS, write_graphs
from zoo.serving.server_config import write_server_config
from zoo.serving.steps import Start

__all__ = [
    "GRAPH_FORMATS",
    "Encode",
    "Endpoint",
    "Start",
    "require_free",
    "require_versions",
    "write_graphs",
    "write_server_config",
    "write_version",
]
