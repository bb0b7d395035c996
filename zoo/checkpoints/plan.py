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
