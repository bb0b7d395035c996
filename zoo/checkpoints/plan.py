"""What a family makes of a config."""

import dataclasses

from zoo.checkpoints.names import Names


@dataclasses.dataclass
class Plan:
    """How a checkpoint becomes a model of the zoo.

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
        """Whether it is a classifier, or a model of a number or of answers."""
        others = "text_encoder_score", "text_encoder_span"
        return "problem_type" in self.options or self.architecture in others
