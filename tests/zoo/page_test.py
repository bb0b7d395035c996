"""The page that shows attention: what it is given, and what a browser makes of it."""

import base64
import html
import json
import re
import shutil
import subprocess

import numpy as np
import pytest

from tests.zoo.pictures import IMAGES
from zoo.pages import attention_page, picture_view, text_view
from zoo.readers.images import image_bytes
from zoo.tasks.picture_results import Caption, PictureClasses
from zoo.tasks.text_results import AttentionMaps, Translation, TranslationAttention

LONG = 512  # tokens
ROWS, COLUMNS = ["Zwei", "Hun", "·de", "<end>"], ["two", "<b>dogs", "<end>"]
OTHERS = ["one", "two", "three"]
LAYERS = np.random.default_rng(1).dirichlet(np.ones(3), size=(3, 1, 3)).astype("float32")
WEIGHTS = np.random.default_rng(0).dirichlet(np.ones(3), size=(2, 2, 4)).astype("float32")
BROWSER = shutil.which("chromium") or shutil.which("google-chrome")
needs_browser = pytest.mark.skipif(BROWSER is None, reason="needs chromium, of Debian's packages")
SWITCHES = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--virtual-time-budget=2000",
    "--dump-dom",
]


def data_of(page):
    return json.loads(re.search(r'application/json">(.*?)</script>', page, re.DOTALL)[1])


def decoded(view):
    packed, found = iter(base64.b64decode(view["weights"])), []
    for value in packed:
        found += [value] if value else [0] * next(packed)
    return np.array(found) / 255


def seen(page, script, folder, width=1000):
    """Returns a browser's `document.body.dataset` after a script has run in the page."""
    file = folder / "page.html"
    written = f"<script>addEventListener('load', () => setTimeout(() => {{ {script} }}, 300))"
    file.write_text(page.replace("</body>", f"{written}</script></body>"), encoding="utf-8")
    command = [BROWSER, *SWITCHES, f"--user-data-dir={folder}", f"--window-size={width},800"]
    document = subprocess.run(
        [*command, file.as_uri()], capture_output=True, text=True, timeout=60, check=True
    ).stdout
    body = re.search(r"<body([^>]*)>", document)[1]
    return {name: html.unescape(text) for name, text in re.findall(r'data-(\w+)="([^"]*)"', body)}


def causal(layers, heads, length, sharpness=4.0):
    """Returns causal attention weights, mostly on a few tokens."""
    logits = np.random.default_rng(2).normal(size=(layers, heads, length, length)) * sharpness
    weights = np.exp(logits, dtype="float32") * np.tri(length, dtype="float32")
    return weights / weights.sum(-1, keepdims=True)


@pytest.fixture(scope="module")
def page():
    return attention_page("Two < three", [text_view("cross", WEIGHTS, ROWS, COLUMNS)], "Zwei Hunde")


def test_weights_come_in_steps_of_a_255th(page):
    (view,) = data_of(page)["views"]
    assert (view["layers"], view["heads"]) == (2, 2)
    np.testing.assert_allclose(decoded(view), WEIGHTS.ravel(), atol=0.5 / 255 + 1e-6)
    assert view["rows"][2] == {"text": "de", "starts": False, "special": False}
    assert view["columns"][2] == {"text": "<end>", "starts": True, "special": True}


def test_text_cannot_break_out_of_the_data(page):
    hostile = "</script><script>alert(1)</script>"
    broken = attention_page(hostile, [text_view("x", WEIGHTS, [hostile, *ROWS[1:]], COLUMNS)])
    assert hostile not in broken
    assert data_of(broken)["views"][0]["rows"][0]["text"] == hostile
    assert "<title>Two &lt; three</title>" in page


def test_it_needs_no_other_site_and_is_small():
    tokens = [f"word{number}" for number in range(100)]
    page = attention_page("", [text_view("x", np.ones((4, 4, 100, 100)) / 100, tokens, tokens)])
    assert len(page.encode()) < 300_000
    tokens = [f"word{number}" for number in range(LONG)]
    long = attention_page("", [text_view("x", causal(1, 8, LONG), tokens, tokens)])
    assert len(long.encode()) < 500_000  # 2.8 MB without packing
    addresses = set(re.findall(r"https?://[^\s\"'`<]+", page)) - {"http://www.w3.org/2000/svg"}
    assert addresses <= {"http://…/#TOKEN"}


def test_results_write_and_show_pages(tmp_path):
    maps = AttentionMaps(WEIGHTS, ROWS, COLUMNS)
    translation = Translation(["Zwei Hunde"], [ROWS], [COLUMNS], [WEIGHTS[0, 0]], np.zeros(1))
    picture = image_bytes(IMAGES[0])
    areas = np.full((4, 2, 3), 1 / 6, "float32")
    caption = Caption(["ein Bild"], [ROWS], [areas], np.zeros(1), [picture])
    for result, expected in [
        (translation, ["alignment"]),
        (caption, ["caption"]),
        (maps, ["self-attention"]),
        (
            TranslationAttention(maps, maps, maps),
            ["cross attention", "encoder attention", "decoder attention"],
        ),
    ]:
        file = result.save_html(tmp_path / "page.html")
        content = data_of(file.read_text(encoding="utf-8"))
        assert [view["name"] for view in content["views"]] == expected
        assert "<iframe" in result._repr_html_()
        assert 'srcdoc="&lt;!DOCTYPE' in result._repr_html_()
    view = picture_view("caption", areas[None, None], ROWS, picture)
    assert view["grid"] == [2, 3]
    assert base64.b64decode(view["picture"].split(",")[1]) == picture
    assert Translation([], [], [], [], np.zeros(0))._repr_html_() is None


def test_classes_of_pictures_write_a_page_of_all_blocks_and_of_heads(tmp_path):
    rollout, heads = np.full((1, 2, 3), 1 / 6), np.random.default_rng(0).random((1, 2, 4, 2, 3))
    found = PictureClasses(["cat"], np.ones((1, 1)), rollout, heads, [image_bytes(IMAGES[0])])
    everything, each = data_of(found.save_html(tmp_path / "page.html").read_text())["views"]
    assert (everything["layers"], everything["heads"]) == (1, 1)
    assert (each["layers"], each["heads"], each["grid"]) == (2, 4, [2, 3])
    assert set(decoded(everything)) == {1.0}
    steps = decoded(each).reshape(heads[0].shape)
    np.testing.assert_allclose(steps, heads[0] / heads[0].max((2, 3), keepdims=True), atol=0.003)
    assert "<iframe" in found._repr_html_()
    silent = found._replace(attention=None, heads=None)
    assert silent._repr_html_() is None
    with pytest.raises(ValueError, match="return_attention=True"):
        silent.save_html(tmp_path / "none.html")


@pytest.mark.full
@needs_browser
def test_a_browser_shows_words_and_where_they_look(tmp_path):
    script = """
      const root = document.querySelector(".zoo-attention"), told = root.querySelector(".told");
      const all = selector => [...root.querySelectorAll(selector)];
      const token = (side, place) => all(`[aria-label=${side}] .token`)[place];
      const texts = side => all(`[aria-label=${side}] .token`).map(each => each.textContent)
        .join("|");
      const press = text => all("button").find(button => button.textContent === text).click();
      const key = name => document.activeElement.dispatchEvent(
        new KeyboardEvent("keydown", {key: name, bubbles: true, cancelable: true}));
      const menu = name => all(".bar label").find(each => each.textContent.startsWith(name))
        ?.querySelector("select");
      const choose = (name, place) => {
        menu(name).selectedIndex = place;
        menu(name).dispatchEvent(new Event("change"));
      };
      const data = document.body.dataset;
      data.rows = texts("rows"); data.columns = texts("columns");
      data.lines = all("line").length;
      token("rows", 1).onmouseenter();
      data.hovered = told.textContent;
      token("rows", 0).click();
      token("rows", 1).onmouseenter();
      data.held = told.textContent;
      data.selected = all("[aria-selected=true]").map(each => each.textContent).join("|");

      token("rows", 0).focus(); key("Escape"); key("ArrowRight");
      data.right = told.textContent; key("Home"); data.home = document.activeElement.textContent;
      data.stops = all(".side").map(side => side.querySelectorAll("[tabindex='0']").length).join();
      data.unnamed = all("button, select, textarea, input, canvas, [role=group]").filter(each =>
        each.checkVisibility() && !each.ariaLabel && !each.textContent && !each.labels?.length)
        .length;
      data.roles = all(".stage [role], .bar, .bar [role]").map(each => each.role)
        .filter((each, place, roles) => roles.indexOf(each) === place).sort().join();
      data.live = all("[aria-live=polite]").length;
      data.pressed = all("[aria-pressed=true]").map(each => each.textContent).join();

      press("1"); press("Special tokens"); press("Whole words");
      data.pieces = texts("rows"); data.all = texts("columns");
      token("rows", 3).onmouseenter();
      data.head = told.textContent;
      choose("Layer", 1);
      token("rows", 3).onmouseenter();
      data.layer = told.textContent;
      press("Matrix");
      const matrix = root.querySelector(".matrix canvas"), pen = matrix.getContext("2d");
      const darkness = row => pen.getImageData(
        (110 + 11) * devicePixelRatio, (110 + 22 * row + 11) * devicePixelRatio, 1, 1).data[3];
      data.matrix = matrix.ariaLabel; data.darkest = told.textContent;
      data.darkness = [0, 1, 2, 3].map(darkness).join();
      press("Matrix");

      choose("Attention", 1);
      data.others = texts("rows"); data.layers = menu("Layer").options.length;
      data.heads = all(".head").length;
      choose("Layer", 2);
      token("columns", 1).onmouseenter();
      data.other = told.textContent;

      choose("Attention", 2);
      data.many = all("[aria-label=rows] .token").length; data.calm = all("line").length;
      token("rows", 511).onmouseenter();
      const sum = told.textContent.split(", ").length;
      data.few = all("line").length > 0 && all("line").length <= 8 * 512 && sum === 3;
      press("Matrix"); press("2"); press("Matrix");
      data.scrolls = root.querySelector(".stage").clientHeight < innerHeight;
      choose("Attention", 0);
      data.form = getComputedStyle(root.querySelector("form")).display;
    """
    words = [f"word{number}" for number in range(LONG)]
    page = attention_page(
        "Three views",
        [
            text_view("cross", WEIGHTS, ROWS, COLUMNS),
            text_view("encoder", LAYERS, OTHERS, OTHERS),
            text_view("long", causal(1, 8, LONG), words, words),
        ],
    )
    found = seen(page, script, tmp_path)
    assert (found["rows"], found["columns"]) == ("Zwei|Hunde", "two|<b>dogs")
    assert int(found["lines"]) > 0
    mean = WEIGHTS[0].mean(axis=0)
    assert found["hovered"].startswith("Hunde: ")
    for column, text in enumerate(COLUMNS[:2]):
        percent = 100 * (mean[1, column] + mean[2, column]) / 2
        told = re.search(rf"{re.escape(text)} (\d+)%", found["hovered"])[1]
        assert int(told) == pytest.approx(percent, abs=1)
    assert found["held"].startswith("Zwei: ")
    assert found["pieces"] == "Zwei|Hun|de|<end>"
    assert found["all"] == "two|<b>dogs|<end>"
    told = re.search(r"two (\d+)%", found["head"])[1]
    assert int(told) == pytest.approx(100 * WEIGHTS[0, 0, 3, 0], abs=1)
    told = re.search(r"two (\d+)%", found["layer"])[1]
    assert int(told) == pytest.approx(100 * WEIGHTS[1, 0, 3, 0], abs=1)
    assert found["matrix"] == "Attention of 4 words to 3 others"
    highest = WEIGHTS[1, 0].max()
    darkest = float(re.search(r"is (.*)%", found["darkest"])[1])
    assert darkest == pytest.approx(100 * highest, abs=0.3)
    darkness = np.array(found["darkness"].split(","), "float32") / 255
    np.testing.assert_allclose(darkness**2, WEIGHTS[1, 0, :, 0] / highest, atol=0.02)
    assert found["form"] == "none"

    # by keyboard, and for a screen reader
    assert found["selected"] == "Zwei"
    assert found["right"] == found["hovered"]
    assert (found["home"], found["stops"], found["unnamed"]) == ("Zwei", "1,1", "0")
    assert found["roles"] == "group,listbox,option,toolbar"
    assert (found["live"], found["pressed"]) == ("2", "Whole words")

    assert (found["others"], found["layers"], found["heads"]) == ("one|two|three", "3", "0")
    assert found["other"].startswith("two: ")
    for row, text in enumerate(OTHERS):
        told = re.search(rf"{text} (\d+)%", found["other"].split(":")[1])[1]
        assert int(told) == pytest.approx(100 * LAYERS[2, 0, row, 1], abs=1)
    assert (found["many"], found["calm"], found["few"]) == (str(LONG), "0", "true")
    assert found["scrolls"] == "true"


@pytest.mark.full
@needs_browser
def test_a_browser_shows_whole_words_in_every_script(tmp_path):
    script = """
      const texts = () => [...document.querySelectorAll("[aria-label=rows] .token")]
        .map(each => each.textContent).join("|");
      document.body.dataset.words = texts();
      [...document.querySelectorAll("button")].find(each => each.textContent === "Whole words")
        .click();
      document.body.dataset.pieces = texts();
    """
    shalom = ["▁", *(f"·<0x{byte:02X}>" for byte in "שלום".encode())]
    pieces = [*shalom, ",", "a", "·<0xC3>", "▁"]
    weights = np.full((1, 1, len(pieces), 1), 1.0)
    page = attention_page("Words", [text_view("words", weights, pieces, ["b"])])
    found = seen(page, script, tmp_path)
    assert found["words"] == "שלום|,|a<0xC3>|▁"
    assert found["pieces"].replace("|", "") == "".join(pieces).replace("·", "")


@pytest.mark.full
@needs_browser
def test_a_browser_shows_a_picture_on_a_narrow_screen(tmp_path):
    areas = np.zeros((2, 3, 4), "float32")
    areas[0, 2, 1] = areas[1, 0, 3] = 1.0
    view = picture_view("caption", areas[None, None], ["ein", "Bild"], image_bytes(IMAGES[0]))
    script = """
      const root = document.querySelector(".zoo-attention"), data = document.body.dataset;
      root.querySelectorAll(".token")[1].onmouseenter();
      data.told = root.querySelector(".told").textContent;
      const canvas = root.querySelector("canvas"), pen = canvas.getContext("2d");
      const light = (x, y) => pen.getImageData(canvas.width * x, canvas.height * y, 1, 1).data
        .slice(0, 3).reduce((a, b) => a + b);
      data.bright = light(0.95, 0.1); data.dark = light(0.1, 0.9);
      data.wide = document.documentElement.scrollWidth <= innerWidth;
    """
    found = seen(attention_page("", [view], "ein Bild"), script, tmp_path, width=400)
    assert found["told"] == "Bild: row 1, column 4 of 3 × 4"
    assert found["wide"] == "true"
    assert int(found["dark"]) < int(found["bright"])
