"""What tasks share whose core reads an input at once: requests in, tensors out, no decoding."""

import abc
import functools
import pathlib

import tensorflow as tf

from zoo import serving
from zoo.data.batching import in_batches_by_length
from zoo.serving import Endpoint
from zoo.tasks.arguments import FilePath
from zoo.tasks.base import Task

REQUESTS = tf.TensorSpec([None], tf.string)
PAIRS = tf.TensorSpec([None, 2], tf.string)
NO_GRAPH_OF_SOUNDS = (
    "ONNX and LiteRT files are for models of texts or pictures, and for those that generate. "
    'Export this one of sounds as a SavedModel: format="tf_saved_model".'
)


class EncodingTask(Task):
    """A task that answers requests by one call of its core.

    A subclass says how (`respond`); the same graph serves Python and the exported model.

    Args:
        core: A model of tensors.
        tokenizer: The tokenizer of a task of texts.
        reader: What turns requests into tensors, such as a `TextReader`.
    """

    def __init__(self, core, tokenizer, reader, **kwargs):
        super().__init__(core, tokenizer, **kwargs)
        self.reader = reader
        self.forget_compiled()

    def forget_compiled(self):
        super().forget_compiled()
        self._compiled = functools.cache(self._compile)

    @abc.abstractmethod
    def respond(self, requests, **options):
        """Requests to a dictionary of tensors with the batch first, in the graph.

        Args:
            requests: Strings `(batch,)`, or `(batch, 2)` where the reader reads pairs.
            **options: What else there is to say, constants of the graph.
        """

    def _answers(self, requests, batch_size, **options):
        """Returns what `respond` gives, a dictionary of NumPy arrays for each request."""
        are_pairs = bool(requests) and isinstance(requests[0], tuple)
        run = self._compiled(PAIRS if are_pairs else REQUESTS, **options)
        lengths = [sum(map(len, each)) if are_pairs else len(each) for each in requests]

        def of_batch(places):
            return run(tf.constant([requests[place] for place in places], tf.string))

        return in_batches_by_length(of_batch, lengths, batch_size)

    def _compile(self, requests, **options):
        respond = functools.partial(self.respond, **options)
        return tf.function(respond, [requests], autograph=False).get_concrete_function()

    # ------------------------------------------------------------------------------------- export

    def export(self, path: FilePath, format: str = "tf_saved_model") -> pathlib.Path:
        """Writes the model for others to serve.

        `"tf_saved_model"` is for TF Serving, requests as strings in, tensors out: `serving_default`
        takes `text`, `image_bytes` or `sound_bytes`, strings `[batch]`, and gives what the task
        answers; where there is `explain`, it gives the attention as well.

        `"onnx"` and `"litert"` are for run-times of numbers: they get a graph of what the core
        computes of token ids or pixels, see `zoo.serving.encoders`, with what makes these of texts
        or pictures, and the names of labels. Models of sounds have no such graph.

        Args:
            path: For a SavedModel the folder of all versions of this model: the export goes to the
                next number in it. Otherwise a new folder.
            format: `"tf_saved_model"`, `"onnx"` or `"litert"`.

        Returns:
            `pathlib.Path` of what was written.

        Raises:
            ValueError: If `path` is not free, `format` is unknown, or it lacks something that the
                model needs.
            ImportError: If a library for the format is missing.
        """
        if format in serving.GRAPH_FORMATS:
            encoders = self.serving_encoders()
            library = None if self.tokenizer is None else self.tokenizer.to_library()
            contents = self.serving_contents()
            return serving.write_graphs(path, format, self.core, encoders, library, contents)
        serving.require_format(format)
        resources = [self.core] if self.tokenizer is None else [self.core, self.tokenizer]
        return serving.write_version(path, resources, self.endpoints())

    def serving_encoders(self):
        """Returns the `zoo.serving.Encoders` of the model exported as a graph of numbers."""
        config = self.core.config
        has_segments = config.num_segments > 1

        def encode(token_ids, attention_mask, segment_ids=None):
            ids = tf.where(attention_mask > 0, token_ids, config.pad_id)
            inputs = {"token_ids": ids, "segment_ids": segment_ids} if has_segments else ids
            return self.named(self.core(inputs, training=False))

        graphs = {"model": (encode, serving.token_inputs(has_segments))}
        return serving.Encoders(graphs, config.max_length)

    def serving_contents(self):
        """Returns what stands beside the graph: JSON by names of files."""
        labels = getattr(self, "labels", None)
        return {} if labels is None else {serving.LABELS: labels}

    def named(self, outputs):
        """Returns a dictionary of what the core computes, by names for those who get numbers."""
        return {"logits": outputs}

    def endpoints(self):
        """Returns a dictionary of the `zoo.serving.Endpoint`s that are exported, and served."""
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
