"""What every model of tensors has in common: its config."""

import dataclasses

import keras


class Core(keras.Model):
    """A model of tensors that its config tells whole.

    A subclass names a frozen dataclass of options as `Config`. The arguments of the constructor are
    its fields.

    Class attributes:
        Config: The dataclass.
        architecture: Name in the zoo of what this is.
        description: One line for people.

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
        """Returns the names of the options with defaults: tokenizer or labels decide others."""
        fields = dataclasses.fields(cls.Config)
        return [field.name for field in fields if field.default is not dataclasses.MISSING]
