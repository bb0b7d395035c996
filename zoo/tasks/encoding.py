"""The base class of tasks without decoding: one call of the core answers a batch of requests."""

import abc
import functools
import pathlib

import tensorflow as tf

from keras_attention._backend import interpreted
from zoo import serving
from zoo.data.batching import in_batches_by_length
from zoo.decoding.compiled import made_once
from zoo.readers.image_reader import ImageReader
from zoo.readers.text.library import with_special_tokens
from zoo.readers.text.text_reader import TextReader
from zoo.serving import Endpoint
from zoo.tasks.arguments import FilePath
from zoo.tasks.base import Task
from zoo.tasks.lora import has_lora, merged
from zoo.tasks.padding import padding_of, require_same_padding

CHARACTERS_A_TOKEN = 4  # about, in English
REQUESTS = tf.TensorSpec([None], tf.string)
PAIRS = tf.TensorSpec([None, 2], tf.string)
NO_GRAPH_OF_SOUNDS = (
    "ONNX and LiteRT files are for models of texts or images, and for those that generate. "
    'Export this one of sounds as a SavedModel: format="tf_saved_model".'
)


class EncodingTask(Task):
    """A task that answers requests with one call of its core.

    A subclass defines how (`respond`); Python and the exported model use the same graph.

    Args:
        core: A model of tensors.
        tokenizer: The tokenizer, for a task of texts.
        reader: Turns requests into tensors, such as a `TextReader`.
    """

    def __init__(self, core, tokenizer, reader, **kwargs):
        super().__init__(core, tokenizer, **kwargs)
        require_same_padding(core, getattr(tokenizer, "pad_id", None))
        self.reader = reader
        self.takes_images = isinstance(reader, ImageReader)
        self.forget_compiled()

    @classmethod
    def decides(cls, tokenizer=None, **settings):
        return {**super().decides(tokenizer), **padding_of(tokenizer)}

    def forget_compiled(self):
        super().forget_compiled()
        self._compiled = made_once(self._compile)

    @abc.abstractmethod
    def respond(self, requests, **options):
        """Turns requests into a dictionary of tensors with the batch first, in the graph.

        Args:
            requests: Strings `(batch,)`, or `(batch, 2)` where the reader reads pairs.
            **options: Further options, constants of the graph.
        """

    def _answers(self, requests, batch_size, **options):
        """Returns the results of `respond`, a dictionary of NumPy arrays for each request."""
        if not requests:
            return []
        are_pairs = isinstance(requests[0], tuple)
        run = self._compiled(PAIRS if are_pairs else REQUESTS, **options)
        lengths = [sum(map(len, each)) if are_pairs else len(each) for each in requests]
        tokens = None  # pairs are truncated or read in windows, and other inputs have no tokens
        if isinstance(self.reader, TextReader) and not are_pairs:
            tokens = [length // CHARACTERS_A_TOKEN for length in lengths]

        def of_batch(places):
            return run(tf.constant([requests[place] for place in places], tf.string))

        return in_batches_by_length(of_batch, lengths, batch_size, tokens)

    def _compile(self, requests, **options):
        respond = interpreted(functools.partial(self.respond, **options))
        return tf.function(respond, [requests], autograph=False).get_concrete_function()

    # ------------------------------------------------------------------------------------- export

    def export(self, path: FilePath, format: str = "tf_saved_model") -> pathlib.Path:
        """Exports the model for serving.

        `"tf_saved_model"` is for TF Serving, which takes requests as strings and returns tensors:
        `serving_default` takes `text`, `image_bytes` or `sound_bytes`, strings `[batch]`, and
        returns the answers of the task; `explain`, where it exists, also returns the attention.

        `"onnx"` and `"litert"` are for runtimes that take numbers only: they get a graph of the
        core, which takes token ids or pixels, see `zoo.serving.encoders`, the files that describe
        the preprocessing, and the names of labels. Models of sounds have no such graph.

        Args:
            path: For a SavedModel the folder of all versions of this model: the export goes to the
                next version number in it. Otherwise a new folder.
            format: `"tf_saved_model"`, `"onnx"` or `"litert"`.

        Returns:
            `pathlib.Path` of the export.

        Raises:
            ValueError: If `path` is not free, `format` is unknown, or the format lacks something
                that the model needs.
            ImportError: If a library for the format is missing.
        """
        if has_lora(self.core):
            return merged(self).export(path, format)
        if format in serving.GRAPH_FORMATS:
            encoders = self.serving_encoders()
            contents, library = self.serving_contents(), None
            if self.tokenizer is not None:
                library = with_special_tokens(self.tokenizer.to_library(), self.tokenizer.templates)
            return serving.write_graphs(path, format, self.core, encoders, library, contents)
        serving.require_format(format)
        resources = [self.core] if self.tokenizer is None else [self.core, self.tokenizer]
        return serving.write_version(path, resources, self.endpoints())

    def serving_encoders(self):
        """Returns the `zoo.serving.Encoders` of the model exported as a graph of numbers.

        Raises:
            ValueError: If the model takes sounds.
        """
        if self.tokenizer is None:
            return self._encoders_of_images()
        config = self.core.config
        has_segments = config.num_segments > 1

        def encode(token_ids, attention_mask, segment_ids=None):
            ids = tf.where(attention_mask > 0, token_ids, config.pad_id)
            inputs = {"token_ids": ids, "segment_ids": segment_ids} if has_segments else ids
            return self.named(self.core(inputs, training=False))

        graphs = {"model": (encode, serving.token_inputs(has_segments))}
        return serving.Encoders(graphs, config.max_length)

    def _encoders_of_images(self):
        if not self.takes_images:
            raise ValueError(NO_GRAPH_OF_SOUNDS)

        def encode(pixels):
            return self.named(self.core(pixels, training=False))

        return serving.Encoders({"model": (encode, serving.pixel_inputs(self.reader))})

    def serving_contents(self):
        """Returns the files that accompany the graph: a dictionary of file names to JSON."""
        labels = getattr(self, "labels", None)
        contents = {} if labels is None else {serving.LABELS: labels}
        return contents | ({serving.PROCESSOR: self.reader.processor} if self.takes_images else {})

    def named(self, outputs):
        """Returns a dictionary of the outputs of the core, by their names in the export."""
        return {"logits": outputs}

    def endpoints(self):
        """Returns a dictionary of the `zoo.serving.Endpoint`s to export and serve."""
        return {"serving_default": self._endpoint(self.respond)}

    def _endpoint_of_pairs(self):
        """Returns the endpoint that answers `text` together with `text_pair`."""

        def respond(texts, others):
            return self.respond(tf.stack([texts, others], axis=1))

        names = "text", "text_pair"
        inputs = [tf.TensorSpec([None], tf.string, name=name) for name in names]
        return Endpoint(respond, inputs, [[[self.reader.example()]] * 2])

    def _endpoint(self, function):
        inputs = [tf.TensorSpec([None], tf.string, name=self.reader.request_name)]
        return Endpoint(function, inputs, [[[self.reader.example()]]])
