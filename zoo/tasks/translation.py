"""The task of translation: strings in, strings out, whatever the model in between."""

import inspect

import keras
import numpy as np
import tensorflow as tf

from zoo import decoding
from zoo.data.batching import bucket_by_length
from zoo.data.pairs import pairs_of_lists, require_pairs
from zoo.serving import Start, buckets
from zoo.tasks.generating import GeneratingTask, best_texts
from zoo.tasks.results import AttentionMaps, Translation, TranslationAttention, stacked
from zoo.tasks.texts import as_texts

TEXTS_A_TOKENIZER_CALL = 256
LONGEST_TRANSLATION = 400


@keras.saving.register_keras_serializable(package="zoo")
class Translator(GeneratingTask):
    """A translation model together with its tokenizer, decoding and export.

    `fit`, `evaluate` and `translate` take raw strings; the same graph turns them into tokens
    everywhere.

    Args:
        core: A model of token ids with `start` and `step`, such as `AttentionRNNTranslator`. Where
            it has room for `longest` tokens only, sources and translations are cut there.
        tokenizer: A `ByteBPETokenizer` of both languages.
        sampler: How it decodes unless told otherwise; by default beam search with 5 beams.
    """

    task_name = "translation"
    task_method = "translate"
    usual_sampler = decoding.BeamSampler(num_beams=5, length_penalty=1.0, exact=False)
    data_options = ("subword_dropout",)
    served_lengths = buckets.LENGTHS

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
                self.tokenizer.tokenize(target, subword_dropout, seeds[2:]),
            )

        texts = tf.data.Dataset.zip(pairs.batch(TEXTS_A_TOKENIZER_CALL), seeds)
        tokens = texts.map(tokenize, num_parallel_calls=tf.data.AUTOTUNE).unbatch()
        batches = bucket_by_length(tokens, batch_size or self.usual_batch_size)
        return batches.map(self._teach).prefetch(tf.data.AUTOTUNE)

    def source_tokens(self, texts, subword_dropout=0.0, seed=None, longest=None):
        """Returns the ragged tokens of texts, the end token included, as the encoder reads them.

        Those of more than `longest` tokens are cut.
        """
        tokens = self.tokenizer.tokenize(texts, subword_dropout, seed)
        tokens = tokens if longest is None else tokens[:, : longest - 1]
        end = tf.fill([tf.shape(texts)[0], 1], self.tokenizer.end_id)
        return tf.concat([tokens, end], axis=1)

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

        Texts are sorted by length and translated in batches; what a text gives does not depend on
        the others. A text of white space alone gives an empty one.

        Args:
            texts: A `str` or a list of `str`.
            sampler: `"greedy"`, `"beam"`, `"random"`, `"top_k"`, `"top_p"`, a sampler object of
                `zoo.decoding`, or `None` for the model's own, `model.default_sampler`.
            return_attention: Whether to return tokens and alignments as well.
            batch_size: Texts translated at a time.
            jit_compile: Whether to compile with XLA: seconds for the first batch of a shape, then
                faster, which pays for thousands of texts.
            **options: `seed` for the random samplers, `max_length` for the number of tokens at
                most, and options of the sampler, such as `num_beams=4` or `temperature=0.8`;
                a sampler object has its own.

        Returns:
            A `str` for a `str`, a list of `str` for a list, in order; or a `Translation`. With
            `num_return_sequences` above 1 each translation is a list, best first.

        Raises:
            ValueError: If a text is not a `str`, or sampler or options are unknown.
        """
        texts, is_one = as_texts(texts)
        rows = self._answers(
            texts,
            sampler,
            return_attention,
            batch_size=batch_size,
            lengths=[len(text) for text in texts],
            jit_compile=jit_compile,
            **options,
        )
        translated = [best_texts(row) for row in rows]
        if return_attention:
            return self._translation(translated, rows)
        return translated[0] if is_one else translated

    def attention(self, source, target=None):
        """Returns the attention of every layer and head of a Transformer.

        Args:
            source: A `str`.
            target: A `str`, by default the translation of the source.

        Returns:
            A `TranslationAttention` of `encoder`, `decoder` and `cross`, each with `plot(layer,
            head)`.

        Raises:
            ValueError: If the model is recurrent, or a text is no `str`.
        """
        if "return_attention_scores" not in inspect.signature(self.core.call).parameters:
            raise ValueError(
                f"{type(self.core).__name__} has one attention without heads. See it by "
                "translate(texts, return_attention=True)."
            )
        target = self.translate(source) if target is None else target
        (source, target), _ = as_texts([source, target])
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

    def read(self, requests):
        """Returns int32 tokens of texts `[batch, source_length]`, and how many each may become."""
        longest = self.longest
        source_ids = self.source_tokens(requests, longest=longest).to_tensor(self.tokenizer.pad_id)
        is_empty = tf.cast(tf.shape(requests)[0] == 0, tf.int32)
        source_ids = tf.pad(source_ids, [[0, 0], [0, is_empty]])  # an RNN needs a step to take
        lengths = tf.reduce_sum(tf.cast(source_ids != self.tokenizer.pad_id, tf.int32), axis=1)
        is_blank = tf.strings.regex_full_match(requests, r"[\s\v\x{85}\p{Z}]*")
        return source_ids, tf.where(is_blank, 0, self._usual_length(lengths))

    def explanation(self, inputs):
        return {"source_ids": inputs}

    def fill_up(self, inputs):
        return buckets.filled_up(inputs, buckets.LENGTHS, axis=1, longest=self.longest)

    def longest_answer(self, inputs):
        return self._usual_length(tf.shape(inputs)[1])

    def _usual_length(self, source_length):
        """Returns how many tokens a translation may have unless told otherwise."""
        usual = tf.minimum(2 * source_length + 10, LONGEST_TRANSLATION)
        return usual if self.longest is None else tf.minimum(usual, self.longest)

    def example_request(self, length):
        """Returns a text of as many tokens, the end token included, or a few less."""
        tokens_a_word = self.tokenizer.tokenize(["a"]).row_lengths()[0]
        return " ".join(["a"] * int((length - 1) // tokens_a_word))

    def serving_start(self):
        def start(source_ids):
            return self.core.start(source_ids, self.longest_answer(source_ids))

        source_ids = tf.TensorSpec([None, None], tf.int32, name="source_ids")
        return Start(start, source_ids, buckets.LENGTHS[-1])

    def _translation(self, translated, rows):
        """Takes the best hypothesis of each row apart into pieces and alignments, unpadded."""
        pad = self.tokenizer.pad_id
        targets = [row["token_ids"][0] for row in rows]
        targets = [ids[ids != pad] for ids in targets]
        sources = [row["source_ids"][row["source_ids"] != pad] for row in rows]
        return Translation(
            texts=translated,
            tokens=self.tokenizer.pieces(targets),
            source_tokens=self.tokenizer.pieces(sources),
            attention=[
                row["attention"][0, : len(target), : len(source)]
                for row, target, source in zip(rows, targets, sources, strict=True)
            ],
            log_probs=np.array([row["log_prob"][0] for row in rows], "float32"),
        )
