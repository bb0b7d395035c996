"""Scores of captions as reported in papers, computed by coco-caption."""

import dataclasses
import importlib
import importlib.metadata
import math
import pathlib
import re
import shutil
import subprocess

_CONTRACTION = re.compile(r"(?<=\w)(n't|'(?:s|re|ve|ll|d|m))\b")
_WORD = re.compile(r"n't|'(?:s|re|ve|ll|d|m)\b|\w+(?:[-.,'/&]\w+)*|[#&$%@]")


@dataclasses.dataclass(frozen=True)
class CaptionScores:
    """Scores of captions in the units of papers, with the information needed to compare them.

    Args:
        bleu_1, bleu_2, bleu_3, bleu_4: Corpus BLEU of n-grams up to n, 0 to 100, unsmoothed; the
            length of each caption is compared with the closest of its references (Papineni et
            al. 2002).
        brevity_penalty: The factor, at most 1, that reduces all four because the captions are
            shorter than their references. Some papers report BLEU without it, such as that of Show,
            Attend and Tell: divide by it to compare.
        cider: CIDEr-D from 0 to 1000, a hundred times the output of coco-caption, as in papers. An
            n-gram that many of the given images share counts little: scores of different test sets
            are not comparable (Vedantam et al. 2015, https://arxiv.org/abs/1411.5726).
        rouge_l: Mean of the F-measures (β = 1.2) of the longest common subsequence, 0 to 100
            (Lin 2004).
        meteor: METEOR 1.5 of English, 0 to 100; `None` if Java is missing (Denkowski and Lavie
            2014).
        signature: The protocol: library, number of references, tokenization, definitions.
    """

    bleu_1: float
    bleu_2: float
    bleu_3: float
    bleu_4: float
    brevity_penalty: float
    cider: float
    rouge_l: float
    meteor: float | None
    signature: str

    def __str__(self):
        bleu = "/".join(f"{getattr(self, f'bleu_{n}'):.1f}" for n in (1, 2, 3, 4))
        meteor = "" if self.meteor is None else f"METEOR {self.meteor:.1f}, "
        return (
            f"BLEU-1/2/3/4 {bleu} (BP {self.brevity_penalty:.3f}), {meteor}"
            f"ROUGE-L {self.rouge_l:.1f}, CIDEr {self.cider:.1f} {self.signature}"
        )


def caption_scores(hypotheses, references, with_meteor=True):
    """Computes BLEU, METEOR, ROUGE-L and CIDEr of captions with coco-caption's own code.

    Pass raw text: as in coco-caption, the same Java program lower-cases it, splits it as in the
    Penn Treebank, and removes punctuation. Without a `java` command, regular expressions do nearly
    the same (the same tokens for 34,978 of 35,000 captions of Flickr8k), and METEOR is left out;
    `signature` says so.

    Papers: Chen et al. 2015, Microsoft COCO Captions: Data Collection and Evaluation Server
    (https://arxiv.org/abs/1504.00325), and those of `CaptionScores`.

    Args:
        hypotheses: A list of strings, a caption for each image.
        references: A list of lists of strings: for each image any number of captions, at least
            one. Flickr8k has five.
        with_meteor: Whether to compute METEOR, which takes seconds to start.

    Returns:
        The `CaptionScores`. The CIDEr of a single image is 0: every n-gram is in every image.

    Raises:
        ValueError: If there are no hypotheses, the number of lists of references differs, one of
            these is empty, or no reference has a word.
        TypeError: If one of the arguments holds something else.
        ImportError: If pycocoevalcap is not installed.
        RuntimeError: If Java is installed, but fails.

    Example:

    >>> scores = caption_scores(
    ...     ["A dog runs on grass.", "Two girls sing."],
    ...     [["A dog runs.", "A brown dog runs on the grass."], ["Two girls sing a song."]],
    ...     with_meteor=False,
    ... )
    >>> round(scores.bleu_1, 1), round(scores.cider, 1)
    (100.0, 459.7)
    """
    _require_captions("hypotheses", hypotheses)
    require_references(hypotheses, references, _require_captions)
    java = shutil.which("java") is not None
    tokenize = _ptb_tokenize if java else _plain_tokenize
    texts = iter(tokenize([*hypotheses, *(text for texts in references for text in texts)]))
    proposed = {image: [next(texts)] for image in range(len(hypotheses))}
    expected = {image: [next(texts) for _ in each] for image, each in enumerate(references)}
    if not any(map(any, expected.values())):
        raise ValueError(f"No reference has a word. Received: references={references!r:.80}.")

    bleu, brevity_penalty = _bleu(expected, proposed)
    rouge_l, _ = coco_caption("rouge.rouge").Rouge().compute_score(expected, proposed)
    cider, _ = coco_caption("cider.cider").Cider().compute_score(expected, proposed)
    meteor = None
    if java and with_meteor:
        meteor, _ = coco_caption("meteor.meteor").Meteor().compute_score(expected, proposed)
    return CaptionScores(
        *(100 * float(score) for score in bleu),
        brevity_penalty=brevity_penalty,
        cider=100 * float(cider),
        rouge_l=100 * float(rouge_l),
        meteor=None if meteor is None else 100 * meteor,
        signature=_signature(references, java, meteor is not None),
    )


def _bleu(expected, proposed):
    """Returns BLEU-1 to 4 from 0 to 1, and their brevity penalty, which coco-caption keeps."""
    scorer = coco_caption("bleu.bleu_scorer").BleuScorer()
    for image, (text,) in proposed.items():
        scorer += (text, expected[image])
    scores, _ = scorer.compute_score("closest")
    length = scorer.testlen("closest")
    return scores, min(1.0, math.exp(1 - scorer.reflen("closest") / length)) if length else 0.0


def _ptb_tokenize(texts):
    """Tokenizes as `pycocoevalcap.tokenizer` does, but quietly and without a temporary file."""
    ptb = coco_caption("tokenizer.ptbtokenizer")
    jar = pathlib.Path(ptb.__file__).with_name(ptb.STANFORD_CORENLP_3_4_1_JAR)
    command = ["java", "-cp", str(jar), "edu.stanford.nlp.process.PTBTokenizer"]
    # The program takes and gives a line a text, and other characters than "\n" end lines, too.
    lines = "\n".join(" ".join(text.split()) for text in texts)
    result = subprocess.run(
        [*command, "-preserveLines", "-lowerCase", "-encoding", "utf-8"],
        input=lines.encode("utf-8"),
        capture_output=True,
    )
    if result.returncode != 0:
        raise RuntimeError(
            "The Java program that tokenizes captions failed. Without a `java` command on the PATH "
            f"captions are tokenized by Python. It says: {result.stderr.decode(errors='replace')}"
        )
    return [
        " ".join(token for token in line.split(" ") if token not in ptb.PUNCTUATIONS)
        for line, _ in zip(result.stdout.decode("utf-8").split("\n"), texts, strict=True)
    ]


def _plain_tokenize(texts):
    """Does without Java nearly what `_ptb_tokenize` does."""
    separate = (_CONTRACTION.sub(r" \1", text.lower()) for text in texts)
    return [" ".join(_WORD.findall(text.replace("cannot", "can not"))) for text in separate]


def _signature(references, java, has_meteor):
    numbers = [len(captions) for captions in references]
    parts = [
        f"pycocoevalcap:{importlib.metadata.version('pycocoevalcap')}",
        "nrefs:" + "-".join(map(str, sorted({min(numbers), max(numbers)}))),
        f"tok:{'ptb-3.4.1' if java else 'regex'}.lower.nopunct",
        "bleu:corpus.closest.nosmooth",
        "cider:D.sigma6.df-references",
        "rouge:L.beta1.2",
        f"meteor:{'1.5.en.norm' if has_meteor else 'none'}",
    ]
    return "|".join(parts)


def require_references(hypotheses, references, require):
    """Refuses other references than at least one caption for each hypothesis."""
    if len(hypotheses) == 0:
        raise ValueError("There is nothing to score: hypotheses is empty.")
    if len(hypotheses) != len(references):
        raise ValueError(
            "Each hypothesis needs its own list of references. Received "
            f"{len(hypotheses)} hypotheses and {len(references)} lists of references."
        )
    for image, captions in enumerate(references):
        require(f"references[{image}]", captions)
        if len(captions) == 0:
            raise ValueError(
                f"Each hypothesis needs at least one reference. Received: references[{image}]=[]."
            )


def _require_captions(name, captions):
    is_list = hasattr(captions, "__len__") and not isinstance(captions, str)
    if not is_list or not all(isinstance(text, str) for text in captions):
        raise TypeError(f"{name} must be a list of strings. Received: {name}={captions!r:.80}")


def coco_caption(module):
    try:
        return importlib.import_module(f"pycocoevalcap.{module}")
    except ImportError as error:
        raise ImportError(
            "zoo.metrics needs pycocoevalcap for captions, which could not be imported. "
            'Install it with: pip install "keras-attention-zoo[metrics]"'
        ) from error
