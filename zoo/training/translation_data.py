"""The data of translation models: their splits, and their description in cards."""

import functools
import pathlib

import tensorflow as tf

CLOSE = 0.7  # Jaccard similarity of their words
MULTI30K_CARD = {
    "source": "https://github.com/multi30k/dataset (task 1, train)",
    "terms": "research use (its captions come from Flickr30k, which is for non-commercial research "
    "and education)",
    "citation": "Elliott et al. 2016, Multi30K: Multilingual English-German Image "
    "Descriptions (https://aclanthology.org/W16-3210)",
}


class Multi30k:
    """Captions of pictures; `data_dir` is the folder with the raw files.

    Attributes:
        measured_splits: Splits that a recipe evaluates its model on.
        test_splits: Those of them that are not used for model selection.
        use, limits: Entries of the card of a model trained on these data.
        call: An example of its use.
        chosen_by: Name of the validation split in the card.
    """

    measured_splits = ("validation", "test_2016_flickr")
    test_splits = ("test_2016_flickr",)
    chosen_by = "the validation split"
    use = (
        "Teaching, demonstrations and research on attention: translating descriptions of "
        "photographs, one sentence at a time."
    )
    limits = (
        "Knows only captions of photographs, one sentence each. Everyday speech, questions, news "
        "and text in capital letters are translated incorrectly."
    )
    call = 'translate("A man rides a bike.")'

    @staticmethod
    def load(split, pair, data_dir=None):
        """Returns a split as pairs, downloaded or from the folder."""
        from zoo.data.multi30k import load_multi30k

        return load_multi30k(pair, split, manual_dir=data_dir)

    @staticmethod
    def for_card(pair):
        return {"name": f"Multi30k {pair}", "pair": pair, **MULTI30K_CARD}


class TatoebaAndMulti30k:
    """Everyday sentences and captions; `data_dir` has the folders `tatoeba_en_de` and `multi30k`.

    The captions, of which there are fewer, come twice in the training split. The validation split
    holds those of both. Attributes are as for `Multi30k`.
    """

    measured_splits = (
        "multi30k/validation",
        "multi30k/test_2016_flickr",
        "tatoeba/validation",
        "tatoeba/dev",
    )
    test_splits = ("multi30k/test_2016_flickr", "tatoeba/dev")
    chosen_by = "the validation splits of Multi30k and Tatoeba together"
    use = (
        "Teaching, demonstrations and research on attention: translating short everyday sentences "
        "and descriptions of photographs, one sentence at a time."
    )
    limits = (
        "Knows only short everyday sentences and captions of photographs. Long, technical and "
        "literary sentences, news and text in capital letters are translated incorrectly; names "
        "and rare words often are, too. Each sentence is translated on its own, so documents are "
        "not coherent. Where German requires a choice that English leaves open (du, ihr or Sie; a "
        "man or a woman), it follows what the volunteers of Tatoeba wrote most often, including "
        "their bias. Do not rely on it where a wrong word can do harm. For captions alone, "
        "transformer_nmt_multi30k_en_de is better."
    )
    call = 'translate("Where is the train station?")'

    @staticmethod
    def load(split, pair, data_dir=None):
        """Returns a split as sources with one or several targets."""
        from zoo.data.tatoeba import load_tatoeba

        def tatoeba(part):
            return load_tatoeba(part, manual_dir=_within(data_dir, "tatoeba_en_de"))

        def multi30k(part):
            return Multi30k.load(part, pair, _within(data_dir, "multi30k"))

        if split == "train":
            captions = multi30k("train").map(_one_target)
            return tatoeba("train").concatenate(captions).concatenate(captions)
        if split == "validation":
            return tatoeba("validation").concatenate(multi30k("validation").map(_one_target))
        data, _, part = split.partition("/")
        parts = {"tatoeba": tatoeba, "multi30k": multi30k}
        if data not in parts or not part:
            splits = ", ".join(TatoebaAndMulti30k.measured_splits)
            raise ValueError(f"Unknown split={split!r}; there are {splits}.")
        return parts[data](part)

    @staticmethod
    def for_card(pair):
        return {
            "name": f"Tatoeba and Multi30k {pair}",
            "pair": pair,
            "source": "sentences of https://tatoeba.org, from https://www.manythings.org/anki "
            f"(deu-eng, 2018-05-13); {MULTI30K_CARD['source']}",
            "terms": "Tatoeba: CC-BY 2.0 France, with credit to tatoeba.org and manythings.org; "
            f"Multi30k: {MULTI30K_CARD['terms']}",
            "citation": f"Tatoeba (https://tatoeba.org); {MULTI30K_CARD['citation']}",
        }


class Multi30kAndFlickr8k(Multi30k):
    """Captions with translations, and English captions without; `data_dir` has a folder of each.

    The folders are `multi30k` and `flickr8k`. The second data set only adds sources without targets
    to the training split: a teacher translates them. Multi30k and Flickr8k both come from
    Flickr30k, so pictures with a caption close to an evaluation sentence are left out, see `CLOSE`.
    Attributes are as for `Multi30k`.
    """

    @classmethod
    def load(cls, split, pair, data_dir=None):
        """Returns a split as pairs, that of training as sources with one target or none."""
        folder = _within(data_dir, "multi30k")
        multi30k = functools.partial(Multi30k.load, pair=pair, data_dir=folder)
        if split != "train":
            return multi30k(split)
        if not pair.startswith("en-"):
            raise ValueError(f"Captions of Flickr8k are English. Received: pair={pair!r}.")
        measured = [multi30k(each).map(_source) for each in cls.measured_splits]
        captions = _captions_unlike(measured, _within(data_dir, "flickr8k"))
        sources = tf.data.Dataset.from_tensor_slices(captions).map(_no_target)
        return multi30k("train").map(_one_target).concatenate(sources)

    @staticmethod
    def for_card(pair):
        card = Multi30k.for_card(pair)
        return {
            **card,
            "name": f"Multi30k {pair}, captions of Flickr8k",
            "source": f"{card['source']}; English captions of Flickr8k (train), except those of "
            "images with a caption close to an evaluation sentence",
            "terms": f"{card['terms']}; Flickr8k: non-commercial research and education",
            "citation": f"{card['citation']}; Hodosh et al. 2013, Framing Image Description as a "
            "Ranking Task (https://doi.org/10.1613/jair.3994)",
        }


def _captions_unlike(measured, folder):
    """Returns the captions of Flickr8k, except those of pictures in the evaluation data.

    Args:
        measured: Data sets of sentences.
        folder: Folder of Flickr8k, or `None` for the prepared data.
    """
    from zoo.data.flickr8k import load_flickr8k
    from zoo.data.similar import Sentences, sentence_of_words

    sentences = [text.decode() for each in measured for text in each.as_numpy_iterator()]
    held_out = Sentences(sentences)
    kept, left_out = [], 0
    for example in load_flickr8k("train", folder).map(_captions).as_numpy_iterator():
        captions = [sentence_of_words(caption.decode().split()) for caption in example]
        if max(map(held_out.closeness, captions)) < CLOSE:
            kept += captions
        else:
            left_out += len(captions)
    print(f"Flickr8k: {len(kept)} captions; {left_out} are left out, close to what is measured.")
    return kept


def _within(folder, name):
    """Returns the folder of one data set: a subfolder of a folder of several, or all of it."""
    part = pathlib.Path(folder) / name if folder else None
    return part if part and part.is_dir() else folder


def _captions(example):
    return example["captions"]


def _source(source, target):
    return source


def _one_target(source, target):
    return source, target[None]


def _no_target(source):
    return source, tf.zeros([0], tf.string)


DATA = {
    "multi30k": Multi30k,
    "multi30k+flickr8k": Multi30kAndFlickr8k,
    "tatoeba+multi30k": TatoebaAndMulti30k,
}
