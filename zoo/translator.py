"""The task of translation: strings in, strings out, whatever the model in between."""

import functools
import inspect
import itertools
from numbers import Integral

import keras
import tensorflow as tf

from zoo import decoding
from zoo.attention_maps import AttentionMaps, TranslationAttention, stacked
from zoo.decoding.base import as_length, require
from zoo.decoding.compiled import NUMBERS, for_every_form
from zoo.passages import joined_texts, passages_of
from zoo.serving import Endpoint, Start, buckets
from zoo.task import (
    Task,
    as_texts,
    decoded_texts,
    in_batches_by_length,
    seeds_of,
    serving_inputs,
    unknown_number_of_batches,
    validation_arguments,
)
from zoo.training.batching import bucket_by_length
from zoo.training.pairs import is_batches, pairs_of_lists, require_pairs
from zoo.translation import put_together

TEXTS_A_TOKENIZER_CALL, TEXTS_A_COUNT = 256, 4096
LONGEST_TRANSLATION = 400
LONGEST_SOURCE, SHORTEST_LIMIT = 128, 8  # any character has room in the latter
DEFAULT_LENGTH = -1
TEXTS, LENGTHS = tf.TensorSpec([None], tf.string), tf.TensorSpec([None], tf.int32)
LENGTH_STEP = 8  # lengths that XLA compiles for


@keras.saving.register_keras_serializable(package="zoo")
class Translator(Task):
    """A translation model together with its tokenizer, decoding and export.

    `fit`, `evaluate` and `translate` take raw strings; the same graph turns them into tokens
    everywhere.

    Args:
        core: A model of token ids with `start` and `step`, such as `AttentionRNNTranslator`. Where
            it has room for `longest` tokens only, that is a limit of sources and translations.
        tokenizer: A `ByteBPETokenizer` of both languages.
        sampler: How it decodes unless told otherwise; by default beam search with 5 beams.
        max_source_length: Tokens that it translates at once at most, the end token included: a good
            choice is the longest source in training. `translate` cuts longer sentences, the
            exported model answers longer texts with an empty one.
    """

    task_name = "translation"
    task_method = "translate"
    usual_sampler = decoding.BeamSampler(num_beams=5, length_penalty=1.0, exact=False)

    def __init__(self, core, tokenizer, sampler=None, max_source_length=LONGEST_SOURCE, **kwargs):
        super().__init__(core, tokenizer, sampler, **kwargs)
        self.max_source_length = max_source_length
        self._compiled = for_every_form(self._compile_generate)

    @property
    def max_source_length(self):
        """Tokens that it translates at once at most, the end token included; may be set, too."""
        return self._max_source_length

    @max_source_length.setter
    def max_source_length(self, tokens):
        self._max_source_length = _as_source_length(tokens)

    @property
    def settings(self):
        return {**super().settings, "max_source_length": self.max_source_length}

    # ----------------------------------------------------------------------------------- training

    def batches(self, x, y=None, batch_size=64, subword_dropout=0.0, seed=0):
        """Turns pairs of texts into batches for Keras, grouped by length.

        Args:
            x: `tf.data.Dataset` of (source, target) strings, one pair an element; or a list of
                sources; or a data set of such batches, which is returned as it is.
            y: List of targets, if `x` is a list.
            batch_size: Pairs a batch.
            subword_dropout: Probability of BPE dropout: each epoch sees words in other pieces.
            seed: Seed of that.

        Returns:
            A data set of `(inputs, labels, weights)`.
        """
        pairs = x if y is None else pairs_of_lists(x, y)
        if is_batches(pairs):
            return pairs
        require_pairs(pairs)
        seeds = tf.data.Dataset.random(seed=seed, rerandomize_each_iteration=True)
        seeds = seeds.map(lambda number: tf.cast(number % tf.int32.max, tf.int32)).batch(4)

        def tokenize(texts, seeds):
            source, target = texts
            return (
                self.source_tokens(source, subword_dropout, seeds[:2]),
                self.tokenizer.tokenize(target, subword_dropout, seeds[2:]),
            )

        texts = tf.data.Dataset.zip(pairs.batch(TEXTS_A_TOKENIZER_CALL), seeds)
        tokens = texts.map(tokenize, num_parallel_calls=tf.data.AUTOTUNE).unbatch()
        batches = bucket_by_length(tokens, batch_size).map(self._teach)
        return batches.prefetch(tf.data.AUTOTUNE)

    def fit(
        self,
        x,
        y=None,
        batch_size=64,
        validation_data=None,
        shuffle=True,
        subword_dropout=0.0,
        seed=0,
        **kwargs,
    ):
        """Trains on pairs of texts.

        Args:
            x, y, batch_size, subword_dropout, seed: As for `batches`.
            validation_data: A data set of pairs, or a tuple of two lists.
            shuffle: Whether to shuffle pairs given as lists; a data set shuffles itself.
            **kwargs: Further arguments of `keras.Model.fit`.

        Returns:
            A `keras.callbacks.History`.
        """
        if y is not None and shuffle:
            pairs = pairs_of_lists(x, y)
            x, y = pairs.shuffle(len(pairs), seed=seed), None
        if validation_data is not None:
            validation_data = validation_arguments(validation_data)
            validation_data = self.batches(*validation_data, batch_size=batch_size)
        train = self.batches(x, y, batch_size, subword_dropout, seed)
        with unknown_number_of_batches():
            return super().fit(train, validation_data=validation_data, shuffle=False, **kwargs)

    def evaluate(self, x, y=None, batch_size=64, **kwargs):
        """Returns loss, token accuracy and perplexity on pairs of texts.

        Args:
            x, y, batch_size: As for `batches`.
            **kwargs: Further arguments of `keras.Model.evaluate`.
        """
        with unknown_number_of_batches():
            return super().evaluate(self.batches(x, y, batch_size), **kwargs)

    def source_tokens(self, texts, subword_dropout=0.0, seed=None, longest=None):
        """Returns the ragged tokens of texts, the end token included, as the encoder reads them.

        Those of more than `longest` tokens are cut.
        """
        tokens = self.tokenizer.tokenize(texts, subword_dropout, seed)
        tokens = tokens if longest is None else tokens[:, : longest - 1]
        end = tf.fill([tf.shape(texts)[0], 1], self.tokenizer.end_id)
        return tf.concat([tokens, end], axis=1)

    def source_lengths(self, texts):
        """Returns int64 `[batch]`, the numbers of tokens of texts, the end token included."""
        return self.source_tokens(texts).row_lengths()

    def _teach(self, source_ids, target_ids):
        inputs, labels, weights = self.teach(target_ids)
        return {"source_ids": source_ids, "target_ids": inputs}, labels, weights

    # -------------------------------------------------------------------------------- translation

    def translate(
        self,
        texts,
        sampler=None,
        return_attention=False,
        batch_size=64,
        jit_compile=False,
        **options,
    ):
        """Translates a text or a list of texts.

        A text is split into sentences, see `zoo.text.sentences.split_sentences`. They are sorted by
        length and translated in batches, and joined by the white space that was between them. What
        a text gives does not depend on the others. A text of white space alone gives an empty one.

        A sentence of more than `max_source_length` tokens is cut, at clause ends if it has some,
        and its parts are translated one by one; a `UserWarning` tells.

        Args:
            texts: A `str` or a list of `str`.
            sampler: `"greedy"`, `"beam"`, `"random"`, `"top_k"`, `"top_p"`, a sampler object of
                `zoo.decoding`, or `None` for the model's own, `model.default_sampler`.
            return_attention: Whether to return tokens and alignments as well.
            batch_size: Sentences translated at a time at most. Of sentences so long that source and
                translation together may exceed 400 tokens there are fewer, so that the memory that
                a batch takes is bounded.
            jit_compile: Whether to compile with XLA: seconds for the first batch of a shape, then
                faster, which pays for thousands of texts.
            **options: `seed` for the random samplers; `max_length` for the number of tokens of a
                sentence's translation at most; `max_source_length` in place of the model's own; and
                options of the sampler, such as `num_beams=4` or `temperature=0.8`; a sampler
                object has its own.

        Returns:
            A `str` for a `str`, a list of `str` for a list, in order; or a `Translation`. With
            `num_return_sequences` above 1 each translation is a list, best first; for a text of
            several sentences, the n-th joins the n-th of each.

        Raises:
            ValueError: If a text is not a `str`, or sampler or options are unknown.
        """
        seed, max_length = options.pop("seed", 0), options.pop("max_length", None)
        require(isinstance(seed, Integral), "an integer", seed=seed)
        limit = DEFAULT_LENGTH if max_length is None else as_length(max_length)
        longest = options.pop("max_source_length", self.max_source_length)
        longest = self._room(_as_source_length(longest))
        sampler = self.sampler(sampler, **options)
        texts, is_one = as_texts(texts)
        passages = passages_of(texts, longest, functools.partial(self._count, longest=longest))
        generate = self._compiled(sampler, return_attention, jit_compile)

        def of_batch(rows):
            batch = tf.constant([passages[row].part.text for row in rows], tf.string)
            seeds = tf.constant([[seed, _draw(passages[row])] for row in rows], tf.int32)
            return generate(batch, seeds, tf.fill([len(rows)], limit))

        def tokens(passage):
            usual = min(2 * passage.tokens + 10, LONGEST_TRANSLATION)
            return passage.tokens + (usual if max_length is None else limit)

        rows = in_batches_by_length(
            of_batch,
            [len(passage.part.text) for passage in passages],
            batch_size,
            list(map(tokens, passages)),
        )
        of_texts = [[] for _ in texts]
        for passage, row in zip(passages, rows, strict=True):
            of_texts[passage.place].append((passage.part, row))
        translated = [
            joined_texts([part for part, _ in each], [decoded_texts(row) for _, row in each])
            for each in of_texts
        ]
        if return_attention:
            return put_together(
                self.tokenizer, translated, [[row for _, row in each] for each in of_texts]
            )
        return translated[0] if is_one else translated

    def _room(self, max_source_length):
        """Returns how many tokens of a source there is room for."""
        return min(max_source_length, self._longest or max_source_length)

    def _count(self, texts, longest):
        """Returns how many tokens texts have: a bound where their bytes tell all that counts."""
        most_bytes = self._most_bytes(longest)
        sizes = [len(text.encode()) for text in texts]
        counts = [size + 2 if size <= most_bytes else longest + 1 for size in sizes]
        unclear = [row for row, size in enumerate(sizes) if longest - 2 < size <= most_bytes]
        for first in range(0, len(unclear), TEXTS_A_COUNT):
            rows = unclear[first : first + TEXTS_A_COUNT]
            lengths = self.source_lengths(tf.constant([texts[row] for row in rows], tf.string))
            for row, number in zip(rows, lengths.numpy(), strict=True):
                counts[row] = int(number)
        return counts

    def _most_bytes(self, max_source_length):
        """Returns how many bytes a text has at most that is not longer than so many tokens."""
        return (max_source_length - 1) * self.tokenizer.longest_piece

    def attention(self, source, target=None):
        """Returns the attention of every layer and head of a Transformer.

        Args:
            source: A `str`.
            target: A `str`, by default the translation of the source.

        Returns:
            A `TranslationAttention` of `encoder`, `decoder` and `cross`, each with `plot(layer,
            head)`.

        Raises:
            ValueError: If the model is recurrent, a text is no `str`, or the source has more tokens
                than `max_source_length`.
        """
        if "return_attention_scores" not in inspect.signature(self.core.call).parameters:
            raise ValueError(
                f"{type(self.core).__name__} has one attention without heads. See it by "
                "translate(texts, return_attention=True)."
            )
        (source,), _ = as_texts([source])
        longest = self._room(self.max_source_length)
        is_short = self._count([source], longest)[0] <= longest
        require(is_short, f"a text of at most {longest} tokens (max_source_length)", source=source)
        target = self.translate(source) if target is None else target
        (target,), _ = as_texts([target])
        source_ids = self.source_tokens([source]).to_tensor()
        inputs, *_ = self._teach(source_ids, self.tokenizer.tokenize([target]).to_tensor())
        _, weights = self.core(inputs, return_attention_scores=True, training=False)
        (sources,), (targets,) = (self.tokenizer.pieces(ids.numpy()) for ids in inputs.values())
        return TranslationAttention(
            encoder=AttentionMaps(stacked(weights["encoder"]), sources, sources),
            decoder=AttentionMaps(stacked(weights["decoder"]), targets, targets),
            cross=AttentionMaps(stacked(weights["cross"]), targets, sources),
        )

    def generate(
        self,
        texts,
        seeds,
        max_lengths,
        sampler,
        return_attention=False,
        max_source_length=None,
    ):
        """The graph behind `translate` and the exported model: strings to strings.

        Args:
            texts: Strings `[batch]`.
            seeds: int32 `[batch, 2]`, for the random samplers.
            max_lengths: int32 `[batch]`, tokens at most, the end token included; -1 for twice the
                length of the source and ten more.
            sampler: A `zoo.decoding.Sampler`.
            return_attention: Whether to give the tokens of the source and the attention, too.
            max_source_length: Tokens of a text at most, the end token included. What is longer
                counts as empty: it gets an empty text, and costs nothing beyond a look at its size.

        Returns:
            Dictionary of `text`, `token_ids` and `log_prob`, of shapes `[batch, n]`,
            `[batch, n, length]`, `[batch, n]`, where n is the number of hypotheses returned; and
            `source_ids` `[batch, source_length]`, `attention` `[batch, n, length, source_length]`.
        """
        source_ids, max_lengths = self._read(texts, max_lengths, max_source_length)
        max_length = tf.maximum(tf.reduce_max(max_lengths), 1)
        decoded = self.decode(source_ids, seeds, max_lengths, max_length, sampler, return_attention)
        return self._write(decoded, source_ids)

    def decode(self, source_ids, seeds, max_lengths, max_length, sampler, return_attention=False):
        """The numeric core of `generate`: tokens to tokens.

        Args:
            source_ids: int32 `[batch, source_length]`, end token included, padded with 0.
            max_length: The largest of `max_lengths` that can be.
            seeds, max_lengths, sampler, return_attention: As for `generate`.

        Returns:
            `zoo.decoding.Decoded`.
        """
        context, state = self.core.start(source_ids, max_length)
        return self.run_decoder(
            context,
            state,
            sampler,
            max_lengths=max_lengths,
            max_length=max_length,
            seeds=seeds,
            return_attention=return_attention,
        )

    def _read(self, texts, max_lengths, max_source_length=None):
        """Returns tokens of texts `[batch, source_length]`, and how many each may become."""
        longest = self._longest
        if max_source_length is None:
            tokens = self.source_tokens(texts, longest=longest)
        else:
            texts, tokens = self._without_longer(texts, self._room(max_source_length))
        source_ids = tokens.to_tensor(self.tokenizer.pad_id)
        is_empty = tf.cast(tf.shape(texts)[0] == 0, tf.int32)
        source_ids = tf.pad(source_ids, [[0, 0], [0, is_empty]])  # an RNN needs a step to take
        lengths = tf.reduce_sum(tf.cast(source_ids != self.tokenizer.pad_id, tf.int32), axis=1)
        max_lengths = tf.where(max_lengths == DEFAULT_LENGTH, _usual_length(lengths), max_lengths)
        if longest is not None:
            max_lengths = tf.minimum(max_lengths, longest)
        is_blank = tf.strings.regex_full_match(texts, r"[\s\v\x{85}\p{Z}]*")
        return source_ids, tf.where(is_blank, 0, max_lengths)

    def _without_longer(self, texts, longest):
        """Returns texts and their tokens; those of more than so many tokens count as empty."""
        texts = tf.where(tf.strings.length(texts) > self._most_bytes(longest), "", texts)
        tokens = self.source_tokens(texts)
        is_kept = tokens.row_lengths() <= longest
        is_kept_token = tf.gather(is_kept, tokens.value_rowids())
        is_kept_token |= tokens.values == self.tokenizer.end_id
        tokens = tf.ragged.boolean_mask(tokens, tokens.with_values(is_kept_token))
        return tf.where(is_kept, texts, ""), tokens

    def _write(self, decoded, source_ids):
        """Returns what was decoded as `generate` does."""
        outputs = self.write(decoded)
        return outputs if decoded.attention is None else outputs | {"source_ids": source_ids}

    def serving_endpoints(self, sampler):
        """Returns `serving_default`; `explain`, which adds tokens and attention; and `serving_jit`.

        All take `text` `[batch]`, and `seed` int32 `[batch]` if the sampler is a random one. A text
        is not split: one of more than `max_source_length` tokens gets an empty text.
        """
        inputs, longest_source = serving_inputs("text", sampler), self.max_source_length

        def request(rows, length):
            return [[self._text_of(length)] * rows, [0] * rows][: len(inputs)]

        def translate(return_attention, text, seed=None):
            limits = tf.fill(tf.shape(text), DEFAULT_LENGTH)
            outputs = self.generate(
                text, seeds_of(text, seed), limits, sampler, return_attention, longest_source
            )
            of_inputs = {"source_ids"}
            return {name: x if name in of_inputs else x[:, 0] for name, x in outputs.items()}

        def serving_default(*inputs):
            return translate(False, *inputs)

        def explain(*inputs):
            outputs = translate(True, *inputs)
            outputs["tokens"] = self.tokenizer.piece_texts(outputs["token_ids"])
            outputs["source_tokens"] = self.tokenizer.piece_texts(outputs.pop("source_ids"))
            return outputs

        def decode(source_ids, seeds, max_lengths):
            longest = _usual_length(tf.shape(source_ids)[1])
            return self.decode(source_ids, seeds, max_lengths, longest, sampler)

        decode_with_xla = buckets.compiled(decode)

        def serving_jit(text, seed=None):
            limits = tf.fill(tf.shape(text), DEFAULT_LENGTH)
            source_ids, limits = self._read(text, limits, longest_source)
            source_ids = buckets.filled_up(source_ids, buckets.LENGTHS, axis=1)
            outputs = self.write(decode_with_xla(source_ids, seeds_of(text, seed), limits))
            outputs = {name: x[:, 0] for name, x in outputs.items()}
            longest = tf.maximum(tf.reduce_max(limits), 1)
            return {**outputs, "token_ids": outputs["token_ids"][:, :longest]}

        lengths = sorted({min(length, self._room(longest_source)) for length in buckets.LENGTHS})
        one = [request(1, length) for length in lengths]
        every = [request(*sizes) for sizes in itertools.product(buckets.ROWS, lengths)]
        return {
            "serving_default": Endpoint(serving_default, inputs, one),
            "explain": Endpoint(explain, inputs, one),
            "serving_jit": Endpoint(serving_jit, inputs, every),
        }

    def serving_start(self):
        def start(source_ids):
            return self.core.start(source_ids, _usual_length(tf.shape(source_ids)[1]))

        source_ids = tf.TensorSpec([None, None], tf.int32, name="source_ids")
        return Start(start, source_ids, buckets.LENGTHS[-1])

    def _text_of(self, length):
        """Returns a text of as many tokens, the end token included, or a few less."""
        tokens_a_word = self.tokenizer.tokenize(["a"]).row_lengths()[0]
        return " ".join(["a"] * int((length - 1) // tokens_a_word))

    def _compile_generate(self, with_numbers, return_attention, jit_compile):
        if jit_compile:
            return self._compile_with_xla(with_numbers, return_attention)

        def compiled(numbers, texts, seeds, max_lengths):
            sampler = with_numbers(numbers)
            return self.generate(texts, seeds, max_lengths, sampler, return_attention)

        signature = [NUMBERS, TEXTS, tf.TensorSpec([None, 2], tf.int32), LENGTHS]
        return tf.function(compiled, signature, autograph=False).get_concrete_function()

    def _compile_with_xla(self, with_numbers, return_attention):
        """The same, with a core of its own for each of a few shapes."""
        read = tf.function(self._read, [TEXTS, LENGTHS], autograph=False)

        @functools.cache
        def core_of(rows, length, longest):
            def decode(numbers, source_ids, seeds, max_lengths):
                sampler = with_numbers(numbers)
                return self.decode(
                    source_ids, seeds, max_lengths, longest, sampler, return_attention
                )

            shapes = [rows, length], [rows, 2], [rows]
            signature = [NUMBERS, *(tf.TensorSpec(shape, tf.int32) for shape in shapes)]
            return tf.function(decode, signature, autograph=False, jit_compile=True)

        def compiled(numbers, texts, seeds, max_lengths):
            source_ids, max_lengths = read(texts, max_lengths)
            given, length = source_ids.shape
            # Rows and columns that fill up produce nothing.
            rows, columns = 1 << (given - 1).bit_length(), self._rounded_up(length)
            steps = self._rounded_up(max(1, int(tf.reduce_max(max_lengths))))
            decode = core_of(rows, columns, steps)
            decoded = decode(
                numbers,
                tf.pad(source_ids, [(0, rows - given), (0, columns - length)]),
                tf.pad(seeds, [(0, rows - given), (0, 0)]),
                tf.pad(max_lengths, [(0, rows - given)]),
            )
            decoded = tf.nest.map_structure(lambda x: None if x is None else x[:given], decoded)
            padded = tf.pad(source_ids, [(0, 0), (0, columns - length)])
            return self._write(decoded, padded)

        return compiled

    @property
    def _longest(self):
        return getattr(self.core, "longest", None)

    def _rounded_up(self, length):
        """Returns the length that XLA compiles for."""
        rounded = -(-length // LENGTH_STEP) * LENGTH_STEP
        return rounded if self._longest is None else min(rounded, self._longest)


def _as_source_length(tokens):
    is_length = isinstance(tokens, Integral) and tokens >= SHORTEST_LIMIT
    require(is_length, f"an integer of at least {SHORTEST_LIMIT}", max_source_length=tokens)
    return int(tokens)


def _draw(passage):
    """Returns a number that is the place of a text for its first part, another for each other."""
    return (passage.place + 1_000_003 * passage.offset) % 2**31


def _usual_length(source_length):
    """Returns how many tokens a translation may have unless told otherwise."""
    return tf.minimum(2 * source_length + 10, LONGEST_TRANSLATION)
