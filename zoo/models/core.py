"""The base class of all models of tensors, with a config."""

import dataclasses

import keras


class Core(keras.Model):
    """A model of tensors that is fully described by its config.

    A subclass names a frozen dataclass of options as `Config`. The arguments of the constructor are
    its fields.

    Class attributes:
        Config: The dataclass.
        architecture: Name of the architecture in the zoo.
        description: One line that describes it.

    Attributes:
        config: The `Config`.
    """

    Config = None
    architecture = None
    description = None

    def __init__(self, *required, name=None, dtype=None, trainable=True, **options):
        super().__init__(name=name, dtype=dtype, trainable=trainable)
        self.config = self.Config(*required, **options)

    def build_from_config(self, config):
        self.build()

    def get_config(self):
        return {**super().get_config(), **dataclasses.asdict(self.config)}

    @classmethod
    def options(cls):
        """Returns the options with defaults; the others follow from the tokenizer or the labels."""
        fields = dataclasses.fields(cls.Config)
        return [field.name for field in fields if field.default is not dataclasses.MISSING]
