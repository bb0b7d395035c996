"""The plan that a family makes from a config."""

import dataclasses

from zoo.checkpoints.names import Names


@dataclasses.dataclass
class Plan:
    """Instructions for building a model of the zoo from a checkpoint.

    Attributes:
        architecture: Name in the catalog.
        options: Options of the core and the task.
        names: `Names` of the weights.
        size: Number of token ids, `None` for a model without texts.
    """

    architecture: str
    options: dict
    names: Names
    size: int | None = None

    @property
    def has_problem_type(self):
        """Whether the model has a problem type: classification, regression or answers."""
        others = "text_encoder_score", "text_encoder_span"
        return "problem_type" in self.options or self.architecture in others
