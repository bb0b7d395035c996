"""The base class of all models of tensors, with a config."""

import dataclasses
import itertools

import keras


class Core(keras.Model):
    """A model of tensors that is fully described by its config.

    A subclass names a frozen dataclass of options as `Config`. The arguments of the constructor are
    its fields.

    Class attributes:
        Config: The dataclass.
        architecture: Name of the architecture in the zoo.
        description: One line that describes it.
        heads: Names of the layers that depend on the labels.
        reader: Name of the class of the readers that make its inputs, such as `"ImageReader"`;
            `None` for inputs without a reader, such as tokens.
        has_template: Whether the special tokens around a text are those of the tokenizer's template
            for single texts; otherwise they are its start and its end token.

    Attributes:
        config: The `Config`.
    """

    Config = None
    architecture = None
    description = None
    heads = ()
    reader = None
    has_template = False

    def __init__(self, *required, name=None, dtype=None, trainable=True, **options):
        super().__init__(name=name, dtype=dtype, trainable=trainable)
        self.config = self.Config(*required, **options)

    def build_from_config(self, config):
        self.build()

    def get_config(self):
        return {**super().get_config(), **dataclasses.asdict(self.config)}

    def begin_with(self, other):
        """Copies the weights of another model of this kind, but not those of its heads.

        Raises:
            ValueError: If the shapes differ.
        """
        own, others = self._weights_below_heads(), other._weights_below_heads()
        pairs = list(itertools.zip_longest(own, others))
        for weight, trained in pairs:
            if _shape(weight) != _shape(trained):
                path = (trained if weight is None else weight).path
                raise ValueError(
                    "A model that begins with trained weights has their sizes. Received: options "
                    f"for the shape {_shape(weight)} of {path}, which is {_shape(trained)} in the "
                    "trained model. Leave out what changes it."
                )
        for weight, trained in pairs:
            weight.assign(trained)

    def _weights_below_heads(self):
        heads = (getattr(self, name) for name in self.heads)
        of_heads = {id(each) for head in heads if head is not None for each in head.weights}
        return [each for each in self.weights if id(each) not in of_heads]

    @classmethod
    def options(cls):
        """Returns the options with defaults; the others follow from the tokenizer or the labels."""
        fields = dataclasses.fields(cls.Config)
        return [field.name for field in fields if field.default is not dataclasses.MISSING]


def _shape(weight):
    return None if weight is None else tuple(weight.shape)
