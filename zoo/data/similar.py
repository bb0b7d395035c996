"""Sentences from captions, and their similarity to test sentences, to leave similar ones out."""

import re

import numpy as np

try:
    import sacremoses
except ImportError as error:
    raise ImportError(
        "This data set needs sacremoses, which could not be imported. "
        'Install it with: pip install "keras-attention-zoo[train]"'
    ) from error

WORD = re.compile(r"\w+")


class Sentences:
    """A collection of sentences to compare other sentences with.

    Args:
        sentences: A list of `str`.
    """

    def __init__(self, sentences):
        words = [_words(sentence) for sentence in sentences]
        self._sizes = np.array([len(each) for each in words])
        places = {}
        for place, each in enumerate(words):
            for word in each:
                places.setdefault(word, []).append(place)
        self._places = {word: np.array(each) for word, each in places.items()}

    def closeness(self, sentence):
        """Returns the largest Jaccard similarity of the words of a sentence to one of these.

        $$ J(A, B) = \\frac{|A ∩ B|}{|A ∪ B|} $$

        Example:

        >>> Sentences(["Two men.", "The dog runs away."]).closeness("A dog runs.")
        0.4
        """
        words = _words(sentence)
        found = [self._places[word] for word in words if word in self._places]
        if not found:
            return 0.0
        common = np.bincount(np.concatenate(found), minlength=len(self._sizes))
        return float(np.max(common / (len(words) + self._sizes - common)))


def sentence_of_words(words):
    """Returns a sentence as text, from the tokens of a data set.

    Args:
        words: A list of `str`, English words and punctuation.

    Example:

    >>> sentence_of_words("a man , who smiles , holds a horse 's lead".split())
    "A man, who smiles, holds a horse's lead."
    """
    text = sacremoses.MosesDetokenizer("en").detokenize(words)
    text = text[:1].upper() + text[1:]
    return text if text.endswith((".", "!", "?")) else f"{text}."


def _words(sentence):
    return set(WORD.findall(sentence.lower()))
