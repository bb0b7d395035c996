"""The task of translation: strings in, strings out, with any model in between."""

import functools
import inspect
from typing import Any, Unpack, overload

import keras
import tensorflow as tf

from zoo import decoding
from zoo.decoding.base import as_length, require
from zoo.readers.text.texts import as_text, as_texts
from zoo.tasks.arguments import No, OneEach, Options, SamplerLike, Texts, Yes
from zoo.tasks.generating import best_texts
from zoo.tasks.passages import joined_texts, passages_of, put_together
from zoo.tasks.result_parts import stacked
from zoo.tasks.source_to_target import LONGEST_TARGET, SourceToTargetTask, as_source_length
from zoo.tasks.text_results import AttentionMaps, Translation, TranslationAttention

TEXTS_A_COUNT = 4096


@keras.saving.register_keras_serializable(package="zoo")
class Translator(SourceToTargetTask):
    """A translation model together with its tokenizer, decoding and export.

    `fit`, `evaluate` and `translate` take raw strings; the same graph turns them into tokens
    everywhere.

    Args:
        core: A model of token ids with `start` and `step`, such as `AttentionRNNTranslator`. If it
            has room for only `longest` tokens, this limits sources and translations.
        tokenizer: A `ByteBPETokenizer` of both languages, or another tokenizer, which may be a
            `TwoSidedTokenizer`.
        sampler: The default sampler; beam search with 5 beams if omitted.
        max_source_length: Maximum number of tokens to translate at once, the end token included: a
            good choice is the longest source in training. `translate` splits longer sentences; the
            exported model answers longer texts with an empty one.
    """

    task_name = "translation"
    task_method = "translate"
    usual_sampler = decoding.BeamSampler(num_beams=5, length_penalty=1.0, exact=False)

    # -------------------------------------------------------------------------------- translation

    @overload
    def translate(
        self,
        texts: str,
        sampler: SamplerLike = None,
        return_attention: No = False,
        **options: Unpack[OneEach],
    ) -> str: ...
    @overload
    def translate(
        self,
        texts: Texts,
        sampler: SamplerLike = None,
        return_attention: No = False,
        **options: Unpack[OneEach],
    ) -> list[str]: ...
    @overload
    def translate(
        self,
        texts: str | Texts,
        sampler: SamplerLike = None,
        *,
        return_attention: Yes,
        **options: Unpack[OneEach],
    ) -> Translation: ...
    @overload
    def translate(
        self,
        texts: str | Texts,
        sampler: SamplerLike = None,
        return_attention: bool = False,
        batch_size: int = 64,
        jit_compile: bool = False,
        **options: Unpack[Options],
    ) -> Any: ...
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
        them. The translation of a text does not depend on the other texts. The translation of a
        text of only white space is empty.

        If a model translates into several languages, a text begins with the code of one, such as
        `">>fr<< It rains."`, which holds for all of its sentences.

        A sentence of more than `max_source_length` tokens is split, if possible at clause ends, and
        its parts are translated one by one, with a `UserWarning`.

        Args:
            texts: A `str` or a list of `str`.
            sampler: `"greedy"`, `"beam"`, `"random"`, `"top_k"`, `"top_p"`, a sampler object of
                `zoo.decoding`, or `None` for the model's own, `model.default_sampler`.
            return_attention: Whether to also return tokens and alignments.
            batch_size: Maximum number of sentences to translate at a time. If source and
                translation together may exceed 400 tokens, batches are smaller, to limit the memory
                that they take.
            jit_compile: Whether to compile with XLA: this takes seconds for the first batch of a
                shape, and is faster afterwards, which pays off for thousands of texts.
            **options: `seed` for the random samplers; `max_length`, the maximum number of tokens of
                a sentence's translation; `max_source_length` in place of the model's own; and
                options of the sampler, such as `num_beams=4` or `temperature=0.8`, unless `sampler`
                is an object, which has its own.

        Returns:
            A `str` for a `str`, a list of `str` for a list, in order; or a `Translation`. With
            `num_return_sequences` above 1 each translation is a list, best first; for a text of
            several sentences, the n-th joins the n-th of each.

        Raises:
            ValueError: If a text is not a `str`, or the sampler, an option or a language code is
                unknown.
        """
        texts, is_one = as_texts(texts)
        max_length = options.get("max_length")
        longest = options.pop("max_source_length", self.max_source_length)
        longest = self._room(as_source_length(longest))
        count = functools.partial(self._count, longest=longest)
        passages = passages_of(texts, longest, count, self.tokenizer.source.language_codes)

        def tokens(passage):
            usual = min(2 * passage.tokens + 10, LONGEST_TARGET)
            return passage.tokens + (usual if max_length is None else as_length(max_length))

        parts = [passage.text for passage in passages]
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

    def between(self, source_language: str, target_language: str) -> "Translator":
        """Returns a translator of another pair of languages, which shares all weights.

        Args:
            source_language, target_language: Codes of two languages of `model.tokenizer.languages`,
                such as `"en"` and `"de"` of M2M100, or `"eng_Latn"` and `"deu_Latn"` of NLLB.

        Raises:
            ValueError: If a language is unknown, or the model was not loaded from a checkpoint of
                many languages.
        """
        if not hasattr(self.tokenizer, "between"):
            raise ValueError(
                "Only a model of many languages, such as M2M100 or NLLB, translates between others."
                f" Received: source_language={source_language!r}, target_language="
                f"{target_language!r}, for a tokenizer of the kind {type(self.tokenizer).__name__}."
            )
        tokenizer = self.tokenizer.between(source_language, target_language)
        other = type(self)(self.core, tokenizer, **self.settings)
        other.build()
        other.checkpoint = self.checkpoint
        return other

    def _count(self, texts, longest):
        """Returns the numbers of tokens of texts, or bounds where the number of bytes suffices."""
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

    def attention(self, source: str, target: str | None = None) -> TranslationAttention:
        """Returns the attention of every layer and head of a Transformer.

        Args:
            source: A `str`.
            target: A `str`; defaults to the translation of the source.

        Returns:
            A `TranslationAttention` of `encoder`, `decoder` and `cross`, each with `plot(layer,
            head)`.

        Raises:
            ValueError: If the model is recurrent, a text is not a `str`, or the source has more
                tokens than `max_source_length`.
        """
        if "return_attention_scores" not in inspect.signature(self.core.call).parameters:
            raise ValueError(
                f"{type(self.core).__name__} has a single attention without heads. Show it with "
                "translate(texts, return_attention=True)."
            )
        source = as_text(source=source)
        longest = self._room(self.max_source_length)
        is_short = self._count([source], longest)[0] <= longest
        require(is_short, f"a text of at most {longest} tokens (max_source_length)", source=source)
        target = self.translate(source) if target is None else target
        target = as_text(target=target)
        source_ids = self.source_tokens([source]).to_tensor()
        inputs, *_ = self._teach(source_ids, self.tokenizer.tokenize([target]).to_tensor())
        _, weights = self.core(inputs, return_attention_scores=True, training=False)
        (sources,), (targets,) = (self.tokenizer.pieces(ids.numpy()) for ids in inputs.values())
        return TranslationAttention(
            encoder=AttentionMaps(stacked(weights["encoder"]), sources, sources),
            decoder=AttentionMaps(stacked(weights["decoder"]), targets, targets),
            cross=AttentionMaps(stacked(weights["cross"]), targets, sources),
        )


def _draw(passage):
    """Returns the index of a text for its first part, and another number for each other part."""
    return (passage.place + 1_000_003 * passage.offset) % 2**31
