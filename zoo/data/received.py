"""What came in place of a data set of examples, for error messages."""


def received(examples, lists, pair="(each[...], each[...])"):
    """Returns a description of wrong examples, with the way out.

    Args:
        examples: What came.
        lists: Python names of the lists that it could be split into, such as `"sounds, texts"`.
        pair: Code that makes the right pair of a dictionary `each` of a data set, or `None` if
            dictionaries are right.

    Example:

    >>> received([("cat.png", "a cat")], "images, captions")
    'a list. Split pairs: images, captions = zip(*pairs)'
    >>> received({"en": ["a cat"], "de": ["eine Katze"]}, "sources, targets")
    "a dict of 'en', 'de'. Pass lists of its entries as x and y"
    """
    spec = getattr(examples, "element_spec", None)
    if isinstance(examples, dict):
        return f"a dict of {', '.join(map(repr, examples))}. Pass lists of its entries as x and y"
    if isinstance(spec, dict) and pair is not None:
        return f"a data set of {spec}. Make pairs of it: dataset.map(lambda each: {pair})"
    if spec is None:
        return f"a {type(examples).__name__}. Split pairs: {lists} = zip(*pairs)"
    return f"a data set of {spec}. Split batches: dataset.unbatch()"
