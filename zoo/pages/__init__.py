"""Attention as a standalone page: one HTML file that needs no other file, site or library."""

import base64
import html
import importlib.resources
import json
import pathlib

import numpy as np

TEMPLATE = "attention.html"
PLACE = '"DATA"'


def attention_page(title, views=None, text="", models=None):
    """Returns the HTML of a page that shows attention.

    Args:
        title: Title of the page.
        views: List of results of `text_view` and `picture_view`.
        text: The generated text, shown above the views.
        models: List of results of `zoo.server.pages.offer_of`, for a page that queries a server.
    """
    data = {"title": title, "text": text, "views": views, "models": models}
    # A tag in the data must not end the script that contains it.
    content = json.dumps(data, ensure_ascii=False).replace("<", "\\u003c")
    page = importlib.resources.files(__name__).joinpath(TEMPLATE).read_text(encoding="utf-8")
    page = page.replace("<title>Attention</title>", f"<title>{html.escape(title)}</title>")
    return page.replace(PLACE, content)


def text_view(name, weights, row_tokens, column_tokens):
    """Returns the data that the page needs to show which token attends to which.

    Args:
        name: Name of the kind of attention.
        weights: Array `(layers, heads, rows, columns)` of weights from 0 to 1.
        row_tokens, column_tokens: Lists of `str`, as `ByteBPETokenizer.pieces` spells them.
    """
    layers, heads = weights.shape[:2]
    return {
        "name": name,
        "rows": [_token(each) for each in row_tokens],
        "columns": [_token(each) for each in column_tokens],
        "layers": layers,
        "heads": heads,
        "weights": _quantized(weights),
    }


def picture_view(name, weights, words, picture):
    """Returns the data that the page needs to show where in a picture each word attends.

    Args:
        name: Name of the kind of attention.
        weights: Array `(layers, heads, words, rows, columns)` of weights from 0 to 1.
        words: List of `str`.
        picture: `bytes` of the encoded picture, such as a JPEG.
    """
    layers, heads, _, *grid = weights.shape
    url = f"data:image;base64,{base64.b64encode(picture).decode()}"
    return {
        "name": name,
        "rows": [_token(each) for each in words],
        "grid": grid,
        "picture": url,
        "layers": layers,
        "heads": heads,
        "weights": _quantized(weights),
    }


def save_page(path, page):
    """Writes a page to a file, and returns its `pathlib.Path`."""
    path = pathlib.Path(path)
    path.write_text(page, encoding="utf-8")
    return path


def framed(page, height=560):
    """Returns HTML that shows a page inside another one, such as a notebook."""
    return (
        f'<iframe srcdoc="{html.escape(page)}" style="width: 100%; height: {height}px; border: 0" '
        'sandbox="allow-scripts allow-downloads" title="Attention"></iframe>'
    )


def _token(piece):
    """Returns a piece in the form the page takes: its text, and whether it begins a word."""
    is_special = piece.startswith("<") and piece.endswith(">") and len(piece) > 2
    starts = not piece.startswith("·")
    return {"text": piece if starts else piece[1:], "starts": starts, "special": is_special}


def _quantized(weights):
    """Returns weights in 255 steps, in base64, each run of zeros encoded as a 0 and its length."""
    steps = np.rint(np.clip(np.asarray(weights, "float32"), 0.0, 1.0) * 255).astype("uint8").ravel()
    edges = np.flatnonzero(np.diff(np.pad(steps == 0, 1).astype("int8")))
    packed, before = bytearray(), 0
    for start, end in edges.reshape(-1, 2).tolist():
        packed += steps[before:start].tobytes()
        whole, rest = divmod(end - start, 255)
        packed += b"\x00\xff" * whole + (bytes([0, rest]) if rest else b"")
        before = end
    packed += steps[before:].tobytes()
    return base64.b64encode(packed).decode()
