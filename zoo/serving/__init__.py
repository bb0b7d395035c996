"""What turns a task into a SavedModel for TF Serving."""

from zoo.serving.export import write_version

__all__ = ["write_version"]
