"""What every task has in common: raw inputs in, training, evaluation, saving."""

import abc
import contextlib
import os
import reprlib
import warnings
from typing import Any

import keras
import tensorflow as tf

from keras_attention._block import Block
from keras_attention._checks import require_positive_integers, require_positive_integers_or_none
from keras_attention._keras import layers_in
from zoo.data.batching import is_batches
from zoo.losses import TokenCrossentropy
from zoo.storage import cards, presets
from zoo.tasks.arguments import FilePath

_WEIGH = (
    "Weigh the batches, which go to fit as they are: model.batches(x, y).map(lambda inputs, "
    "labels, weights: (inputs, labels, weights * "
)
INSTEAD = {  # of what Keras takes with arrays only, while the model makes batches of raw data
    "validation_split": "Split the data: fit(x[:n], y[:n], validation_data=(x[n:], y[n:]))",
    "class_weight": f"{_WEIGH}tf.gather([1.0, 2.0], labels)))",
    "sample_weight": f"{_WEIGH}...))",
}


class Task(keras.Model, abc.ABC):
    """A model of tensors together with what reads its raw inputs: texts, images, sounds.

    A subclass turns raw inputs into tensors (`batches`), and the tensors that the core computes
    into what users want.

    Args:
        core: A `keras.Model` of tensors.
        tokenizer: What turns texts into its ids and back; `None` for a task without texts.
        dtype: Keras dtype policy; by default that of the core, which computes.

    Class attributes:
        task_name: What it does, in a word or two.
        task_method: The method that does it.
        usual_batch_size: Examples a batch in training and evaluation unless told otherwise.
        data_options: Options of `batches` that `fit` takes for the training data.
        takes_images: Whether a batch for the core is one of pictures, read already.
        checkpoint: The folder of the checkpoint of transformers that it was made of, and the names
            of its weights there; `None` for other models.
        fingerprint: What tells whether a network that others trained is the right one, if the task
            builds on one; `check_fingerprint` then compares it.
    """

    task_name = None
    task_method = None
    usual_batch_size = 64
    data_options = ()
    takes_images = False
    checkpoint = None
    fingerprint = None

    def __init__(self, core, tokenizer=None, dtype=None, **kwargs):
        # Whether to scale the loss, Keras decides by the policy of the whole.
        super().__init__(dtype=dtype or core.dtype_policy, **kwargs)
        self.core = core
        self._tokenizer = tokenizer

    def __call__(self, inputs, *args, **kwargs):
        self._require_batch(inputs)
        return super().__call__(inputs, *args, **kwargs)

    def call(self, inputs, training=None):
        return self.core(inputs, training=training)

    def build(self, input_shape=None):
        if not self.core.built:
            self.core.build()

    def build_from_config(self, config):
        self.build()

    # ----------------------------------------------------------------------------------- training

    @abc.abstractmethod
    def batches(
        self,
        x: Any,
        y: Any = None,
        batch_size: int | None = None,
        shuffle: bool = False,
        seed: int = 0,
    ) -> tf.data.Dataset:
        """Returns a data set of `(inputs, labels, weights)`, as Keras trains on it, of raw data."""

    def usual_loss(self):
        """Returns what `compile` trains by unless told otherwise: cross-entropy."""
        return TokenCrossentropy()

    def usual_metrics(self):
        """Returns a list of what `compile` measures unless told otherwise."""
        return [keras.metrics.SparseCategoricalAccuracy("accuracy")]

    def compile(
        self,
        optimizer: Any = "adam",
        loss: Any = None,
        weighted_metrics: Any = None,
        jit_compile: bool = False,
        **kw: Any,
    ) -> None:
        """Configures training: by the usual loss and metrics of the task unless told otherwise.

        Args:
            optimizer, loss, weighted_metrics, jit_compile: As for `keras.Model.compile`.
            **kw: Further arguments of `keras.Model.compile`.
        """
        metrics = self.usual_metrics() if weighted_metrics is None else weighted_metrics
        super().compile(
            optimizer=optimizer,
            loss=loss or self.usual_loss(),
            weighted_metrics=metrics or None,
            jit_compile=jit_compile,
            **kw,
        )

    def compile_from_config(self, config):
        """Compiles a model that comes from a file, whose optimizer goes on where it was."""
        self.compile(**keras.saving.deserialize_keras_object(config))
        if self.built:
            self.optimizer.build(self.trainable_variables)

    def fit(
        self,
        x: Any,
        y: Any = None,
        batch_size: int | None = None,
        validation_data: Any = None,
        shuffle: bool = True,
        seed: int = 0,
        validation_batch_size: int | None = None,
        **kwargs: Any,
    ) -> keras.callbacks.History:
        """Trains on raw data.

        Args:
            x, y, batch_size, seed: As for `batches`.
            validation_data: A data set as `x`, or a tuple `(x, y)`.
            shuffle: As for `batches`.
            validation_batch_size: Examples a batch of validation; by default `batch_size`.
            **kwargs: Further options of `batches`, and arguments of `keras.Model.fit`.

        Returns:
            A `keras.callbacks.History`.

        Raises:
            ValueError: If the data are of another form, or `validation_split`, `class_weight` or
                `sample_weight` is given: the error tells what takes its place.
        """
        _refuse_what_needs_arrays(**kwargs)
        if validation_data is not None:
            validation_data = self._validation_arguments(validation_data)
            validation_batch_size = validation_batch_size or batch_size
            validation_data = self._batches(*validation_data, batch_size=validation_batch_size)
        options = {name: kwargs.pop(name) for name in self.data_options if name in kwargs}
        train = self._batches(x, y, batch_size=batch_size, shuffle=shuffle, seed=seed, **options)
        if self.compiled and self.built and not self.optimizer.built:
            # If the first step makes the variables of the optimizer, TensorFlow traces it twice.
            with self.distribute_strategy.scope():
                self.optimizer.build(self.trainable_variables)
        counted = kwargs.get("steps_per_epoch") is not None
        with contextlib.nullcontext() if counted else _unknown_number_of_batches():
            return super().fit(train, validation_data=validation_data, shuffle=False, **kwargs)

    def evaluate(self, x: Any, y: Any = None, batch_size: int | None = None, **kwargs: Any) -> Any:
        """Returns the loss and the metrics on raw data.

        Args:
            x, y, batch_size: As for `batches`.
            **kwargs: Further arguments of `keras.Model.evaluate`.
        """
        _refuse_what_needs_arrays(**kwargs)
        with _unknown_number_of_batches():
            return super().evaluate(self._batches(x, y, batch_size=batch_size), **kwargs)

    def predict(self, x: Any, *args: Any, **kwargs: Any) -> Any:
        """Returns what the core computes for batches of tensors, as `keras.Model.predict` does.

        Args:
            x: What the core takes, or a data set of such batches, as `batches` makes them.
            *args, **kwargs: Further arguments of `keras.Model.predict`.

        Raises:
            ValueError: If `x` holds texts or images.
        """
        self._require_batch(getattr(x, "element_spec", x))
        with _unknown_number_of_batches():
            return super().predict(x, *args, **kwargs)

    def _batches(self, x, y=None, **options):
        """Returns `batches`, or a data set of batches as it is."""
        batch_size = options.get("batch_size")
        require_positive_integers_or_none(type(self).__name__, batch_size=batch_size)
        return x if y is None and is_batches(x) else self.batches(x, y, **options)

    def _validation_arguments(self, validation_data):
        """Returns the arguments of `batches` for the validation data of `fit`."""
        if isinstance(validation_data, tf.data.Dataset):
            return (validation_data,)
        if not isinstance(validation_data, list | tuple) or len(validation_data) != 2:
            raise ValueError(
                "`validation_data` must be a tf.data.Dataset or a tuple (x, y) of two lists. "
                f"Received: {reprlib.repr(validation_data)}."
            )
        return tuple(validation_data)

    def _require_batch(self, inputs):
        """Raises a `ValueError` for what is yet to become numbers of a batch."""
        for leaf in keras.tree.flatten(inputs):
            if not _is_text(leaf) and (self.takes_images or not _is_image(leaf)):
                continue
            is_array = hasattr(leaf, "shape")
            received = f"shape {leaf.shape}, {leaf.dtype}" if is_array else repr(leaf)
            raise ValueError(
                f"{type(self).__name__} takes batches of numbers here. Received: {received}. For "
                f"texts or images call `{self.task_method}`; to learn from them, `fit`."
            )

    def enable_lora(self, rank: int) -> None:
        """Freezes the weights, and lets small additions to the dense layers of the blocks learn.

        $$ W' = W + A B, \\quad A \\in R^{inputs × rank}, \\quad B \\in R^{rank × outputs} $$

        Paper: Hu et al. 2021, LoRA (https://arxiv.org/abs/2106.09685). By Keras'
        `Dense.enable_lora`: projections of attention and feed-forward networks get `A` and `B`. `B`
        begins with zeros, so the model answers as before. A head of dense layers after the blocks,
        such as that of labels, learns as a whole. What is saved or exported holds the sums `W'`.

        Call it before `compile`.

        Args:
            rank: The number of columns of `A`, such as 8.

        Raises:
            ValueError: If the core has no Transformer blocks, or LoRA is enabled already.

        Example:

        >>> import zoo
        >>> model = zoo.load("vit_mnist")
        >>> before = sum(weight.numpy().size for weight in model.trainable_weights)
        >>> model.enable_lora(rank=4)
        >>> after = sum(weight.numpy().size for weight in model.trainable_weights)
        >>> print(f"{after / before:.0%}")
        4%
        """
        require_positive_integers("enable_lora", rank=rank)
        blocks = [layer for layer in layers_in(self.core) if isinstance(layer, Block)]
        inner = [each for block in blocks for each in layers_in(block) if _is_dense(each)]
        if not inner or any(each.lora_enabled for each in inner):
            state = "has LoRA already" if inner else "has no Transformer blocks"
            raise ValueError(
                f"LoRA is for a model with Transformer blocks, once. {type(self.core).__name__} "
                f"{state}. Load the model anew, or train all of it by `fit`."
            )
        head = {
            id(weight) for each in self.core.layers if _is_dense(each) for weight in each.weights
        }
        for weight in self.core.trainable_weights:
            weight.trainable = id(weight) in head
        for layer in inner:
            layer.enable_lora(rank)
        self.forget_compiled()

    def quantize(self, mode: str = "int8", config: Any = None, **kwargs: Any) -> None:
        """Turns the kernels of the dense layers into integers, which take a quarter of the memory.

        By `keras.Model.quantize`. There is no way back, and what is quantized cannot be saved as a
        preset, but exported: save before, and quantize what is loaded.

        Args:
            mode: `"int8"` rounds kernels to 8 bits for each output, and inputs for each row.
            config, **kwargs: As for `keras.Model.quantize`.
        """
        super().quantize(mode, config, **{"filters": _is_dense, **kwargs})
        self.forget_compiled()

    def forget_compiled(self):
        """Drops what was compiled, since the core computes by other weights now."""
        self.train_function = self.test_function = self.predict_function = None

    # ------------------------------------------------------------------------------------- saving

    @property
    def parts(self):
        """The objects that the task is made of, by the names of the constructor's arguments."""
        parts = {"core": self.core, "tokenizer": self.tokenizer}
        return {name: part for name, part in parts.items() if part is not None}

    @property
    def settings(self):
        """What the constructor takes besides `core` and `tokenizer`, as it goes into a config."""
        return {}

    @property
    def tokenizer(self):
        """What turns texts into token ids, `None` for a task without texts."""
        return self._tokenizer

    @classmethod
    def decides(cls, tokenizer=None, **settings):
        """Returns a dictionary of the options of the core that its other parts decide on.

        Args:
            tokenizer, **settings: Arguments of the constructor.
        """
        return {} if tokenizer is None else {"vocabulary_size": tokenizer.vocabulary_size}

    def twin(self):
        """Returns a task of the very same parts, not compiled."""
        return type(self)(**{**self.settings, **self.parts})

    def get_config(self):
        serialize = keras.saving.serialize_keras_object
        config = {"name": self.name, "trainable": self.trainable, "dtype": self.dtype_policy}
        serialized = {name: serialize(value) for name, value in {**config, **self.parts}.items()}
        return {**serialized, **self.settings}

    @classmethod
    def from_config(cls, config):
        deserialize = keras.saving.deserialize_keras_object
        return cls(**{name: deserialize(value) for name, value in config.items()})

    def save_to_preset(
        self,
        path: FilePath,
        description: str = "",
        data: str | dict[str, str] = "",
        quality: dict[str, float] | None = None,
        license: str = "",
        dtype: str | None = None,
        use: str = "",
        limits: str = "",
    ) -> str:
        """Writes the model as a preset, which `zoo.load` reads: whole or not at all.

        A preset is files that hold no code: a card, a config, the weights and, of a model that
        reads or writes texts, the tokenizer, with hashes that `zoo.load` checks. A folder has a
        `README.md` for the Hugging Face hub, too. A preset does not hold the optimizer;
        `model.save(path.keras)` does. Offer an archive at any URL, or a folder by
        `huggingface_hub.upload_folder(repo_id="user/name", folder_path=path)`.

        Args:
            path: A new folder, or a new archive that ends with `.zip`.
            description: One line for people; by default that of the architecture.
            data: What the model was trained on, in a few words; or a dictionary of `name` and any
                of `language` such as `"en"` or `"en-de"`, `source`, `terms` and `citation`.
            quality: Dictionary of a metric with its protocol to the value, such as
                `{"BLEU, test split": 38.7}`.
            license: Terms for those who use it, such as `"CC-BY-4.0"`.
            dtype: `None` for the weights as they are: the model that is loaded computes the same
                numbers. `"float16"` for half the size: floats are rounded to 3 decimal digits.
            use: What the model is meant for.
            limits: What it cannot do, and what it should not be used for.

        Returns:
            What `zoo.load` takes, a `str`: the path, for an archive with its hash,
            `model.zip#sha256=...`, which may go behind a URL as well.

        Raises:
            ValueError: If the path exists, the core is of no architecture of the zoo, or a weight
                is not finite or beyond `dtype`.
        """
        card = cards.make_card(self, description, data, quality, license, use, limits)
        return presets.save(self, path, card, dtype)


@contextlib.contextmanager
def _unknown_number_of_batches():
    """Keeps Keras from calling the end of such a data set an interruption of the training."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Your input ran out of data")
        yield


def _refuse_what_needs_arrays(validation_split=0.0, **kwargs):
    for name, value in {**kwargs, "validation_split": validation_split or None}.items():
        if name in INSTEAD and value is not None:
            raise ValueError(
                f"`{name}` is for models of arrays only. {INSTEAD[name]}. "
                f"Received: {name}={reprlib.repr(value)}."
            )


def _is_dense(layer):
    return isinstance(layer, keras.layers.Dense)


def _is_text(leaf):
    if isinstance(leaf, str | bytes | os.PathLike):
        return True
    return hasattr(leaf, "dtype") and tf.as_dtype(leaf.dtype) == tf.string


def _is_image(leaf):
    return hasattr(leaf, "shape") and tf.TensorShape(leaf.shape).rank == 4


def part_of(part):
    """Returns a part of a task, such as its reader, or what the config of one describes."""
    return keras.saving.deserialize_keras_object(part) if isinstance(part, dict) else part
