"""Special tokens around texts: the post-processors of `tokenizer.json`."""

from typing import NamedTuple


class Item(NamedTuple):
    """A part of a template.

    Attributes:
        text: 0 for the first text, 1 for the second one, `None` for a special token.
        token_ids: Ids of the special token.
        segment: Index of the segment.
    """

    text: int | None
    token_ids: tuple
    segment: int


BARE = (Item(0, (), 0),), (Item(0, (), 0), Item(1, (), 1))


def around(start_id, end_id):
    """Returns the items of a text between a start and an end token, and of a pair in two segments,
    each with its end token, as in BERT.
    """
    single = Item(None, (start_id,), 0), Item(0, (), 0), Item(None, (end_id,), 0)
    return single, (*single, Item(1, (), 1), Item(None, (end_id,), 1))


def templates_of(definition):
    """Returns the items of a single text and of a pair.

    Args:
        definition: The entry of `tokenizer.json`, which may be `None`.

    Raises:
        ValueError: If a post-processor is not implemented; the message names it.
    """
    if definition is None or definition["type"] == "ByteLevel":
        return BARE
    kind = definition["type"]
    if kind == "Sequence":
        found = [templates_of(each) for each in definition["processors"]]
        found = [each for each in found if each != BARE]
        if len(found) > 1:
            raise ValueError("several templates in one post-processor are not implemented.")
        return found[0] if found else BARE
    if kind in ("BertProcessing", "RobertaProcessing"):
        start, end = (definition[key][1] for key in ("cls", "sep"))
        single, pair = around(start, end)
        if kind == "BertProcessing":
            return single, pair
        behind = Item(None, (end,), 0)
        return single, (*single, behind, Item(1, (), 0), behind)
    if kind == "TemplateProcessing":
        return tuple(_items(definition, key) for key in ("single", "pair"))
    raise ValueError(f"the post-processor {kind!r} is not implemented.")


def _items(definition, key):
    items = []
    for entry in definition[key]:
        ((kind, content),) = entry.items()
        if kind == "Sequence":
            items.append(Item("AB".index(content["id"]), (), content["type_id"]))
        else:
            ids = definition["special_tokens"][content["id"]]["ids"]
            items.append(Item(None, tuple(ids), content["type_id"]))
    return tuple(items)
