"""Corpus BLEU in the two forms that papers report, each with the protocol of its computation."""

import dataclasses
import importlib
import itertools

_MOSES_LANGUAGES = ("en", "de", "fr", "cs")


@dataclasses.dataclass(frozen=True)
class BleuScore:
    """A corpus BLEU score, with the information needed to compare it.

        BLEU = 100 · BP · exp(¼ Σₙ log pₙ)        BP = min(1, exp(1 − r / h))

    with pₙ the share of hypothesis n-grams found in the reference (n = 1 ... 4, counts clipped),
    h and r the lengths of all hypotheses and of all references.

    Paper: Papineni et al. 2002, BLEU: a Method for Automatic Evaluation of Machine Translation
    (https://aclanthology.org/P02-1040).

    Args:
        score: BLEU from 0 to 100.
        precisions: p₁ ... p₄ in percent.
        brevity_penalty: BP, at most 1.
        hypothesis_length: Tokens in all hypotheses, h.
        reference_length: Tokens in all references, r.
        signature: The protocol: tokenization, case, smoothing and library versions.
    """

    score: float
    precisions: tuple[float, ...]
    brevity_penalty: float
    hypothesis_length: int
    reference_length: int
    signature: str

    def __str__(self):
        precisions = "/".join(f"{precision:.1f}" for precision in self.precisions)
        return (
            f"{self.score:.2f} ({precisions}, BP {self.brevity_penalty:.3f}, "
            f"hyplen {self.hypothesis_length}, reflen {self.reference_length}) {self.signature}"
        )


def sacrebleu_score(hypotheses, references):
    """Computes BLEU of cased, detokenized text, as sacreBLEU does by default.

    Papers: Papineni et al. 2002, as for `BleuScore`; Post 2018, A Call for Clarity in Reporting
    BLEU Scores (https://aclanthology.org/W18-6319).

    Args:
        hypotheses: A list of strings, the translations.
        references: A list of strings, one for each hypothesis; or a list of lists, with
            all correct ones.

    Returns:
        A `BleuScore` with sacreBLEU's full signature.

    Raises:
        ValueError: If there are no hypotheses, or the number of references differs.
        TypeError: If one of the arguments is not a list of strings.
        ImportError: If sacrebleu is not installed.

    Example:

    >>> score = sacrebleu_score(["A man rides a red bike."], ["A man rides a blue bike."])
    >>> print(score)
    48.89 (85.7/66.7/40.0/25.0, BP 1.000, hyplen 7, reflen 7) nrefs:1|case:mixed|eff:no|tok:13a|...
    """
    hypotheses, references = _checked_sentences(hypotheses, references)
    metric = _import("sacrebleu").BLEU()
    result = metric.corpus_score(hypotheses, _streams(references))
    return _bleu_score(result, str(metric.get_signature()))


def sentence_bleu(hypotheses, references):
    """Computes the BLEU of each sentence, a reward for self-critical training.

        BLEU = 100 · BP · (p₁ · p₂ · p₃ · p₄)^¼        pₙ = (matches + 1) / (n-grams + 1) for n > 1

    with the tokens of `sacrebleu_score`. Without the added ones, most sentences would score 0.

    Paper: Lin and Och 2004, "ORANGE: a method for evaluating automatic evaluation metrics for
    machine translation" (https://aclanthology.org/C04-1072).

    Args:
        hypotheses: A list of strings, the translations.
        references: A list of strings, one for each hypothesis; or a list of lists, with
            all correct ones.

    Returns:
        A list of numbers from 0 to 100.

    Raises:
        ValueError, TypeError, ImportError: As for `sacrebleu_score`.

    Example:

    >>> scores = sentence_bleu(["A man rides.", "A cat"], ["A man sleeps.", "The dog"])
    >>> [round(score, 2) for score in scores]
    [50.0, 0.0]
    """
    hypotheses, references = _checked_sentences(hypotheses, references)
    metric = _import("sacrebleu").BLEU(smooth_method="add-k", smooth_value=1, effective_order=True)
    return [
        metric.sentence_score(hypothesis, each).score
        for hypothesis, each in zip(hypotheses, references, strict=True)
    ]


def moses_lowercase_bleu(hypotheses, references, language):
    """Computes BLEU as in papers on Multi30k: lower-cased, on Moses tokens, unsmoothed.

    Both sides are lower-cased, punctuation-normalized and tokenized with XML escapes, in the order
    of Multi30k's own script `task1-tokenize.sh`, which made the `lc.norm.tok` files. The score is
    that of `multi-bleu.perl`. It is not comparable with `sacrebleu_score`.

    Args:
        hypotheses: A list of strings, the translations: raw text, not tokenized.
        references: A list of strings, one for each hypothesis: raw text, not tokenized; or a list
            of lists, with all correct ones.
        language: Language of both: `"en"`, `"de"`, `"fr"` or `"cs"`.

    Returns:
        A `BleuScore`, whose signature states the protocol and the library versions.

    Raises:
        ValueError: If the language is unknown, there are no hypotheses, or the number of references
            differs.
        TypeError: If one of the arguments is not a list of strings.
        ImportError: If sacrebleu or sacremoses is not installed.

    Example:

    >>> score = moses_lowercase_bleu(["Ein Mann fährt Rad."], ["ein Mann fährt Rad ."], "de")
    >>> round(score.score, 2)
    100.0
    """
    hypotheses, references = _checked_sentences(hypotheses, references)
    tokenize = _moses_lowercase_tokenizer(language)
    sacrebleu, sacremoses = _import("sacrebleu"), _import("sacremoses")
    # force: the text is tokenized on purpose, so sacreBLEU need not warn about it.
    metric = sacrebleu.BLEU(tokenize="none", smooth_method="none", force=True)
    result = metric.corpus_score(
        list(map(tokenize, hypotheses)),
        _streams([list(map(tokenize, each)) for each in references]),
    )
    protocol = f"moses:lc.norm.tok|lang:{language}|sacremoses:{sacremoses.__version__}"
    return _bleu_score(result, f"{protocol}|{metric.get_signature()}")


def _moses_lowercase_tokenizer(language):
    if language not in _MOSES_LANGUAGES:
        raise ValueError(
            f"moses_lowercase_bleu follows the Multi30k protocol, which has the languages "
            f"{', '.join(_MOSES_LANGUAGES)}. Received: language={language!r}. "
            "Use sacrebleu_score for other languages."
        )
    sacremoses = _import("sacremoses")
    normalizer = sacremoses.MosesPunctNormalizer(lang=language)
    tokenizer = sacremoses.MosesTokenizer(lang=language)

    def tokenize(text):
        # Lower case comes first, because Moses splits "Bart." but takes "A." for an abbreviation.
        normalized = normalizer.normalize(text.lower())
        return tokenizer.tokenize(normalized, return_str=True, escape=True)

    return tokenize


def _checked_sentences(hypotheses, references):
    """Returns a list of hypotheses, and for each a list of its references."""
    if not _are_texts(hypotheses):
        raise TypeError(
            f"hypotheses must be a list of strings. Received: hypotheses={hypotheses!r:.80}"
        )
    each_has_one = _are_texts(references)
    each_has_some = isinstance(references, list | tuple) and all(
        isinstance(each, list | tuple) and each and _are_texts(each) for each in references
    )
    if not each_has_one and not each_has_some:
        raise TypeError(
            "references must be a list of strings, or of a list with at least one string for each "
            f"hypothesis. Received: references={references!r:.80}"
        )
    if len(hypotheses) != len(references):
        raise ValueError(
            f"Each hypothesis needs its reference. Received {len(hypotheses)} hypotheses and "
            f"{len(references)} references."
        )
    if len(hypotheses) == 0:
        raise ValueError("BLEU of no text is undefined. Received an empty list of hypotheses.")
    return list(hypotheses), [[each] if each_has_one else list(each) for each in references]


def _are_texts(texts):
    is_list = hasattr(texts, "__len__") and not isinstance(texts, str)
    return is_list and all(isinstance(text, str) for text in texts)


def _streams(references):
    """Returns references as sacreBLEU takes them: all first ones, all second ones or `None`, ..."""
    return list(map(list, itertools.zip_longest(*references)))


def _bleu_score(result, signature):
    return BleuScore(
        score=result.score,
        precisions=tuple(result.precisions),
        brevity_penalty=result.bp,
        hypothesis_length=result.sys_len,
        reference_length=result.ref_len,
        signature=signature,
    )


def _import(name):
    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise ImportError(
            f"zoo.metrics needs {name}, which could not be imported. "
            'Install it with: pip install "keras-attention-zoo[metrics]"'
        ) from error
