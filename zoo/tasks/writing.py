"""The task of language modeling: continuing texts, and scoring how probable texts are."""

import functools
from collections.abc import Iterable, Iterator
from typing import Any, Literal, overload

import keras
import numpy as np
import tensorflow as tf

from keras_attention._checks import is_positive_integer
from zoo import decoding
from zoo.data.batching import is_batches
from zoo.data.windows import random_windows, sliding_windows
from zoo.decoding.base import Sampler, as_length, as_seed, require
from zoo.decoding.compiled import made_once
from zoo.decoding.processors import NOTHING
from zoo.readers.text.texts import as_text, as_texts, refuse_paths
from zoo.serving import Start
from zoo.tasks.arguments import Conversation, SamplerLike, Texts
from zoo.tasks.continuation import TOKENS, Continuation, Continued, room
from zoo.tasks.generating import GeneratingTask
from zoo.tasks.padding import own_padding_of, require_same_padding
from zoo.tasks.prompts import Prompts
from zoo.tasks.result_parts import stacked
from zoo.tasks.text_results import AttentionMaps, TextScores
from zoo.tasks.token_streams import TokenStreams
from zoo.tasks.written_tokens import WrittenToken, written_token

LARGEST_WINDOW = 1024  # tokens that a prompt is always padded to


@keras.saving.register_keras_serializable(package="zoo")
class TextGenerator(GeneratingTask):
    """A language model together with its tokenizer, decoding and export.

    `fit`, `evaluate`, `score` and `generate` take raw strings. The model sees at most
    `core.context_length` tokens. In longer texts, each token is predicted from at least half of
    that in `evaluate` and `score`, and from at least three quarters in `generate`.

    Args:
        core: A model of token ids with `start` and `step`, such as `TransformerLanguageModel`.
        tokenizer: A `ByteBPETokenizer` with `prefix_space=False`, or a `Tokenizer`.
        sampler: The default sampler; random sampling at temperature 0.8 if omitted.
        opening: What precedes each text. `None` for the tokenizer's own opening, usually a start
            token; each text is then complete, and ends with an end token. A `str` such as `"\\n"`
            if texts are passages of a longer one, which begin and end anywhere.
        chat: The template that turns conversations into prompts, as for
            `zoo.readers.text.chat.text_of`; `None` for a model that was not trained on them.
    """

    task_name = "language model"
    task_method = "generate"
    usual_sampler = decoding.RandomSampler(temperature=0.8)
    usual_batch_size = 32
    explains = False
    begins_texts = False

    def __init__(self, core, tokenizer, sampler=None, opening=None, chat=None, **kwargs):
        super().__init__(core, tokenizer, sampler, **kwargs)
        if tokenizer.prefix_space:
            raise ValueError(
                "A text generator joins texts, so its tokenizer must not add spaces. Create "
                "it with prefix_space=False: ByteBPETokenizer.train(texts, prefix_space=False)."
            )
        require_same_padding(core, tokenizer.own_pad_id)
        is_text = isinstance(opening, str) and opening != ""
        require(opening is None or is_text, "None or a str that is not empty", opening=opening)
        self.opening = opening
        self._streams = TokenStreams(tokenizer, opening)
        self._prompts = Prompts(self._streams, core.context_length, chat)

    @classmethod
    def decides(cls, tokenizer=None, **settings):
        return {**super().decides(tokenizer), **own_padding_of(tokenizer)}

    def forget_compiled(self):
        super().forget_compiled()
        self._continuation = Continuation(self)
        self._compiled_log_probs = made_once(self._compile_log_probs)

    # ------------------------------------------------------------------------------------ training

    def batches(self, x, y=None, batch_size=None, shuffle=False, seed=0):
        """Turns texts into windows for Keras.

        Args:
            x: A `str`, a list of `str`, or a finite `tf.data.Dataset` of scalar strings, all of
                which are read at once. With `steps_per_epoch`, `fit` repeats its windows.
            y: Not used: a text is its own target.
            batch_size: Number of windows per batch. Defaults to 32.
            shuffle: Whether the windows start at random positions of the concatenated texts, as
                many as cover them about once. Otherwise each token of each text counts once.
            seed: Seed of the windows.

        Returns:
            A data set of `(inputs, labels, weights)`.

        Raises:
            ValueError: If `x` is not a text, is infinite, holds no text of two tokens, or `y` is
                given.
        """
        require(y is None, "left out: a language model learns from texts alone", y=y)
        refuse_paths(x)
        batch_size = batch_size or self.usual_batch_size
        if shuffle:
            stream = self.tokens(x)
            require(len(stream) > 1, "texts of two tokens at least", x=x)
            return random_windows(stream, self.core.context_length, batch_size, seed)
        windows = [sliding_windows(each, self.core.context_length) for each in self._streams.of(x)]
        is_enough = any(weights.any() for _, _, weights in windows)
        require(is_enough, "texts of two tokens at least", x=x)
        arrays = tuple(np.concatenate(parts) for parts in zip(*windows, strict=True))
        return tf.data.Dataset.from_tensor_slices(arrays).batch(batch_size)

    def _is_read_by_step(self, x):
        return is_batches(x)

    def _validation_arguments(self, validation_data):
        return (validation_data,)

    def score(self, texts: str | Texts, batch_size: int = 32) -> TextScores:
        """Returns the log-probability of each piece of each text, and the perplexity of the texts.

        Args:
            texts: A `str` or a list of `str`.
            batch_size: Number of windows to process at a time.

        Returns:
            `TextScores`. The end token of a complete text counts in its perplexity and comes last.
            If nothing precedes a text, as with GPT-2, its first token does not count.

        Raises:
            ValueError: If an input is not a text.
        """
        require(is_positive_integer(batch_size), "at least 1, an integer", batch_size=batch_size)
        texts, _ = as_texts(texts)
        log_probs_of = self._compiled_log_probs()
        tokens, log_probs = [], []
        # Without an opening, nothing precedes the first token.
        seen = max(len(self._streams.opening_ids), 1)
        for stream in self._streams.of(texts):
            inputs, labels, weights = sliding_windows(stream, self.core.context_length)
            rows = range(0, len(inputs), batch_size)
            parts = [slice(row, row + batch_size) for row in rows]
            parts = [log_probs_of(inputs[part], labels[part]) for part in parts]
            of_text = np.concatenate(parts)[weights > 0]
            log_probs.append(of_text[seen - 1 :])
            tokens.append(self.tokenizer.pieces([stream[seen:]])[0])
        means = [each.mean(dtype="float64") if len(each) else np.nan for each in log_probs]
        return TextScores(np.exp(-np.array(means)), tokens, log_probs)

    def tokens(self, texts: str | Texts) -> np.ndarray:
        """Returns the concatenated tokens of texts, int32, which `fit` learns from."""
        return np.concatenate([*self._streams.of(texts)] or [np.zeros(0, "int32")])

    def _compile_log_probs(self):
        @tf.function(input_signature=[TOKENS, TOKENS], autograph=False)
        def log_probs(inputs, labels):
            every = tf.nn.log_softmax(self.core(inputs, training=False))
            return tf.gather(every, labels, batch_dims=2)

        return lambda inputs, labels: log_probs(tf.constant(inputs), tf.constant(labels)).numpy()

    def attention(self, text: str) -> AttentionMaps:
        """Returns the attention of every layer and head on a text.

        Args:
            text: A `str`, at most as long as the context.

        Returns:
            `AttentionMaps`, with `plot(layer, head)`. Each token attends to itself and those before
            it, and predicts the next one.

        Raises:
            ValueError: If `text` is not a `str`, or is longer than the context.
        """
        (stream,) = self._streams.of(as_text(text=text))
        longest = self.core.context_length
        require(len(stream) <= longest, f"a text of at most {longest} tokens", text=text)
        _, weights = self.core(stream[None], return_attention_scores=True, training=False)
        (tokens,) = self.tokenizer.pieces([stream])
        return AttentionMaps(stacked(weights), tokens, tokens)

    # ---------------------------------------------------------------------------------- generation

    @overload
    def generate(
        self,
        prompts: str | Conversation,
        max_length: int = 200,
        sampler: SamplerLike = None,
        seed: int = 0,
        stop: str | Texts = (),
        batch_size: int = 32,
        jit_compile: bool = False,
        *,
        num_return_sequences: Literal[1] = 1,
        **options: Any,
    ) -> str: ...
    @overload
    def generate(
        self,
        prompts: Texts | Iterable[Conversation],
        max_length: int = 200,
        sampler: SamplerLike = None,
        seed: int = 0,
        stop: str | Texts = (),
        batch_size: int = 32,
        jit_compile: bool = False,
        *,
        num_return_sequences: Literal[1] = 1,
        **options: Any,
    ) -> list[str]: ...
    @overload
    def generate(
        self,
        prompts: str | Texts | Conversation | Iterable[Conversation],
        max_length: int = 200,
        sampler: SamplerLike = None,
        seed: int = 0,
        stop: str | Texts = (),
        batch_size: int = 32,
        jit_compile: bool = False,
        **options: Any,
    ) -> Any: ...
    def generate(
        self,
        prompts,
        max_length=200,
        sampler=None,
        seed=0,
        stop=(),
        batch_size=32,
        jit_compile=False,
        **options,
    ):
        """Continues texts, or answers conversations.

        A continuation depends on the prompt, its index in the list, the sampler and the seed, but
        not on the other prompts. The end of a long text is read, but the whole of a conversation,
        whose answer ends where the context is full.

        Args:
            prompts: A `str` or a list of `str`. Or a conversation, a list of messages such as
                `{"role": "user", "content": "Hello!"}`, or a list of conversations, for a model
                with a chat template, which says how they are written.
            max_length: Maximum number of tokens to add.
            sampler: `"greedy"`, `"random"`, `"top_k"`, `"top_p"`, `"beam"`, a sampler object of
                `zoo.decoding`, or `None` for the model's own, `model.default_sampler`. With beam
                search, prompt and new tokens together must fit into the context.
            seed: Seed of a random sampler: the same seed gives the same texts.
            stop: A stop `str` or a list of them; a text ends before the first that occurs.
            batch_size: Number of prompts to process at a time.
            jit_compile: Whether to compile with XLA: this takes seconds for the first texts of a
                shape, and is several times as fast afterwards.
            **options: Options of the sampler, such as `temperature=0.8` or `p=0.95`.

        Returns:
            The continuations: a `str` for a `str`, a list of `str` for a list, in order. With
            `num_return_sequences` above 1 each is a list, best first.

        Raises:
            ValueError: If a prompt is not a `str`, or an argument is unknown or out of range.
        """
        sampler = self.sampler(sampler, **options)
        streams, is_one, is_whole = self._prompts.of(prompts)
        run = functools.partial(
            self._continuation.texts, is_whole=is_whole, jit_compile=jit_compile
        )
        texts = self._in_batches(run, streams, max_length, sampler, seed, stop, batch_size)
        return texts[0] if is_one else texts

    def continuations(
        self,
        prompts: Texts | Iterable[Conversation],
        max_length: int = 200,
        sampler: SamplerLike = None,
        seed: int = 0,
        stop: str | Texts = (),
        batch_size: int = 32,
        **options: Any,
    ) -> list[Continued]:
        """Continues texts as `generate` does, and says how long each became, and why it ended.

        Args:
            prompts: A list of `str`, or of conversations.
            max_length, sampler, seed, stop, batch_size, **options: As for `generate`, without beam
                search.

        Returns:
            A list of `Continued`, in order.

        Example:

        >>> import zoo
        >>> model = zoo.load("transformer_lm_shakespeare")
        >>> model.continuations(["ROMEO"], 1, "greedy")
        [Continued(text=':', num_tokens=1, is_ended=False)]
        """
        sampler = self.sampler(sampler, **options)
        require(sampler.num_beams == 1, "a sampler with one beam", sampler=sampler)
        streams, _, is_whole = self._prompts.of(prompts)
        run = functools.partial(self._continuation.continued, is_whole=is_whole)
        return self._in_batches(run, streams, max_length, sampler, seed, stop, batch_size)

    def _in_batches(self, run, streams, max_length, sampler, seed, stop, batch_size):
        """Returns the results of a method of `Continuation` for each prompt, in order.

        Args:
            run: The method.
            streams: The tokens of each prompt.
            max_length, sampler, seed, stop, batch_size: As for `generate`.
        """
        require(is_positive_integer(batch_size), "at least 1, an integer", batch_size=batch_size)
        stops, max_length, seed = _stops(stop), as_length(max_length), as_seed(seed)
        by_length = sorted(range(len(streams)), key=lambda place: len(streams[place]))
        results = [None] * len(streams)
        for first in range(0, len(streams), batch_size):
            places = by_length[first : first + batch_size]
            batch = [streams[place] for place in places]
            seeds = [[seed, place] for place in places]
            found = run(batch, seeds, max_length, sampler, stops)
            for place, result in zip(places, found, strict=True):
                results[place] = result
        return results

    def stream(
        self,
        prompt: str | Conversation,
        max_length: int = 200,
        sampler: SamplerLike = None,
        seed: int = 0,
        stop: str | Texts = (),
        **options: Any,
    ) -> Iterator[str]:
        """Yields the continuation of a prompt in pieces, as it is generated.

        Joined, the pieces are the result of `generate`.

        Args:
            prompt: A `str`, or a conversation.
            max_length, sampler, seed, stop, **options: As for `generate`; beam search cannot be
                streamed.

        Returns:
            An iterator of `str`.

        Raises:
            ValueError: If the prompt is neither, the sampler has several beams, or an argument is
                unknown or out of range.
        """
        stops = _stops(stop)
        given = self._stepwise(prompt, max_length, sampler, seed, options)
        return self._continuation.pieces(*given, stops)

    def stream_tokens(
        self,
        prompt: str | Conversation,
        max_length: int = 200,
        sampler: SamplerLike = None,
        seed: int = 0,
        top: int = 5,
        **options: Any,
    ) -> Iterator[WrittenToken]:
        """Yields each token that follows a prompt, with its most probable alternatives.

        Args:
            prompt, max_length, sampler, seed, **options: As for `stream`.
            top: Number of most probable tokens to return at each position.

        Returns:
            An iterator of `WrittenToken`; if the text ends, the end token is the last one.

        Example:

        >>> import zoo
        >>> model = zoo.load("transformer_lm_shakespeare")
        >>> [token] = model.stream_tokens("ROMEO", 1, "greedy", top=2)
        >>> token.text
        ':'
        >>> list(token.likely)[0]
        ':'
        """
        require(top >= 0, "at least 0", top=top)
        given = self._stepwise(prompt, max_length, sampler, seed, options)
        _, _, sampler, *_ = given
        end_ids = (self.tokenizer.end_id, *sampler.end_ids)
        tokens = self._continuation.tokens(*given)
        return (written_token(self.tokenizer, *each, end_ids, top) for each in tokens)

    def _stepwise(self, prompt, max_length, sampler, seed, options):
        """Returns the arguments of `Continuation` for generation token by token."""
        max_length, seed = as_length(max_length), as_seed(seed)
        sampler = self.sampler(sampler, **options)
        is_stepwise = type(sampler).pick is not Sampler.pick
        require(is_stepwise, "a sampler that picks token after token", sampler=sampler)
        ids, is_whole = self._prompts.of_one(prompt)
        return ids, max_length, sampler, seed, is_whole

    def conversation_ids(self, messages):
        """Returns the tokens of a conversation, up to where the answer begins."""
        return self._prompts.of_conversation(messages)

    # ---------------------------------------------------------------------------------- the graph

    def read(self, requests, served=False):
        """Returns the ends of texts, int32 `[batch, room]`, left-padded; half a context may follow
        each.
        """
        ids = self._prompts.in_graph(requests)
        prompt_ids = self._padded(ids, room(self.core, self._served_steps))
        return prompt_ids, tf.fill([tf.shape(requests)[0]], self._served_steps)

    def decode(self, inputs, *args, **options):
        # The padding of the tokenizer may be a token of texts, that of prompts is not.
        prompt_ids = tf.where(inputs == self.prompt_pad_id, NOTHING, inputs)
        options |= {"first_tokens": inputs[:, -1], "prompt_ids": prompt_ids}
        return super().decode(inputs, *args, **options)

    def longest_answer(self, inputs):
        return self._served_steps

    def serving_start(self):
        def start(prompt_ids):
            if prompt_ids.shape[1] is None:  # ONNX Runtime fails where no token is left to read
                missing = tf.maximum(2 - tf.shape(prompt_ids)[1], 0)
                around = [[0, 0], [missing, 0]]
                prompt_ids = tf.pad(prompt_ids, around, constant_values=self.prompt_pad_id)
            return self.core.start(prompt_ids, self._served_steps)

        prompt_ids = tf.TensorSpec([None, None], tf.int32, name="prompt_ids")
        return Start(start, prompt_ids, room(self.core, self._served_steps))

    @property
    def prompt_pad_id(self):
        """The id that pads prompts: the `pad_id` of the core, if it has one."""
        return getattr(self.core, "pad_id", 0)

    def _padded(self, ids, longest):
        """Returns the ends of ragged ids, int32 `[batch, length]`, left-padded."""
        if self.core.context_length <= LARGEST_WINDOW:
            length = longest  # one size for all
        else:
            length = tf.minimum(tf.cast(ids.bounding_shape()[1], tf.int32), longest)
        return _cut_and_padded_in_front(ids, length, self.prompt_pad_id)

    @property
    def _served_steps(self):
        """Maximum number of tokens that an exported model adds to a text."""
        return min(max(1, self.core.context_length // 2), LARGEST_WINDOW // 2)

    @property
    def settings(self):
        return {**super().settings, "opening": self.opening, "chat": self._prompts.chat}


def _stops(stop):
    stops = [stop] if isinstance(stop, str) else stop
    is_text = isinstance(stops, list | tuple) and all(isinstance(each, str) for each in stops)
    require(is_text and all(stops), "a str or several, none of them empty", stop=stop)
    return stops


def _cut_and_padded_in_front(ids, length, pad_id):
    """Returns the ends of ragged ids as int32 `(rows, length)`, left-padded, in the graph."""
    lengths = tf.cast(ids.row_lengths(), tf.int32)[:, None]
    places = lengths - length + tf.range(length)  # (rows, length)
    dense = ids.to_tensor(shape=[None, None])
    dense = tf.pad(dense, [[0, 0], [0, 1]])
    return tf.where(places >= 0, tf.gather(dense, tf.maximum(places, 0), batch_dims=1), pad_id)
