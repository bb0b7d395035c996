"""The base class of generating tasks: decoding, teacher forcing, exported endpoints."""

import abc
import dataclasses
import pathlib
from typing import Any

import keras
import tensorflow as tf

from zoo import decoding, serving
from zoo.data.batching import in_batches_by_length
from zoo.decoding.base import Sampler, as_length, as_seed
from zoo.decoding.compiled import NUMBERS, for_every_form, made_once
from zoo.metrics.perplexity import Perplexity
from zoo.metrics.token_accuracy import TokenAccuracy
from zoo.serving import buckets
from zoo.tasks.arguments import FilePath, SamplerLike
from zoo.tasks.base import Task
from zoo.tasks.endpoints import USUAL_LENGTH, serving_endpoints
from zoo.tasks.lora import has_lora, merged

REQUESTS = tf.TensorSpec([None], tf.string)
SEEDS, LIMITS = tf.TensorSpec([None, 2], tf.int32), tf.TensorSpec([None], tf.int32)


class GeneratingTask(Task):
    """A task whose core generates token by token: requests in, texts out.

    A request is a string: a text, or the bytes of an image. A subclass defines how requests become
    tensors (`read`), and may extend the outputs (`write`, `explanation`). Python and the exported
    model use the same graph.

    Args:
        core: A model of token ids with the step protocol of `zoo.decoding`.
        tokenizer: Turns strings into token ids and back.
        sampler: The default sampler: a name, a sampler of `zoo.decoding`, or `None` for the usual
            one of the task.
        dtype: Keras dtype policy; defaults to that of the core.

    Class attributes:
        usual_sampler: The sampler of a model for which none was chosen.
        request_name: Name of a request in the exported model.
        explains: Whether the core returns attention, so that the exported model has `explain`.
        served_lengths: Input lengths that the exported model warms up for.
        request_spec: `tf.TensorSpec` of the requests that Python sends.
        begins_texts: Whether the output begins a text, or continues one.
    """

    usual_sampler = decoding.GreedySampler()
    request_name = "text"
    explains = True
    served_lengths = (None,)
    request_spec = REQUESTS
    begins_texts = True

    def __init__(self, core, tokenizer, sampler=None, **kwargs):
        super().__init__(core, tokenizer, **kwargs)
        self.default_sampler = sampler or self.usual_sampler
        self.forget_compiled()

    def forget_compiled(self):
        super().forget_compiled()
        self._compiled = for_every_form(self._compile)

    @property
    def settings(self):
        return {"sampler": keras.saving.serialize_keras_object(self.default_sampler)}

    # ------------------------------------------------------------------------------------ sampler

    def sampler(self, sampler: SamplerLike = None, **options: Any) -> Sampler:
        """Returns a sampler by its name, an object as it is, or the default one with other options.

        A sampler chosen by its name also gets the processors and end tokens of the default one.

        Raises:
            ValueError: If the sampler or an option is unknown, or an option is out of range.
        """
        if sampler is None:
            chosen = decoding.with_options(self.default_sampler, **options)
        else:
            chosen = decoding.get(sampler, **options)
            if isinstance(sampler, str) and "processors" not in options:
                chosen = decoding.with_rules(chosen, self.default_sampler)
        # Only these: the settings of some checkpoints hold ids of no token.
        decoding.require_token_ids(options, self.tokenizer.vocabulary_size)
        return chosen

    @property
    def default_sampler(self):
        """The default sampler; may also be set by name."""
        return self._default_sampler

    @default_sampler.setter
    def default_sampler(self, sampler):
        self._default_sampler = decoding.get(sampler)

    @property
    def longest(self):
        """Number of tokens that the core has room for; `None` for any number."""
        return getattr(self.core, "longest", None)

    # ----------------------------------------------------------------------------------- training

    def usual_metrics(self):
        return [TokenAccuracy("token_accuracy"), Perplexity()]

    def teach(self, target_ids):
        """Teacher forcing: each token is predicted from those before; the end token comes last.

        Args:
            target_ids: int32 `[rows, length]`, padded.

        Returns:
            `(inputs, labels, weights)`, each `[rows, length + 1]`; weights are 1 for tokens and 0
            for padding.

        Raises:
            tf.errors.InvalidArgumentError: If a row is longer than the core has room for.
        """
        rows = tf.shape(target_ids)[0]
        start = tf.fill([rows, 1], self.tokenizer.start_id)
        inputs = self._with_room(tf.concat([start, target_ids], axis=1))
        lengths = tf.reduce_sum(tf.cast(target_ids != self.tokenizer.pad_id, tf.int32), axis=1)
        labels = tf.pad(target_ids, [[0, 0], [0, 1]], constant_values=self.tokenizer.pad_id)
        is_end = tf.range(tf.shape(inputs)[1]) == lengths[:, None]
        labels = tf.where(is_end, self.tokenizer.end_id, labels)
        weights = tf.sequence_mask(lengths + 1, tf.shape(inputs)[1], tf.float32)
        return inputs, labels, weights

    def _with_room(self, inputs):
        """Returns the inputs of the core, which must have a position for each of them."""
        longest = getattr(self.core, "longest", None)  # `self.longest` may exclude a prompt
        if longest is None:
            return inputs
        advice = f"A text to learn has more tokens than the {longest} positions. Shorten it."
        has_room = tf.debugging.assert_less_equal(tf.shape(inputs)[1], longest, advice)
        with tf.control_dependencies([has_room]):
            return tf.identity(inputs)

    # ------------------------------------------------------------------------- what a task decides

    @abc.abstractmethod
    def read(self, requests, served=False):
        """Reads requests, in the graph.

        Args:
            requests: Strings `[batch]`.
            served: Whether they come from a server, which does not read inputs that are too large.

        Returns:
            `(inputs, limits)`: the input tensors of the core, batch first, and int32 `[batch]`, the
            maximum number of tokens of each answer, the end token included. It is 0 for a request
            that is not read, whose answer is empty.
        """

    def write(self, decoded):
        """Returns the decoded tokens and texts, by their names in the exported model.

        Args:
            decoded: Result of `decode`.

        Returns:
            Dictionary of `text` and `log_prob`, of shape `[batch, n]`, `token_ids` `[batch, n,
            length]`, and `attention` if requested.
        """
        shape = tf.shape(decoded.token_ids)  # batch, n, length
        flat = tf.reshape(decoded.token_ids, [-1, shape[2]])  # [batch * n, length]
        outputs = {
            "text": tf.reshape(self.texts_of(flat), shape[:2]),
            "token_ids": decoded.token_ids,
            "log_prob": decoded.log_probs,
        }
        return outputs if decoded.attention is None else outputs | {"attention": decoded.attention}

    def texts_of(self, token_ids):
        """Returns the texts of generated tokens `[rows, length]`, strings `[rows]`."""
        return self.tokenizer.detokenize(token_ids, begins_text=self.begins_texts)

    def explanation(self, inputs):
        """Returns a dictionary of tensors that explain the attention to inputs."""
        return {}

    def fill_up(self, inputs):
        """Pads inputs, except for the batch axis, to one of the few sizes that XLA compiles for."""
        return inputs

    @abc.abstractmethod
    def longest_answer(self, inputs):
        """Returns the maximum number of tokens of an answer to inputs of this shape."""

    def example_request(self, length):
        """Returns a request whose inputs have at most one of `served_lengths`."""
        return "a"

    # ---------------------------------------------------------------------------------- the graph

    def decode(self, inputs, seeds, limits, max_length, sampler, return_attention=False, **options):
        """Runs the core and the decoding loop: tensors to tokens.

        Args:
            inputs: Inputs returned by `read`.
            seeds: int32 `[batch, 2]`, for the random samplers.
            limits: int32 `[batch]`, maximum numbers of tokens, the end token included.
            max_length: Upper bound of the limits.
            sampler: A `zoo.decoding.Sampler`.
            return_attention: Whether to also return the attention.
            **options: Additional options of `zoo.decoding.decode`.

        Returns:
            `zoo.decoding.Decoded`.
        """
        *begun, first_tokens = self.begin(inputs, max_length)
        options = {"first_tokens": first_tokens, **options}
        return self.decode_from(
            *begun, seeds, limits, max_length, sampler, return_attention, **options
        )

    def decode_from(
        self, context, state, seeds, limits, max_length, sampler, return_attention=False, **options
    ):
        """Runs the decoding loop from a context and a state of the core; as `decode` otherwise."""
        options = {"start_id": self.tokenizer.start_id, **options}
        return decoding.decode(
            self.core.step,
            context,
            state,
            sampler,
            end_id=self.tokenizer.end_id,
            pad_id=self.tokenizer.pad_id,
            max_lengths=limits,
            max_length=max_length,
            seeds=seeds,
            return_attention=return_attention,
            **options,
        )

    def begin(self, inputs, max_length):
        """Returns the context and the first state of the core, and the tokens of its first step.

        Args:
            inputs: Inputs returned by `read`.
            max_length: Number of steps to reserve room for.

        Returns:
            The results of `core.start`, and int32 `[batch]`, or `None` for the start token.
        """
        return *self.core.start(inputs, max_length), None

    def answer(self, requests, seeds, max_lengths, sampler, return_attention=False, served=False):
        """Turns requests into texts: the graph behind Python and the exported model.

        Args:
            requests: Strings `[batch]`.
            max_lengths: int32 `[batch]`, maximum numbers of tokens, the end token included;
                `USUAL_LENGTH` for the limits of `read`.
            seeds, sampler, return_attention: As for `decode`.
            served: As for `read`.

        Returns:
            The results of `write` and, with attention, of `explanation`.
        """
        inputs, usual = self.read(requests, served)
        limits = self._limits(max_lengths, usual)
        return self.answer_inputs(inputs, seeds, limits, sampler, return_attention)

    def answer_inputs(self, inputs, seeds, limits, sampler, return_attention=False):
        """The part of `answer` after `read`."""
        max_length = tf.maximum(tf.reduce_max(limits), 1)
        decoded = self.decode(inputs, seeds, limits, max_length, sampler, return_attention)
        return self._explained(decoded, inputs)

    def _limits(self, max_lengths, usual):
        """Returns the maximum number of tokens of each answer, given the caller's limits."""
        limits = tf.where(max_lengths == USUAL_LENGTH, usual, max_lengths)
        limits = limits if self.longest is None else tf.minimum(limits, self.longest)
        return tf.where(usual == 0, 0, limits)

    def _explained(self, decoded, inputs):
        """Returns the decoded texts and, with attention, its explanation."""
        outputs = self.write(decoded)
        return outputs if decoded.attention is None else outputs | self.explanation(inputs)

    # ------------------------------------------------------------------------------------- Python

    def _answers(
        self,
        requests,
        sampler=None,
        return_attention=False,
        batch_size=64,
        lengths=None,
        tokens=None,
        draws=None,
        jit_compile=False,
        max_length=None,
        seed=0,
        compiled=None,
        **options,
    ):
        """Answers a list of requests, in batches of similar length.

        Args:
            requests: List of strings, or of other inputs of `compiled`.
            batch_size, lengths, tokens: As for `in_batches_by_length`; by default all requests have
                the same length.
            draws: Integer for each request, which seeds a random sampler together with `seed`;
                defaults to its position in the list.
            max_length: Maximum number of tokens of an answer; `None` for the limits of `read`.
            seed: Seed of a random sampler.
            compiled: Result of `for_every_form`; defaults to that for `answer`.
            sampler, **options: As for `sampler`.

        Returns:
            A list of dictionaries of NumPy arrays, the results of `answer` for each request.
        """
        seed = as_seed(seed)
        limit = USUAL_LENGTH if max_length is None else as_length(max_length)
        draws = range(len(requests)) if draws is None else draws
        compiled = compiled or self._compiled
        run = compiled(self.sampler(sampler, **options), return_attention, jit_compile)

        def of_batch(places):
            batch = tf.convert_to_tensor([requests[place] for place in places])
            seeds = tf.constant([[seed, draws[place]] for place in places], tf.int32)
            return run(batch, seeds, tf.fill([len(places)], limit))

        lengths = [0] * len(requests) if lengths is None else lengths
        at_once = 1 if jit_compile else None  # several would compile the same function
        return in_batches_by_length(of_batch, lengths, batch_size, tokens, at_once)

    def _compile(self, with_numbers, return_attention, jit_compile):
        """Compiles `answer` for the samplers of one form."""
        if jit_compile:
            return self._compile_with_xla(with_numbers, return_attention)

        def compiled(numbers, requests, seeds, max_lengths):
            sampler = with_numbers(numbers)
            return self.answer(requests, seeds, max_lengths, sampler, return_attention)

        signature = [NUMBERS, self.request_spec, SEEDS, LIMITS]
        return tf.function(compiled, signature, autograph=False).get_concrete_function()

    def _compile_with_xla(self, with_numbers, return_attention):
        """The same, with the decoding compiled by XLA, for a few sizes only."""
        read = tf.function(self.read, [self.request_spec], autograph=False)

        @made_once
        def decoder(max_length):
            def decode(inputs, seeds, limits, numbers):
                sampler = with_numbers(numbers)
                return self.decode(inputs, seeds, limits, max_length, sampler, return_attention)

            return buckets.compiled(decode)

        def compiled(numbers, requests, seeds, max_lengths):
            inputs, usual = read(requests)
            inputs, limits = self.fill_up(inputs), self._limits(max_lengths, usual)
            longest = tf.maximum(tf.reduce_max(limits), 1)
            max_length = int(buckets.rounded_up(longest, buckets.LENGTHS, self.longest))
            decoded = decoder(max_length)(inputs, seeds, limits, numbers=numbers)
            return self._explained(decoded, inputs)

        return compiled

    # ------------------------------------------------------------------------------------- export

    @abc.abstractmethod
    def serving_start(self):
        """Returns the `zoo.serving.Start` of an export for runtimes that take numbers only."""

    def serving_contents(self):
        """Returns a dictionary from the names of further files there to their JSON contents."""
        return {}

    def export(
        self,
        path: FilePath,
        format: str = "tf_saved_model",
        sampler: SamplerLike = None,
        jit_compile: bool = True,
        **options: Any,
    ) -> pathlib.Path:
        """Exports the model for serving.

        `"tf_saved_model"` is for TF Serving, strings in, strings out. Its signatures are
        `serving_default`, `serving_jit`, which is compiled with XLA for a few sizes, and, if the
        model supports it, `explain`. With tensorflow-serving-api installed, the export holds
        warm-up requests for each of them.

        `"onnx"` and `"litert"` are for runtimes that take numbers only, which get two graphs and
        the tokenizer: see `zoo.serving.steps`. The caller picks the next token.

        Args:
            path: For a SavedModel the folder of all versions of this model: the export goes to the
                next version number in it, `path/1` first, so `path` itself must not be a number.
                Otherwise a new folder. It appears only when it is complete.
            format: `"tf_saved_model"`, `"onnx"` or `"litert"`.
            sampler: For a SavedModel, as for generation in Python; one hypothesis is returned.
            jit_compile: Whether a SavedModel has `serving_jit`. TF Serving on a CPU then needs
                `--xla_cpu_compilation_enabled`; without it, the model fails to load at warm-up.
            **options: Options of the sampler.

        Returns:
            `pathlib.Path` of the export.

        Raises:
            ValueError: If `path` is not free, an argument is unknown, or the format lacks
                something that the model needs.
            ImportError: If a library for the format is missing.
        """
        if has_lora(self.core):
            return merged(self).export(path, format, sampler, jit_compile, **options)
        if format in serving.GRAPH_FORMATS:
            if sampler is not None or options:
                raise ValueError(
                    "Only a SavedModel can contain a sampler and its options. With "
                    f"format={format!r}, the caller of the graphs picks the tokens."
                )
            start = self.serving_start()
            library = self.tokenizer.to_library()
            contents = self.serving_contents()
            return serving.write_graphs(path, format, self.core, start, library, contents)
        serving.require_format(format)
        endpoints = self.endpoints(sampler, **options)
        if not jit_compile:
            del endpoints["serving_jit"]
        return serving.write_version(path, [self.core, self.tokenizer], endpoints)

    def endpoints(self, sampler=None, **options):
        """Returns a dictionary of the `zoo.serving.Endpoint`s to export and serve.

        Args:
            sampler, **options: As for `export`.
        """
        sampler = self.sampler(sampler, **options)
        if sampler.num_return_sequences > 1:
            sampler = dataclasses.replace(sampler, num_return_sequences=1)
        return serving_endpoints(self, sampler)


def best_texts(row):
    """Returns the text of one of the `_answers`: a `str`, or a list of several."""
    texts = [text.decode() for text in row["text"]]
    return texts[0] if len(texts) == 1 else texts
