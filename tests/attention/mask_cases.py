"""Every mask with its definition: a plain Python rule for one example, query and key."""

import hashlib

import numpy as np

from keras_attention import masks

BATCH, HEADS, QUERIES, KEYS = 2, 3, 4, 6
RNG = np.random.default_rng(0)


def some(*shape):
    return RNG.random(shape) < 0.6


KEY_PADDING, QUERY_PADDING = some(BATCH, KEYS), some(BATCH, QUERIES)
PAIRS = some(BATCH, HEADS, QUERIES, KEYS)
IDS = [[3, 3, 5, 5, 5, 3], [0, 1, 1, 1, 2, 2]]
FIRST = KEYS - QUERIES  # the position of the first query of the data


def causal(example, head, q, k):
    return k <= q


def keys(example, head, q, k):
    return k < KEYS and KEY_PADDING[example, k]


def queries(example, head, q, k):
    return 0 <= q - FIRST < QUERIES and QUERY_PADDING[example, q - FIRST]


def pairs(example, head, q, k):
    return 0 <= q - FIRST < QUERIES and k < KEYS and PAIRS[example, head, q - FIRST, k]


def same_document(example, head, q, k):
    return 0 <= q < KEYS and k < KEYS and IDS[example][q] == IDS[example][k]


def window(left, right, size=1):
    def rule(example, head, q, k):
        distance = k // size - q // size
        return (left is None or distance >= -left) and (right is None or distance <= right)

    return rule


def dilated(left, right, dilation):
    seen = [dilation * step for step in range(-(100 if left is None else left), 1)]
    seen += [dilation * step for step in range((100 if right is None else right) + 1)]
    return lambda example, head, q, k: k - q in seen


def tokens(*positions):
    return lambda example, head, q, k: q in positions or k in positions


def first_keys(*lengths):
    return lambda example, head, q, k: k < lengths[example % len(lengths)]


def number(seed, draw, block):
    """The hash again, with Python's integers."""
    digest = hashlib.sha256(f"{seed} {draw}".encode()).digest()
    for low, high in ((0, 1), (2, 3), (4, 5)):
        block = pow(block + digest[low] + 256 * digest[high], 3, 32717)
    return block


def random_blocks(size, draws, seed=0, window=1, num_global=0, length=None, num_last=0):
    def drawn(block):
        away = window // 2 + 1  # distance of the nearest block that may be drawn
        if length is None:
            free = [block - distance for distance in range(away, block - num_global + 1)]
        else:
            ring = list(range(num_global, -(-length // size) - num_last))
            place = block - num_global
            free = [
                ring[(place - distance) % len(ring)]
                for distance in range(away, len(ring) - away + 1)
            ]
        parts = [len(free) * part // draws for part in range(draws + 1)]
        return {
            free[begin + number(seed, part, block) * (end - begin) // 32717]
            for part, (begin, end) in enumerate(zip(parts, parts[1:], strict=False))
            if end > begin
        }

    return lambda example, head, q, k: k // size in drawn(q // size)


def grid_windows(grid, window, shift=(0, 0), prefix=0):
    """Swin's rule: windows of the image after it was moved cyclically, without what wrapped."""

    def rule(rows_and_columns, query, key):
        for size, length, moved, q, k in zip(
            rows_and_columns, window, shift, query, key, strict=True
        ):
            wrapped = (q < moved) != (k < moved)
            padded = -(-size // length) * length
            after = ((q - moved) % padded, (k - moved) % padded)
            if wrapped or after[0] // length != after[1] // length:
                return False
        return True

    return in_grid(grid, prefix, lambda query, key: rule(grid, query, key))


def neighborhood(grid, window, dilation=(1, 1), prefix=0):
    """The nearest keys, sorted by distance, at multiples of the dilation."""

    def rule(query, key):
        for size, number, step, q, k in zip(grid, window, dilation, query, key, strict=True):
            line = sorted(range(q % step, size, step), key=lambda place: (abs(place - q), place))
            if k not in line[:number]:
                return False
        return True

    return in_grid(grid, prefix, rule)


def in_grid(grid, prefix, rule):
    def of_positions(example, head, q, k):
        if 0 <= q < prefix or 0 <= k < prefix:
            return True
        if not all(0 <= place - prefix < grid[0] * grid[1] for place in (q, k)):
            return False
        return rule(*(divmod(place - prefix, grid[1]) for place in (q, k)))

    return of_positions


def both(first, second):
    return lambda *pair: first(*pair) and second(*pair)


def either(*rules):
    return lambda *pair: any(rule(*pair) for rule in rules)


def neither(rule):
    return lambda *pair: not rule(*pair)


# name: (mask, rule)
NUMBERS = {
    "causal": (masks.Causal(), causal),
    "window": (masks.SlidingWindow(2, 1), window(2, 1)),
    "window of one": (masks.SlidingWindow(0, 0), window(0, 0)),
    "window to the left": (masks.SlidingWindow(None, 1), window(None, 1)),
    "window to the right": (masks.SlidingWindow(0, None), window(0, None)),
    "window in blocks": (masks.SlidingWindow(1, 0, block_size=3), window(1, 0, 3)),
    "dilated": (masks.Dilated(2, 1, 2), dilated(2, 1, 2)),
    "dilated by 1": (masks.Dilated(1, 2, 1), dilated(1, 2, 1)),
    "strided": (masks.Dilated(None, None, 3), dilated(None, None, 3)),
    "dilated to the left": (masks.Dilated(None, 0, 4), dilated(None, 0, 4)),
    "global count": (masks.GlobalTokens(2), tokens(0, 1)),
    "global positions": (masks.GlobalTokens([4, 1, 3, 3]), tokens(1, 3, 4)),
    "random": (masks.RandomBlocks(1, 2), random_blocks(1, 2)),
    "random blocks": (masks.RandomBlocks(2, 1, seed=5), random_blocks(2, 1, 5)),
    "random outside": (masks.RandomBlocks(1, 2, 3, 3, 1), random_blocks(1, 2, 3, 3, 1)),
    "random both ways": (
        masks.RandomBlocks(1, 2, length=13),
        random_blocks(1, 2, length=13),
    ),
    "random blocks both ways": (
        masks.RandomBlocks(2, 1, 7, 3, 1, length=13),
        random_blocks(2, 1, 7, 3, 1, length=13),
    ),
    "prefix": (masks.Prefix(3), first_keys(3)),
    "prefixes": (masks.Prefix([0, 2]), first_keys(0, 2)),
    "lengths": (masks.Lengths([1, 5]), first_keys(1, 5)),
    "longformer": (masks.Longformer(4, 1), either(window(2, 2), tokens(0))),
    "longformer with gaps": (
        masks.Longformer(2, 2, dilation=2),
        either(dilated(1, 1, 2), tokens(0, 1)),
    ),
    "longformer without global": (masks.Longformer(2, 0), window(1, 1)),
    "big bird": (
        masks.BigBird(2, 3, 1, 1, seed=4),
        either(window(1, 1, 2), tokens(0, 1), random_blocks(2, 1, 4, 3, 1)),
    ),
    "big bird both ways": (
        masks.BigBird(1, 3, 1, 2, seed=4, length=13),
        either(window(1, 1), tokens(0), random_blocks(1, 2, 4, 3, 1, 13)),
    ),
    "big bird with both ends": (
        masks.BigBird(1, 3, 1, 1, seed=4, length=13, num_last=1),
        either(window(1, 1), tokens(0, 12), random_blocks(1, 1, 4, 3, 1, 13, 1)),
    ),
    "big bird of windows": (masks.BigBird(2, 3, 0, 0), window(1, 1, 2)),
    "windows of a grid": (masks.GridWindows((3, 4), 2), grid_windows((3, 4), (2, 2))),
    "shifted windows": (
        masks.GridWindows((4, 3), (2, 3), shift=(1, 2)),
        grid_windows((4, 3), (2, 3), (1, 2)),
    ),
    "windows behind tokens": (
        masks.GridWindows((3, 3), 2, 1, num_prefix_tokens=2),
        grid_windows((3, 3), (2, 2), (1, 1), 2),
    ),
    "neighborhood": (masks.Neighborhood((3, 4), 3), neighborhood((3, 4), (3, 3))),
    "neighborhood of rows": (masks.Neighborhood((4, 3), (1, 3)), neighborhood((4, 3), (1, 3))),
    "neighborhood with gaps": (
        masks.Neighborhood((2, 7), (1, 3), dilation=(2, 2)),
        neighborhood((2, 7), (1, 3), (2, 2)),
    ),
    "neighborhood behind a token": (
        masks.Neighborhood((1, 11), (1, 3), dilation=(1, 3), num_prefix_tokens=1),
        neighborhood((1, 11), (1, 3), (1, 3), 1),
    ),
    "not windows of a grid": (
        ~masks.GridWindows((3, 4), 2),
        neither(grid_windows((3, 4), (2, 2))),
    ),
    "prefix LM": (masks.Causal() | masks.Prefix(2), either(causal, first_keys(2))),
    "causal window": (masks.Causal() & masks.SlidingWindow(2, 2), window(2, 0)),
    "not causal": (~masks.Causal(), neither(causal)),
    "not window": (~masks.SlidingWindow(1, 2), neither(window(1, 2))),
    "not global": (~masks.GlobalTokens([1, 4]), neither(tokens(1, 4))),
    "not prefix": (~masks.Prefix(2), neither(first_keys(2))),
    "not random": (~masks.RandomBlocks(2, 1), neither(random_blocks(2, 1))),
    "nested": (
        ~(masks.Causal() & ~masks.SlidingWindow(2, 0)) | masks.Lengths([2, 4]),
        either(neither(both(causal, neither(window(2, 0)))), first_keys(2, 4)),
    ),
}
DATA = {
    "keys": (masks.Keys(KEY_PADDING), keys),
    "queries": (masks.Queries(QUERY_PADDING, KEYS), queries),
    "pairs": (masks.Array(PAIRS[0, 0]), lambda example, head, q, k: pairs(0, 0, q, k)),
    "pairs of a batch": (
        masks.Array(PAIRS[:, 0]),
        lambda example, head, q, k: pairs(example, 0, q, k),
    ),
    "pairs of heads": (masks.Array(PAIRS), pairs),
    "documents": (masks.Document(IDS), same_document),
    "documents with padding": (
        masks.Document(IDS) & masks.Keys(KEY_PADDING) & masks.Causal(),
        both(same_document, both(keys, causal)),
    ),
    "causal, without its documents": (
        ~(masks.Causal() & masks.Keys(KEY_PADDING))
        | (masks.Queries(QUERY_PADDING, KEYS) & ~masks.Array(PAIRS)),
        either(neither(both(causal, keys)), both(queries, neither(pairs))),
    ),
}
ALL = {**NUMBERS, **DATA}


def brute_force(rule, query_positions, key_positions, batch=BATCH, heads=HEADS):
    """The definition, pair by pair: booleans `(batch, heads, queries, keys)`."""
    shape = batch, heads, len(query_positions), len(key_positions)
    visible = np.empty(shape, bool)
    for example, head, row, column in np.ndindex(*shape):
        visible[example, head, row, column] = rule(
            example, head, int(query_positions[row]), int(key_positions[column])
        )
    return visible
