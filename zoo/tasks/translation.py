"""The task of translation: strings in, strings out, whatever the model in between."""

import functools
import inspect
from numbers import Integral, Real

import keras
import tensorflow as tf

from zoo import decoding
from zoo.data.batching import bucket_by_length
from zoo.data.pairs import pairs_of_lists, require_pairs
from zoo.decoding.base import as_length, require
from zoo.readers.text.texts import as_texts
from zoo.serving import Start, buckets
from zoo.tasks.generating import GeneratingTask, best_texts
from zoo.tasks.passages import joined_texts, passages_of, put_together
from zoo.tasks.results import AttentionMaps, TranslationAttention, stacked

TEXTS_A_TOKENIZER_CALL, TEXTS_A_COUNT = 256, 4096
LONGEST_TRANSLATION = 400
LONGEST_SOURCE, SHORTEST_LIMIT = 128, 8  # any character has room in the latter


@keras.saving.register_keras_serializable(package="zoo")
class Translator(GeneratingTask):
    """A translation model together with its tokenizer, decoding and export.

    `fit`, `evaluate` and `translate` take raw strings; the same graph turns them into tokens
    everywhere.

    Args:
        core: A model of token ids with `start` and `step`, such as `AttentionRNNTranslator`. Where
            it has room for `longest` tokens only, that is a limit of sources and translations.
        tokenizer: A `ByteBPETokenizer` of both languages, or another tokenizer, which may be a
            `TwoSidedTokenizer`.
        sampler: How it decodes unless told otherwise; by default beam search with 5 beams.
        max_source_length: Tokens that it translates at once at most, the end token included: a good
            choice is the longest source in training. `translate` cuts longer sentences, the
            exported model answers longer texts with an empty one.
    """

    task_name = "translation"
    task_method = "translate"
    usual_sampler = decoding.BeamSampler(num_beams=5, length_penalty=1.0, exact=False)
    data_options = ("subword_dropout",)

    def __init__(self, core, tokenizer, sampler=None, max_source_length=LONGEST_SOURCE, **kwargs):
        super().__init__(core, tokenizer, sampler, **kwargs)
        self.max_source_length = max_source_length

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

    @property
    def served_lengths(self):
        """Lengths of texts, in tokens, that the exported model warms up for."""
        longest = self._room(self.max_source_length)
        return sorted({min(length, longest) for length in buckets.LENGTHS})

    @property
    def longest(self):
        """Tokens of a text that the core has room for; `None` for any number."""
        return getattr(self.core, "longest", None)

    # ----------------------------------------------------------------------------------- training

    def batches(self, x, y=None, batch_size=None, shuffle=False, seed=0, subword_dropout=0.0):
        """Turns pairs of texts into batches for Keras, grouped by length.

        Args:
            x: `tf.data.Dataset` of (source, target) strings, one pair an element; or a list of
                sources.
            y: List of targets, if `x` is a list.
            batch_size: Pairs a batch, by default 64.
            shuffle: Whether to shuffle pairs given as lists; a data set shuffles itself.
            seed: Seed of that and of `subword_dropout`.
            subword_dropout: Probability of BPE dropout: each epoch sees words in other pieces.

        Returns:
            A data set of `(inputs, labels, weights)`.
        """
        pairs = x if y is None else pairs_of_lists(x, y)
        require_pairs(pairs)
        if shuffle and y is not None:
            pairs = pairs.shuffle(len(pairs), seed=seed)
        seeds = tf.data.Dataset.random(seed=seed, rerandomize_each_iteration=True)
        seeds = seeds.map(lambda number: tf.cast(number % tf.int32.max, tf.int32)).batch(4)

        def tokenize(texts, seeds):
            source, target = texts
            return (
                self.source_tokens(source, subword_dropout, seeds[:2]),
                _tokens(self.tokenizer, target, subword_dropout, seeds[2:]),
            )

        texts = tf.data.Dataset.zip(pairs.batch(TEXTS_A_TOKENIZER_CALL), seeds)
        tokens = texts.map(tokenize, num_parallel_calls=tf.data.AUTOTUNE).unbatch()
        batch_size = batch_size or self.usual_batch_size
        batches = bucket_by_length(tokens, batch_size, self.tokenizer.pad_id)
        return batches.map(self._teach).prefetch(tf.data.AUTOTUNE)

    def source_tokens(self, texts, subword_dropout=0.0, seed=None, longest=None):
        """Returns the ragged tokens of texts, the end token included, as the encoder reads them.

        Those of more than `longest` tokens are cut.
        """
        tokens = _tokens(self.tokenizer.source, texts, subword_dropout, seed)
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

        A text is split into sentences, see `zoo.readers.text.sentences.split_sentences`. They are
        sorted by length, translated in batches, and joined by the white space that was between
        them. What a text gives does not depend on the others. A text of white space alone gives an
        empty one.

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
        texts, is_one = as_texts(texts)
        max_length = options.get("max_length")
        longest = options.pop("max_source_length", self.max_source_length)
        longest = self._room(_as_source_length(longest))
        passages = passages_of(texts, longest, functools.partial(self._count, longest=longest))

        def tokens(passage):
            usual = min(2 * passage.tokens + 10, LONGEST_TRANSLATION)
            return passage.tokens + (usual if max_length is None else as_length(max_length))

        parts = [passage.part.text for passage in passages]
        rows = self._answers(
            parts,
            sampler,
            return_attention,
            batch_size=batch_size,
            lengths=list(map(len, parts)),
            tokens=list(map(tokens, passages)),
            draws=list(map(_draw, passages)),
            jit_compile=jit_compile,
            **options,
        )
        of_texts = [[] for _ in texts]
        for passage, row in zip(passages, rows, strict=True):
            of_texts[passage.place].append((passage.part, row))
        translated = [
            joined_texts([part for part, _ in each], [best_texts(row) for _, row in each])
            for each in of_texts
        ]
        if return_attention:
            return put_together(
                self.tokenizer, translated, [[row for _, row in each] for each in of_texts]
            )
        return translated[0] if is_one else translated

    def _room(self, max_source_length):
        """Returns how many tokens of a source there is room for."""
        return min(max_source_length, self.longest or max_source_length)

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

    # ---------------------------------------------------------------------------------- the graph

    def read(self, requests, served=False):
        """Returns int32 tokens of texts `[batch, source_length]`, and how many each may become.

        A served text of more than `max_source_length` tokens counts as empty.
        """
        if served:
            requests, tokens = self._without_longer(requests, self._room(self.max_source_length))
        else:
            tokens = self.source_tokens(requests, longest=self.longest)
        source_ids = tokens.to_tensor(self.tokenizer.pad_id)
        is_empty = tf.cast(tf.shape(requests)[0] == 0, tf.int32)
        pad_id = self.tokenizer.pad_id
        # An RNN needs a step to take.
        source_ids = tf.pad(source_ids, [[0, 0], [0, is_empty]], constant_values=pad_id)
        lengths = tf.reduce_sum(tf.cast(source_ids != self.tokenizer.pad_id, tf.int32), axis=1)
        is_blank = tf.strings.regex_full_match(requests, r"[\s\v\x{85}\p{Z}]*")
        return source_ids, tf.where(is_blank, 0, self._usual_length(lengths))

    def _without_longer(self, texts, longest):
        """Returns texts and their tokens; those of more than so many tokens count as empty."""
        texts = tf.where(tf.strings.length(texts) > self._most_bytes(longest), "", texts)
        tokens = self.source_tokens(texts)
        is_kept = tokens.row_lengths() <= longest
        is_kept_token = tf.gather(is_kept, tokens.value_rowids())
        is_kept_token |= tokens.values == self.tokenizer.end_id
        tokens = tf.ragged.boolean_mask(tokens, tokens.with_values(is_kept_token))
        return tf.where(is_kept, texts, ""), tokens

    def explanation(self, inputs):
        return {"source_ids": inputs}

    def fill_up(self, inputs):
        return buckets.filled_up(
            inputs, buckets.LENGTHS, axis=1, longest=self.longest, value=self.tokenizer.pad_id
        )

    def longest_answer(self, inputs):
        return self._usual_length(tf.shape(inputs)[1])

    def _usual_length(self, source_length):
        """Returns how many tokens a translation may have unless told otherwise."""
        usual = tf.minimum(2 * source_length + 10, LONGEST_TRANSLATION)
        return usual if self.longest is None else tf.minimum(usual, self.longest)

    def example_request(self, length):
        """Returns a text of as many tokens, the end token included, or a few less."""
        tokens_a_word = self.tokenizer.source.tokenize(["a"]).row_lengths()[0]
        return " ".join(["a"] * int((length - 1) // tokens_a_word))

    def serving_start(self):
        def start(source_ids):
            return self.core.start(source_ids, self.longest_answer(source_ids))

        source_ids = tf.TensorSpec([None, None], tf.int32, name="source_ids")
        return Start(start, source_ids, buckets.LENGTHS[-1])


def _tokens(tokenizer, texts, subword_dropout, seed):
    """Returns the ragged tokens of texts, of BPE dropout only if it is asked for."""
    if isinstance(subword_dropout, Real) and subword_dropout == 0.0:
        return tokenizer.tokenize(texts)
    return tokenizer.tokenize(texts, subword_dropout, seed)


def _as_source_length(tokens):
    is_length = isinstance(tokens, Integral) and tokens >= SHORTEST_LIMIT
    require(is_length, f"an integer of at least {SHORTEST_LIMIT}", max_source_length=tokens)
    return int(tokens)


def _draw(passage):
    """Returns a number that is the place of a text for its first part, another for each other."""
    return (passage.place + 1_000_003 * passage.offset) % 2**31
