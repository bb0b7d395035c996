"""The page of the server in a browser: a sentence, a dropped picture, a text that goes on."""

import base64
import http.server
import json
import subprocess

import numpy as np
import pytest

from tests.serving.client import serving
from tests.zoo.page_test import BROWSER
from tests.zoo.pictures import IMAGES
from zoo.readers.images import image_bytes
from zoo.server import ExportedModel, LoadedModel, app

pytestmark = [
    pytest.mark.full,
    pytest.mark.skipif(BROWSER is None, reason="needs chromium, of Debian's packages"),
]
SWITCHES = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-background-networking"]
SCRIPT = """
<script>addEventListener("load", async () => {
  const root = document.querySelector(".zoo-attention"), found = {};
  const {elements} = root.querySelector("form"), output = root.querySelector("output");
  const choose = place => { elements.model.selectedIndex = place; elements.model.onchange(); };
  const until = async isThere => {
    while (!isThere()) await new Promise(done => setTimeout(done, 20));
    return output.textContent;
  };
  const all = selector => [...root.querySelectorAll(selector)];
  const shown = () => root.querySelector(".stage .token");
  const set = (name, value) => { elements[name].value = value; elements[name].onchange?.(); };
  const offered = () => all(".sampling label").filter(each => each.checkVisibility())
    .map(each => each.querySelector("select, input").name).join();
  const views = () => all(".bar select")[0]?.innerText.trim().split("\\n").join() ?? "";
  const enter = () => elements.text.onkeydown({key: "Enter", preventDefault() {}});
  const translation = async place => {
    choose(place);
    elements.text.value = "a man sleeps";
    enter();
    return until(shown);
  };

  found.recurrent = await translation(0);
  found.oneMap = all(".bar .head").length;
  found.columns = all("[aria-label=columns] .token").length;

  elements.text.value = "a man sleeps";
  found.unset = offered();
  set("sampler", "beam");
  found.ofBeams = offered();
  set("num_beams", "4");
  output.textContent = "";
  enter();
  found.beams = await until(() => output.textContent.length > 1);

  found.transformer = await translation(1);
  found.views = views();
  found.heads = all(".bar .head").length;

  found.exported = await translation(2);
  found.fixed = [offered(), root.querySelector(".fixed").checkVisibility(), all(".head").length];

  choose(0);  // which takes no picture: the page goes to the captioner
  const bytes = Uint8Array.from(atob("PICTURE"), each => each.charCodeAt(0));
  const data = new DataTransfer();
  data.items.add(new File([bytes], "picture.png", {type: "image/png"}));
  root.dispatchEvent(new DragEvent("drop", {dataTransfer: data, cancelable: true}));
  found.caption = await until(shown);
  found.pictures = [all(".stage canvas").length, elements.model.selectedIndex];

  choose(4);
  found.ofWriter = offered();
  elements.text.value = "a man";
  elements.text.oninput();
  await until(() => all(".next button").length);
  found.bars = all(".next button").map(each => each.ariaLabel);
  set("sampler", "greedy");
  root.querySelector("form").requestSubmit();
  await until(() => elements.text.value.length >= LENGTH);
  found.text = elements.text.value;
  await until(() => !elements.text.readOnly && all(".next button").length);
  const button = all(".next button")[0], before = elements.text.value;
  button.disabled = false;
  button.click();
  found.taken = elements.text.value.length > before.length;
  fetch("http://127.0.0.1:PORT", {method: "POST", mode: "no-cors", body: JSON.stringify(found)});
})</script></body>
"""


class Listener(http.server.BaseHTTPRequestHandler):
    """Stores what a page sends."""

    def do_POST(self):
        size = int(self.headers["Content-Length"])
        self.server.found = json.loads(self.rfile.read(size))
        self.send_response(204)
        self.end_headers()

    def log_message(self, *_):
        pass


def test_a_browser_asks_each_kind_of_model(model, tmp_path, monkeypatch):
    names = ("luong_nmt", "transformer_nmt", "show_attend_tell", "transformer_lm")
    recurrent, transformer, captioner, writer = map(model, names)
    recurrent.export(tmp_path / "exported", sampler="greedy", jit_compile=False)
    served = [LoadedModel(name, model(name)) for name in names]
    served.insert(2, ExportedModel("exported #1?", tmp_path / "exported"))

    text = "a man" + writer.generate("a man", 300, "greedy")
    picture = base64.b64encode(image_bytes(IMAGES[0])).decode()
    listener = http.server.HTTPServer(("127.0.0.1", 0), Listener)
    listener.timeout, listener.found = 120, None
    script = SCRIPT.replace("PICTURE", picture).replace("LENGTH", str(len(text)))
    script = script.replace("PORT", str(listener.server_port))
    page = app.attention_page
    monkeypatch.setattr(
        app, "attention_page", lambda *args, **kw: page(*args, **kw).replace("</body>", script)
    )
    with listener, serving(served) as client:
        address = f"http://127.0.0.1:{client.port}/"
        command = [BROWSER, *SWITCHES, f"--user-data-dir={tmp_path}", address]
        with subprocess.Popen(command, stderr=subprocess.DEVNULL) as browser:
            listener.handle_request()
            browser.terminate()
    found, translation = listener.found, recurrent.translate("a man sleeps")
    assert found.pop("columns") > 0
    (token,) = writer.stream_tokens("a man", 1, "greedy", top=5)
    bars = [float(label.split()[-1].rstrip("%")) for label in found.pop("bars")]
    np.testing.assert_allclose(bars, 100 * np.exp(list(token.likely.values())), atol=0.06)
    assert found == {
        "recurrent": translation,
        "oneMap": 0,
        "unset": "sampler",
        "ofBeams": "sampler,num_beams",
        "beams": recurrent.translate("a man sleeps", "beam", num_beams=4),
        "transformer": transformer.translate("a man sleeps"),
        "views": "cross attention,encoder attention,decoder attention",
        "heads": 2,
        "exported": recurrent.translate("a man sleeps", "greedy"),
        "fixed": ["", True, 0],
        "caption": captioner.caption(IMAGES[0]),
        "pictures": [1, 3],
        "ofWriter": "sampler,temperature",
        "text": text,
        "taken": True,
    }
