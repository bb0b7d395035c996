"""The base class of all tasks: raw inputs, training, evaluation and saving."""

import abc
import contextlib
import reprlib
import warnings
from typing import Any

import keras
import tensorflow as tf

from keras_attention._checks import require_positive_integers_or_none
from keras_attention._keras import layers_in
from zoo.data.batching import is_batches
from zoo.losses import TokenCrossentropy
from zoo.metrics.token_accuracy import TokenAccuracy
from zoo.storage import cards, presets
from zoo.storage.weights import require_float
from zoo.tasks.arguments import FilePath
from zoo.tasks.epochs import NO_BATCHES, OrderOfEpochs, after, unknown_number_of_batches
from zoo.tasks.keras_arguments import (
    refuse_what_needs_arrays,
    require_loss_of_logits,
    require_numbers,
    require_rows,
)
from zoo.tasks.lora import add_lora, is_dense


class Task(keras.Model, abc.ABC):
    """A model of tensors together with the preprocessing of its raw inputs: texts, images, sounds.

    A subclass turns raw inputs into tensors (`batches`), and the outputs of the core into what
    users want.

    Args:
        core: A `keras.Model` of tensors.
        tokenizer: Turns texts into token ids and back; `None` for a task without texts.
        dtype: Keras dtype policy; defaults to that of the core, which does the computation.

    Class attributes:
        task_name: What the task does, in a word or two.
        task_method: The method that does it.
        usual_batch_size: Default number of examples per batch in training and evaluation.
        data_options: Options of `batches` that `fit` takes for the training data.
        takes_images: Whether the core takes batches of decoded images.
        checkpoint: The folder of the transformers checkpoint that the model was loaded from, the
            names of its weights there, the settings that its files tell, and whether the model has
            a reader of its own; `None` for other models.
        backbone: For a task that builds on a network trained by others: the layer that runs it.
    """

    task_name = None
    task_method = None
    usual_batch_size = 64
    data_options = ()
    takes_images = False
    checkpoint = None
    backbone = None

    def __init__(self, core, tokenizer=None, dtype=None, **kwargs):
        # Keras decides by the policy of the whole model whether to scale the loss.
        super().__init__(dtype=dtype or core.dtype_policy, **kwargs)
        self.core = core
        self._tokenizer = tokenizer

    @property
    def fingerprint(self):
        """What identifies the network of the backbone; `None` if nothing does."""
        return self.backbone.fingerprint() if hasattr(self.backbone, "fingerprint") else None

    def __call__(self, inputs, *args, **kwargs):
        require_numbers(inputs, self)
        return super().__call__(inputs, *args, **kwargs)

    def call(self, inputs, training=None):
        return self.core(inputs, training=training)

    def build(self, input_shape=None):
        if not self.core.built:
            self.core.build()

    def get_build_config(self):
        """Returns what Keras stores in a file of `model.save`, with the places of frozen layers."""
        layers = enumerate(layers_in(self.core))
        frozen = [place for place, layer in layers if not layer.trainable]
        return {**(super().get_build_config() or {}), "frozen": frozen}

    def build_from_config(self, config):
        self.build()
        frozen = config.get("frozen")
        if frozen:
            for place, layer in enumerate(layers_in(self.core)):  # outer ones set inner ones first
                layer.trainable = place not in frozen

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
        """Turns raw data into a `tf.data.Dataset` of `(inputs, labels, weights)` for Keras."""

    def usual_loss(self):
        """Returns the default loss of `compile`: cross-entropy."""
        return TokenCrossentropy()

    def usual_metrics(self):
        """Returns a list of the default metrics of `compile`."""
        return [TokenAccuracy("accuracy")]

    def compile(
        self,
        optimizer: Any = "adam",
        loss: Any = None,
        weighted_metrics: Any = None,
        jit_compile: bool = False,
        **kw: Any,
    ) -> None:
        """Configures training. The loss and the metrics default to the usual ones of the task.

        Args:
            optimizer, loss, weighted_metrics, jit_compile: As for `keras.Model.compile`. Models of
                tokens and labels return logits, so a cross-entropy needs `from_logits=True`.
            **kw: Additional arguments of `keras.Model.compile`.

        Raises:
            ValueError: If the loss is a cross-entropy of probabilities.
        """
        require_loss_of_logits(loss)
        if self.core.variable_dtype in ("bfloat16", "float16"):
            warnings.warn(
                f"The weights are {self.core.variable_dtype}, so small updates are rounded away; "
                "with Adam, nothing is learned. To train in half the precision, load the model "
                f'with dtype="mixed_{self.core.variable_dtype}".',
                stacklevel=2,
            )
        metrics = self.usual_metrics() if weighted_metrics is None else weighted_metrics
        super().compile(
            optimizer=optimizer,
            loss=loss or self.usual_loss(),
            weighted_metrics=metrics,
            jit_compile=jit_compile,
            **kw,
        )

    def compile_from_config(self, config):
        """Compiles a model loaded from a file; its optimizer continues where it stopped."""
        config = keras.saving.deserialize_keras_object(config)
        # Older files hold `None` for no metrics, which stands for the usual ones here.
        self.compile(**{**config, "weighted_metrics": config.get("weighted_metrics") or []})
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
            validation_data: A data set like `x`, or a tuple `(x, y)`, which may end with a
                `sample_weight` if `batches` takes it; of a task that learns from texts alone,
                texts.
            shuffle: As for `batches`.
            validation_batch_size: Number of validation examples per batch. Defaults to
                `batch_size`.
            **kwargs: Additional options of `batches`, and arguments of `keras.Model.fit`. After
                `initial_epoch`, or Keras' `BackupAndRestore`, the order of the data is that of the
                epoch; without them, each call begins with the same order for the same `seed`. With
                `steps_per_epoch`, each epoch continues where the last one stopped, but a call
                always begins with the first batches, and lists start again when all of their
                batches were seen; for a data set call `repeat()`, except for one that `batches`
                reads at once.

        Returns:
            A `keras.callbacks.History`.

        Raises:
            ValueError: If the data have another form, or if `validation_split`, or weights that the
                task does not take, are given: the message names the alternative.
        """
        options = {name: kwargs.pop(name) for name in self.data_options if name in kwargs}
        refuse_what_needs_arrays(**kwargs)
        if validation_data is not None:
            validation_data, weights = self._without_weights(validation_data)
            validation_data = self._validation_arguments(validation_data)
            if validation_batch_size is None:
                validation_batch_size = batch_size
            validation_data = self._batches(
                *validation_data, batch_size=validation_batch_size, **weights
            )
        train = self._batches(x, y, batch_size=batch_size, shuffle=shuffle, seed=seed, **options)
        if self.compiled and self.built and not self.optimizer.built:
            # If the first step creates the variables of the optimizer, TensorFlow traces it twice.
            with self.distribute_strategy.scope():
                self.optimizer.build(self.trainable_variables)
        counted = bool(kwargs.get("steps_per_epoch"))  # as for Keras, 0 is for all batches
        if counted and not self._is_read_by_step(x):
            train = train.repeat()
        if train is not x and not counted:
            callbacks = kwargs.get("callbacks") or []
            if isinstance(callbacks, keras.callbacks.CallbackList):
                callbacks.callbacks.append(OrderOfEpochs(train))
            else:
                callbacks = [*keras.tree.flatten(callbacks), OrderOfEpochs(train)]
            kwargs["callbacks"] = callbacks
        with contextlib.nullcontext() if counted else unknown_number_of_batches():
            options = {"validation_data": validation_data, "shuffle": False, **kwargs}
            history = super().fit(train, **options)
        if history.epoch and "loss" not in history.history:
            warnings.warn(NO_BATCHES, stacklevel=2)
        return history

    def evaluate(self, x: Any, y: Any = None, batch_size: int | None = None, **kwargs: Any) -> Any:
        """Returns the loss and the metrics on raw data.

        Args:
            x, y, batch_size: As for `batches`.
            **kwargs: `sample_weight` if `batches` takes it, and additional arguments of
                `keras.Model.evaluate`.
        """
        weights = {}  # `fit` of Keras evaluates with `sample_weight=None`
        if "sample_weight" in self.data_options and kwargs.get("sample_weight") is not None:
            weights["sample_weight"] = kwargs.pop("sample_weight")
        refuse_what_needs_arrays(**kwargs)
        batches = self._batches(x, y, batch_size=batch_size, **weights)
        with unknown_number_of_batches():
            found = super().evaluate(batches, **kwargs)
        if found in ([], {}):
            warnings.warn(NO_BATCHES, stacklevel=2)
        return found

    def predict(self, x: Any, *args: Any, **kwargs: Any) -> Any:
        """Returns the outputs of the core for batches of tensors, like `keras.Model.predict`.

        Args:
            x: Inputs of the core, or a data set of such batches, as `batches` returns.
            *args, **kwargs: Additional arguments of `keras.Model.predict`.

        Returns:
            An array; or a `tf.RaggedTensor` if outputs of the batches have different lengths.

        Raises:
            ValueError: If `x` holds texts or images, or is a list, such as one of sounds; or if it
                has no rows, or the arrays of a dictionary have different numbers of them.
        """
        require_numbers(getattr(x, "element_spec", x), self)
        require_rows(x)
        with unknown_number_of_batches():
            return super().predict(x, *args, **kwargs)

    def train_step(self, data):
        with after(data):
            return super().train_step(data)

    def test_step(self, data):
        with after(data):
            return super().test_step(data)

    def _maybe_symbolic_build(self, iterator=None, data_batch=None):
        strategy = self.distribute_strategy
        if iterator is not None and strategy.num_replicas_in_sync > 1:
            # Keras averages the parts of the first batch, which fails if their sizes differ.
            for _, _, batches in iterator:
                data_batch = keras.tree.map_structure(
                    lambda parts: strategy.experimental_local_results(parts)[0], next(batches)
                )
                break
            iterator = None
        super()._maybe_symbolic_build(iterator, data_batch)

    def _batches(self, x, y=None, **options):
        """Returns `batches`, or a data set of batches unchanged."""
        if y is not None and isinstance(x, tf.data.Dataset):
            raise ValueError(
                "`y` is for lists; a data set holds inputs and targets. Received: a data set as "
                f"`x`, and y={reprlib.repr(y)}. Pass both as lists, or both in one data set."
            )
        batch_size = options.get("batch_size")
        require_positive_integers_or_none(type(self).__name__, batch_size=batch_size)
        if y is not None or not is_batches(x):
            return self.batches(x, y, **options)
        of_data = {name: options[name] for name in self.data_options if name in options}
        if of_data:
            raise ValueError(
                f"{', '.join(map('`{}`'.format, of_data))} cannot be applied to finished batches. "
                f"Received: batches as `x`, and {of_data!r}. Pass it to `batches` instead."
            )
        return x

    def _is_read_by_step(self, x):
        """Whether training reads `x` batch by batch, so that it may be infinite."""
        return hasattr(x, "element_spec")

    def _without_weights(self, validation_data):
        """Returns validation data without the weights at their end, and options of `batches`."""
        is_tuple = isinstance(validation_data, list | tuple) and len(validation_data) == 3
        if not is_tuple or "sample_weight" not in self.data_options:
            return validation_data, {}
        x, y, weights = validation_data
        return (x, y), {"sample_weight": weights}

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

    def enable_lora(self, rank: int) -> None:
        """Freezes the weights and trains low-rank updates of the dense layers of the blocks.

        $$ W' = W + A B, \\quad A \\in R^{inputs × rank}, \\quad B \\in R^{rank × outputs} $$

        Paper: Hu et al. 2021, LoRA (https://arxiv.org/abs/2106.09685). Uses Keras'
        `Dense.enable_lora`: the projections of attention and of feed-forward networks get `A` and
        `B`. `B` is initialized to zeros, so the outputs do not change at first. A head of dense
        layers after the blocks, such as a classification head, is trained in full. Saved and
        exported models hold the sums `W'`: from a preset as well as from a file of `model.save`, a
        model comes back without LoRA, with all weights trainable.

        A compiled model must be compiled again, since its optimizer holds the former weights.

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
        add_lora(self.core, rank)
        self.forget_compiled()
        self.compiled = False

    def quantize(self, mode: str = "int8", config: Any = None, **kwargs: Any) -> None:
        """Quantizes the kernels of the dense layers to integers, a quarter of the memory.

        Uses `keras.Model.quantize`. This cannot be undone. A quantized model can be exported,
        except to LiteRT, but not saved as a preset or by `save`: save it first, and quantize the
        loaded model.

        Args:
            mode: `"int8"` rounds kernels to 8 bits per output, and inputs to 8 bits per row.
            config, **kwargs: As for `keras.Model.quantize`.
        """
        super().quantize(mode, config, **{"filters": is_dense, **kwargs})
        self.forget_compiled()

    def forget_compiled(self):
        """Drops the compiled functions, since the weights of the core have changed."""
        self.train_function = self.test_function = self.predict_function = None

    # ------------------------------------------------------------------------------------- saving

    @property
    def parts(self):
        """The objects that make up the task, by the names of the constructor's arguments."""
        parts = {"core": self.core, "tokenizer": self.tokenizer}
        return {name: part for name, part in parts.items() if part is not None}

    @property
    def settings(self):
        """The constructor's arguments besides `core` and `tokenizer`, as stored in a config."""
        return {}

    @property
    def tokenizer(self):
        """Turns texts into token ids; `None` for a task without texts."""
        return self._tokenizer

    @classmethod
    def decides(cls, tokenizer=None, **settings):
        """Returns a dictionary of the options of the core that the other parts determine.

        Args:
            tokenizer, **settings: Arguments of the constructor.
        """
        return {} if tokenizer is None else {"vocabulary_size": tokenizer.vocabulary_size}

    def twin(self):
        """Returns an uncompiled task that shares the parts of this one."""
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

    def save(self, filepath: FilePath, *args: Any, **kwargs: Any) -> None:
        """Saves the model with its optimizer as `keras.Model.save` does.

        Args:
            filepath, *args, **kwargs: As for `keras.Model.save`.

        Raises:
            ValueError: If the model is quantized: Keras could not load the file.
        """
        require_float(self)
        super().save(filepath, *args, **kwargs)

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
        """Writes the model as a preset, which `zoo.load` reads. The write is atomic.

        A preset consists of files without code: a card, a config, the weights and, for a model that
        reads or writes texts, the tokenizer, with hashes that `zoo.load` checks. A folder also has
        a `README.md` for the Hugging Face Hub. A preset does not hold the optimizer;
        `model.save(path.keras)` does. Publish an archive at any URL, or a folder with
        `huggingface_hub.upload_folder(repo_id="user/name", folder_path=path)`.

        Args:
            path: A new folder, or a new archive whose name ends with `.zip`.
            description: One line that describes the model; defaults to that of the architecture.
            data: What the model was trained on, in a few words; or a dictionary of `name` and any
                of `language` such as `"en"` or `"en-de"`, `source`, `terms` and `citation`.
            quality: Dictionary from a metric and its protocol to the value, such as
                `{"BLEU, test split": 38.7}`.
            license: License of the model, such as `"CC-BY-4.0"`.
            dtype: `None` to keep the weights as they are, so that the loaded model computes the
                same numbers; `"float16"` for half the size: floats are rounded to 3 decimal digits.
            use: What the model is meant for.
            limits: What the model cannot do, and what it should not be used for.

        Returns:
            A `str` to pass to `zoo.load`: the path, `"./animals"` for `"animals"`; for an archive
            followed by its hash, `model.zip#sha256=...`. The hash can be appended to a URL as well.

        Raises:
            ValueError: If the path exists, the core has no architecture of the zoo, the model is
                quantized, or a weight is not finite or out of the range of `dtype`.
        """
        card = cards.make_card(self, description, data, quality, license, use, limits)
        return presets.save(self, path, card, dtype)


def part_of(part):
    """Returns a part of a task, such as its reader, from the object itself or from its config."""
    return keras.saving.deserialize_keras_object(part) if isinstance(part, dict) else part
