"""A client of the server, which runs in a thread of this process."""

import contextlib
import functools
import http.client
import json
import socket
import threading
import time

import uvicorn

from zoo.server import Limits, make_app
from zoo.server.connections import Connection


class Client:
    """Sends requests to a server in a thread of this process."""

    def __init__(self, app, limits=None):
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        config = uvicorn.Config(
            app,
            http=functools.partial(Connection, limits or Limits()),
            port=self.port,
            log_level="error",
            timeout_graceful_shutdown=9,
        )
        self.server = uvicorn.Server(config)
        self.thread = threading.Thread(target=self.server.run, daemon=True)
        self.thread.start()
        while not self.server.started:
            time.sleep(0.01)

    def __call__(self, path, content=None, **headers):
        """Returns the status, the JSON or text of an answer, and its headers."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        body = content if content is None or isinstance(content, bytes) else json.dumps(content)
        connection.request("GET" if body is None else "POST", path, body, headers)
        response = connection.getresponse()
        text = response.read().decode()
        is_json = response.getheader("content-type", "").startswith("application/json")
        return response.status, json.loads(text) if is_json else text, response

    def stop(self):
        self.server.should_exit = True
        self.thread.join(20)


@contextlib.contextmanager
def serving(models, limits=None, token=None):
    client = Client(make_app(models, limits, token), limits)
    try:
        yield client
    finally:
        client.stop()


def predict(client, name, content, **headers):
    return client(f"/v1/models/{name}:predict", content, **headers)
