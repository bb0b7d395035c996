"""What translation models learn from: which splits there are, and what a card says of the data."""

import pathlib

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
        measured_splits: What a recipe measures its model on.
        test_splits: Those of them that nothing is chosen by.
        use, limits: What the card says of a model that learned from this.
        call: An example of its use.
        chosen_by: What the card calls the validation split.
    """

    measured_splits = ("validation", "test_2016_flickr")
    test_splits = ("test_2016_flickr",)
    chosen_by = "the validation split"
    use = (
        "Teaching, demonstrations and research on attention: descriptions of photographs, one "
        "sentence at a time."
    )
    limits = (
        "Knows captions of photographs only, one sentence each. Everyday speech, questions, news, "
        "and text in capitals come out wrong."
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
        "Teaching, demonstrations and research on attention: short everyday sentences and "
        "descriptions of photographs, one sentence at a time."
    )
    limits = (
        "Knows short everyday sentences and captions of photographs only. Long, technical and "
        "literary sentences, news, and text in capitals come out wrong; names and rare words often "
        "do. Nothing is carried from one sentence to the next, so documents do not hang together. "
        "Where German must choose what English leaves open (du, ihr or Sie; a man or a woman), it "
        "writes what volunteers of Tatoeba wrote most, with their bias. It is not for decisions "
        "that matter."
    )
    call = 'translate("Where is the train station?")'

    @staticmethod
    def load(split, pair, data_dir=None):
        """Returns a split as sources with one or several targets."""
        from zoo.data.tatoeba import load_tatoeba

        def tatoeba(part):
            return load_tatoeba(part, manual_dir=folder and folder / "tatoeba_en_de")

        def multi30k(part):
            return Multi30k.load(part, pair, folder and folder / "multi30k")

        folder = data_dir and pathlib.Path(data_dir)
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
            "source": "sentences of https://tatoeba.org, by https://www.manythings.org/anki "
            f"(deu-eng, 2018-05-13); {MULTI30K_CARD['source']}",
            "terms": "Tatoeba: CC-BY 2.0 France, name tatoeba.org and manythings.org; "
            f"Multi30k: {MULTI30K_CARD['terms']}",
            "citation": f"Tatoeba (https://tatoeba.org); {MULTI30K_CARD['citation']}",
        }


def _one_target(source, target):
    return source, target[None]


DATA = {"multi30k": Multi30k, "tatoeba+multi30k": TatoebaAndMulti30k}
