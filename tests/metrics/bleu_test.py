"""BLEU against Papineni's equation, and against the published Multi30k tokens."""

import collections
import gzip
import math
import os
import pathlib
import sys

import pytest
import sacrebleu

from zoo.metrics import BleuScore, moses_lowercase_bleu, sacrebleu_score
from zoo.metrics.bleu import _moses_lowercase_tokenizer, sentence_bleu

HYPOTHESES = [
    "the cat sat on the mat",
    "a man rides a red bike down the street",
    "the the the the dog",
]
REFERENCES = [
    "the cat sat quietly on the mat",
    "a man rides a red bicycle down the long street",
    "the brown dog runs in the park",
]


def papineni(hypotheses, references, added=0):
    """Corpus BLEU of whitespace tokens with one reference each; adds `added` to counts if n > 1."""
    hypothesis_tokens = [text.split() for text in hypotheses]
    reference_tokens = [text.split() for text in references]
    precisions = []
    for n in range(1, 5):
        matched = proposed = 0
        for hypothesis, reference in zip(hypothesis_tokens, reference_tokens, strict=True):
            counts, allowed = ngrams(hypothesis, n), ngrams(reference, n)
            matched += sum(min(count, allowed[ngram]) for ngram, count in counts.items())
            proposed += sum(counts.values())
        more = added if n > 1 else 0
        precisions.append((matched + more) / (proposed + more))
    h = sum(map(len, hypothesis_tokens))
    r = sum(map(len, reference_tokens))
    penalty = 1.0 if h > r else math.exp(1 - r / h)
    score = penalty * math.exp(sum(math.log(precision) for precision in precisions) / 4)
    return 100 * score, [100 * precision for precision in precisions], penalty, h, r


def papineni_of_several(hypotheses, references):
    """Corpus BLEU of whitespace tokens with several references each, and the lengths h and r."""
    logarithms, lengths = [], [0, 0]
    for n in range(1, 5):
        matched = proposed = 0
        for hypothesis, each in zip(hypotheses, references, strict=True):
            counts = ngrams(hypothesis.split(), n)
            allowed = [ngrams(reference.split(), n) for reference in each]
            for ngram, count in counts.items():
                matched += min(count, max(counts[ngram] for counts in allowed))
            proposed += sum(counts.values())
        logarithms.append(math.log(matched / proposed))
    for hypothesis, each in zip(hypotheses, references, strict=True):
        length = len(hypothesis.split())
        closest = min((abs(len(text.split()) - length), len(text.split())) for text in each)
        lengths = [lengths[0] + length, lengths[1] + closest[1]]
    h, r = lengths
    return 100 * min(1, math.exp(1 - r / h)) * math.exp(sum(logarithms) / 4), h, r


def ngrams(tokens, n):
    return collections.Counter(tuple(tokens[i : i + n]) for i in range(len(tokens) - n + 1))


@pytest.mark.parametrize(
    "bleu", [sacrebleu_score, lambda *texts: moses_lowercase_bleu(*texts, language="en")]
)
def test_equals_papineni(bleu):
    score, precisions, penalty, h, r = papineni(HYPOTHESES, REFERENCES)
    result = bleu(HYPOTHESES, REFERENCES)
    assert result.score == pytest.approx(score)
    assert result.precisions == pytest.approx(precisions)
    assert result.brevity_penalty == pytest.approx(penalty)
    assert penalty < 1
    assert (result.hypothesis_length, result.reference_length) == (h, r)


@pytest.mark.parametrize(
    "bleu", [sacrebleu_score, lambda *texts: moses_lowercase_bleu(*texts, language="en")]
)
def test_equals_papineni_with_several_references(bleu):
    references = [
        [REFERENCES[0], "a cat sat on the mat today"],
        [REFERENCES[1]],
        [REFERENCES[2], "the the dog runs in a park with others", "a dog"],
    ]
    score, h, r = papineni_of_several(HYPOTHESES, references)
    result = bleu(HYPOTHESES, references)
    assert result.score == pytest.approx(score)
    assert (result.hypothesis_length, result.reference_length) == (h, r)
    assert "nrefs:var|" in result.signature
    assert result.score > bleu(HYPOTHESES, REFERENCES).score
    assert bleu(HYPOTHESES, [[each] for each in REFERENCES]) == bleu(HYPOTHESES, REFERENCES)


def test_bleu_of_sentences_equals_papineni_with_added_ones():
    found = sentence_bleu(HYPOTHESES, REFERENCES)
    pairs = zip(HYPOTHESES, REFERENCES, strict=True)
    expected = [papineni([text], [reference], added=1)[0] for text, reference in pairs]
    assert found == pytest.approx(expected)


def test_bleu_of_sentences_that_say_nothing_is_zero():
    assert sentence_bleu(["", "xyz"], ["a dog", "a dog"]) == [0.0, 0.0]


def test_moses_tokens_are_normalized_escaped_and_lower_case():
    tokenize = _moses_lowercase_tokenizer("de")
    assert tokenize("Der Mann sagt: „Ja“, geht & winkt.") == (
        "der mann sagt : &quot; ja &quot; , geht &amp; winkt ."
    )


def test_case_counts_for_sacrebleu_only():
    hypothesis, reference = ["A dog runs on the beach ."], ["a Dog runs on the Beach."]
    assert moses_lowercase_bleu(hypothesis, reference, "en").score == pytest.approx(100)
    assert sacrebleu_score(hypothesis, reference).score < 50


def test_moses_is_not_smoothed():
    assert moses_lowercase_bleu(["one two three four"], ["one two four three"], "en").score == 0.0


def test_prints_as_papers_do():
    score = BleuScore(39.1234, (71.04, 47.5, 34.3, 24.5), 0.99912, 12089, 12100, "tok:13a")
    assert str(score) == (
        "39.12 (71.0/47.5/34.3/24.5, BP 0.999, hyplen 12089, reflen 12100) tok:13a"
    )


def test_signatures_state_protocol_and_versions():
    assert sacrebleu_score(HYPOTHESES, REFERENCES).signature == (
        f"nrefs:1|case:mixed|eff:no|tok:13a|smooth:exp|version:{sacrebleu.__version__}"
    )
    signature = moses_lowercase_bleu(HYPOTHESES, REFERENCES, "en").signature
    for part in ("lc.norm.tok", "lang:en", "sacremoses:", "tok:none", "smooth:none", "version:"):
        assert part in signature


def test_what_cannot_be_scored_is_refused():
    with pytest.raises(ValueError, match="empty list of hypotheses"):
        sacrebleu_score([], [])
    with pytest.raises(ValueError, match="3 hypotheses and 2 references"):
        moses_lowercase_bleu(HYPOTHESES, REFERENCES[:2], "en")
    with pytest.raises(TypeError, match="hypotheses must be a list of strings.*generator"):
        sacrebleu_score((text for text in ["a"]), ["a"])
    with pytest.raises(TypeError, match="hypotheses must be a list of strings.*'a text'"):
        sacrebleu_score("a text", ["a text"])
    with pytest.raises(TypeError, match="references must be a list of strings"):
        sacrebleu_score(["a"], [["a", 1]])
    with pytest.raises(TypeError, match="references must be .* at least one string for each"):
        sacrebleu_score(["a", "b"], [["a"], []])
    with pytest.raises(ValueError, match="en, de, fr, cs. Received: language='german'"):
        moses_lowercase_bleu(HYPOTHESES, REFERENCES, "german")


@pytest.mark.parametrize("library", ["sacrebleu", "sacremoses"])
def test_a_missing_library_says_what_to_install(monkeypatch, library):
    monkeypatch.setitem(sys.modules, library, None)
    with pytest.raises(ImportError, match=rf'{library}.*"keras-attention-zoo\[metrics\]"'):
        moses_lowercase_bleu(HYPOTHESES, REFERENCES, "en")


@pytest.mark.skipif("MULTI30K_DIR" not in os.environ, reason="MULTI30K_DIR is not set")
@pytest.mark.parametrize("language", ["de", "en", "fr"])
def test_tokens_are_those_of_the_published_files(language):
    folder = pathlib.Path(os.environ["MULTI30K_DIR"])
    raw = gzip.decompress((folder / "raw" / f"test_2016_flickr.{language}.gz").read_bytes())
    published = (folder / "tok" / f"test_2016_flickr.lc.norm.tok.{language}").read_bytes()
    ours = map(_moses_lowercase_tokenizer(language), raw.decode("utf-8").split("\n")[:-1])
    theirs = published.decode("utf-8").split("\n")[:-1]
    equal = [mine == line for mine, line in zip(ours, theirs, strict=True)]
    assert len(equal) == 1000
    assert sum(equal) >= 999
