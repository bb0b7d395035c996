"""What came in place of a data set of examples, for error messages."""


def received(examples, lists):
    """Returns a description of wrong examples, with the way out.

    Args:
        examples: What came.
        lists: Python names of the lists that it could be split into, such as `"sounds, texts"`.

    Example:

    >>> received([("cat.png", "a cat")], "images, captions")
    'a list. Split pairs: images, captions = zip(*pairs)'
    """
    spec = getattr(examples, "element_spec", None)
    if spec is None:
        return f"a {type(examples).__name__}. Split pairs: {lists} = zip(*pairs)"
    return f"a data set of {spec}. Split batches: dataset.unbatch()"
