"""Caption metrics against their equations."""

import shutil
import sys

import numpy as np
import pytest
from pycocoevalcap.tokenizer.ptbtokenizer import PTBTokenizer

from tests.metrics.caption_equations import (
    HYPOTHESES,
    REFERENCES,
    bleu,
    brevity_penalty,
    cider,
    split,
)
from zoo.metrics.captions import (
    CaptionScores,
    _plain_tokenize,
    _ptb_tokenize,
    caption_scores,
)

needs_java = pytest.mark.skipif(shutil.which("java") is None, reason="there is no java")


@pytest.fixture(scope="module")
def scores():
    """Scores without METEOR, which takes seconds to start."""
    return caption_scores(HYPOTHESES, REFERENCES, with_meteor=False)


@pytest.fixture
def no_java(monkeypatch):
    monkeypatch.setenv("PATH", "")


def rouge_l(hypothesis, references):
    """The F-measure of the best precision and the best recall over all references."""
    hypothesis, precisions, recalls = hypothesis.split(), [], []
    for text in references:
        common = longest_common(hypothesis, text.split())
        precisions.append(common / len(hypothesis))
        recalls.append(common / len(text.split()))
    precision, recall = max(precisions), max(recalls)
    return (1 + 1.2**2) * precision * recall / (recall + 1.2**2 * precision)


def longest_common(one, other):
    if not one or not other:
        return 0
    if one[-1] == other[-1]:
        return 1 + longest_common(one[:-1], other[:-1])
    return max(longest_common(one[:-1], other), longest_common(one, other[:-1]))


def test_scores_equal_their_equations(scores):
    for n in (1, 2, 3, 4):
        assert getattr(scores, f"bleu_{n}") == pytest.approx(
            bleu(HYPOTHESES, REFERENCES, n), rel=1e-6
        )
    assert scores.brevity_penalty == pytest.approx(brevity_penalty(HYPOTHESES, REFERENCES))
    assert scores.brevity_penalty < 1
    corpus = split(REFERENCES)
    ciders = [
        cider(text.split(), references, corpus)
        for text, references in zip(HYPOTHESES, corpus, strict=True)
    ]
    assert scores.cider == pytest.approx(100 * np.mean(ciders))
    rouges = map(rouge_l, HYPOTHESES, REFERENCES)
    assert scores.rouge_l == pytest.approx(100 * np.mean(list(rouges)))


@needs_java
def test_tokens_are_those_of_coco_caption():
    texts = [
        "A dog's t-shirt (red), isn't it? \"No\" -- & $5 ...",
        "",
        "Café\u2028naïve\r\n a ||| b",
        "U.S. cannot won't",
        "   ",
    ]
    captions = dict(enumerate([[{"caption": " ".join(text.split())}] for text in texts]))
    expected = [text for (text,) in PTBTokenizer().tokenize(captions).values()]
    assert _ptb_tokenize(texts) == expected
    assert _ptb_tokenize(["", "."]) == ["", ""]


def test_plain_tokens():
    assert _plain_tokenize(["A dog's t-shirt, red; isn't it?!", "", "I cannot: 'no' - $5.50"]) == [
        "a dog 's t-shirt red is n't it",
        "",
        "i can not no $ 5.50",
    ]


@needs_java
def test_plain_tokens_are_the_same_in_plain_captions():
    texts = ["Two dogs (in the snow) can't run.", "A man, 30, in a T-shirt; it's blue & white!"]
    ptb = [text.replace("-lrb- ", "").replace("-rrb- ", "") for text in _ptb_tokenize(texts)]
    assert _plain_tokenize(texts) == ptb


def test_meteor_is_left_out_where_it_is_not_wanted():
    scores = caption_scores(["a dog"], [["a dog"]], with_meteor=False)
    assert scores.meteor is None
    assert "meteor:none" in scores.signature
    assert scores.bleu_1 == pytest.approx(100)


@pytest.mark.full
@needs_java
def test_meteor_equals_its_equation_and_nothing_is_printed(capfd):
    # One of three words is a function word (weight ¼, others ¾), one has the same stem (0.6).
    # All words match in order, so there is no penalty.
    expected = (0.25 + 0.75 * 1 + 0.75 * 0.6) / (0.25 + 0.75 + 0.75)
    scores = caption_scores(["The dogs run."], [["the dogs running"]])
    assert scores.meteor == pytest.approx(100 * expected)
    assert "1.5.en" in scores.signature
    assert capfd.readouterr() == ("", "")


def test_without_java(no_java):
    scores = caption_scores([f"{text.title()}." for text in HYPOTHESES], REFERENCES)
    assert scores.meteor is None
    assert scores.bleu_4 == pytest.approx(bleu(HYPOTHESES, REFERENCES, 4), rel=1e-6)
    assert "tok:regex.lower.nopunct" in scores.signature
    assert "meteor:none" in scores.signature
    assert "|nrefs:1|" in caption_scores(["a"], [["a"]]).signature
    assert "METEOR" not in str(scores)


@needs_java
def test_signature_states_the_protocol(scores):
    for part in ("pycocoevalcap:1", "nrefs:2-4|", "ptb-3.4.1", "closest", "cider:D"):
        assert part in scores.signature


def test_prints_as_papers_do():
    scores = CaptionScores(67.04, 45.72, 31.41, 21.3, 0.98, 55.06, 46.2, 20.26, "nrefs:5")
    assert str(scores) == (
        "BLEU-1/2/3/4 67.0/45.7/31.4/21.3 (BP 0.980), METEOR 20.3, ROUGE-L 46.2, CIDEr 55.1 nrefs:5"
    )


def test_a_blank_caption_scores_nothing(no_java):
    scores = caption_scores([*HYPOTHESES, " ..."], [*REFERENCES, ["a cat"]])
    assert np.isfinite([scores.bleu_4, scores.cider, scores.rouge_l]).all()
    assert caption_scores(["..."], [["a cat"]]).brevity_penalty == 0


def test_what_cannot_be_scored_is_refused():
    with pytest.raises(ValueError, match="hypotheses is empty"):
        caption_scores([], [])
    with pytest.raises(ValueError, match="4 hypotheses and 3 lists of references"):
        caption_scores(HYPOTHESES, REFERENCES[:3])
    with pytest.raises(ValueError, match=r"at least one reference.*references\[1\]=\[\]"):
        caption_scores(["a", "b"], [["a"], []])
    with pytest.raises(ValueError, match=r"No reference has a word.*\['\.\.\.', ''\]"):
        caption_scores(["a dog"], [["...", ""]], with_meteor=False)
    with pytest.raises(TypeError, match="hypotheses must be a list of strings.*generator"):
        caption_scores((text for text in ["a"]), [["a"]])
    with pytest.raises(TypeError, match="hypotheses must be a list of strings.*'a dog'"):
        caption_scores("a dog", [["a dog"]])
    with pytest.raises(TypeError, match=r"references\[0\] must be a list of strings.*'a dog'"):
        caption_scores(["a dog"], ["a dog"])
    with pytest.raises(TypeError, match=r"references\[0\] must be a list of strings"):
        caption_scores(["a dog"], [[["a", "dog"]]])


def test_a_missing_library_says_what_to_install(monkeypatch, no_java):
    monkeypatch.setitem(sys.modules, "pycocoevalcap.bleu.bleu_scorer", None)
    with pytest.raises(ImportError, match=r'pycocoevalcap.*"keras-attention-zoo\[metrics\]"'):
        caption_scores(HYPOTHESES, REFERENCES)


@needs_java
def test_a_java_that_fails_is_told(monkeypatch, tmp_path):
    java = tmp_path / "java"
    java.write_text("#!/bin/sh\necho no runtime >&2\nexit 3\n")
    java.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/bin:/usr/bin")
    with pytest.raises(RuntimeError, match="tokenizes captions failed.*no runtime"):
        caption_scores(HYPOTHESES, REFERENCES)
