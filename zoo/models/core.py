"""What every model of tensors has in common: its config."""

import dataclasses

import keras


class Core(keras.Model):
    """A model of tensors that its config tells whole.

    A subclass names a frozen dataclass of options as `Config`, whose first field is
    `vocabulary_size`. The options of the constructor are its fields.

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

    def __init__(self, vocabulary_size, *, name=None, dtype=None, trainable=True, **options):
        super().__init__(name=name, dtype=dtype, trainable=trainable)
        self.config = self.Config(vocabulary_size, **options)

    def build_from_config(self, config):
        self.build()

    def get_config(self):
        return {**super().get_config(), **dataclasses.asdict(self.config)}

    @classmethod
    def options(cls):
        """Returns the names of the options beside the size of the vocabulary."""
        return [field.name for field in dataclasses.fields(cls.Config)][1:]
