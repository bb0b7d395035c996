"""The page of the server in a browser: a sentence, a dropped picture, a text that goes on."""

import base64
import http.server
import json
import subprocess

import pytest

from tests.serving.client import serving
from tests.zoo.page_test import BROWSER
from tests.zoo.pictures import IMAGES
from zoo.readers.images import image_bytes
from zoo.server import LoadedModel, app

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
  const answer = async isThere => {
    while (!isThere()) await new Promise(done => setTimeout(done, 20));
    return output.textContent;
  };
  const shown = () => root.querySelector(".stage .token");
  elements.text.value = "a man sleeps";
  elements.text.onkeydown({key: "Enter", preventDefault() {}});
  found.translation = await answer(shown);
  found.columns = root.querySelectorAll("[aria-label=columns] .token").length;
  choose(1);
  const bytes = Uint8Array.from(atob("PICTURE"), each => each.charCodeAt(0));
  const data = new DataTransfer();
  data.items.add(new File([bytes], "picture.png", {type: "image/png"}));
  root.dispatchEvent(new DragEvent("drop", {dataTransfer: data, cancelable: true}));
  found.caption = await answer(shown);
  found.pictures = root.querySelectorAll(".stage canvas").length;
  choose(2);
  elements.text.value = "a man";
  elements.temperature.selectedIndex = 0;
  root.querySelector("form").requestSubmit();
  found.text = await answer(() => output.textContent.length >= LENGTH);
  fetch("http://127.0.0.1:PORT", {method: "POST", mode: "no-cors", body: JSON.stringify(found)});
})</script></body>
"""


class Listener(http.server.BaseHTTPRequestHandler):
    """Keeps what a page sends."""

    def do_POST(self):
        size = int(self.headers["Content-Length"])
        self.server.found = json.loads(self.rfile.read(size))
        self.send_response(204)
        self.end_headers()

    def log_message(self, *_):
        pass


def test_a_browser_asks_each_kind_of_model(model, tmp_path, monkeypatch):
    names = ("luong_nmt", "show_attend_tell", "transformer_lm")
    text = "a man" + model("transformer_lm").generate("a man", 300, "greedy")
    picture = base64.b64encode(image_bytes(IMAGES[0])).decode()
    listener = http.server.HTTPServer(("127.0.0.1", 0), Listener)
    listener.timeout, listener.found = 120, None
    script = SCRIPT.replace("PICTURE", picture).replace("LENGTH", str(len(text)))
    script = script.replace("PORT", str(listener.server_port))
    page = app.attention_page
    monkeypatch.setattr(
        app, "attention_page", lambda *args, **kw: page(*args, **kw).replace("</body>", script)
    )
    with listener, serving([LoadedModel(name, model(name)) for name in names]) as client:
        address = f"http://127.0.0.1:{client.port}/"
        command = [BROWSER, *SWITCHES, f"--user-data-dir={tmp_path}", address]
        with subprocess.Popen(command, stderr=subprocess.DEVNULL) as browser:
            listener.handle_request()
            browser.terminate()
    assert listener.found.pop("columns") > 0
    assert listener.found == {
        "translation": model("luong_nmt").translate("a man sleeps"),
        "caption": model("show_attend_tell").caption(IMAGES[0]),
        "pictures": 1,
        "text": text,
    }
