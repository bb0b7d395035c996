"""The plan that a family makes from a config."""

import dataclasses

from zoo.checkpoints.names import Names
from zoo.checkpoints.settings import ANSWERS, REGRESSION, TAGS

_OF_HEADS = {
    ANSWERS: ("text_encoder_span",),
    REGRESSION: ("text_encoder_score", "transformer_lm_score"),
    TAGS: ("text_encoder_tags",),
}


@dataclasses.dataclass
class Plan:
    """Instructions for building a model of the zoo from a checkpoint.

    Attributes:
        architecture: Name in the catalog.
        options: Options of the core and the task.
        names: `Names` of the weights.
        size: Number of token ids, `None` for a model without texts.
        of_tokenizer: Names of further options, which are those attributes of the tokenizer.
        has_languages: Whether the tokenizer depends on the languages to translate between.
    """

    architecture: str
    options: dict
    names: Names
    size: int | None = None
    of_tokenizer: tuple = ()
    has_languages: bool = False

    def solves(self, problem_type):
        """Whether the model is for a problem type, as `zoo.checkpoints.settings.Settings` has it.

        A classifier is for that of its options.
        """
        is_head = self.architecture in _OF_HEADS.get(problem_type, ())
        return is_head or "problem_type" in self.options
