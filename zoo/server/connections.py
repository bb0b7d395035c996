"""The connections of a server: a client cannot keep one busy, or fill it, before its request."""

import json
import math
from http import HTTPStatus

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol


class Connection(HttpToolsProtocol):
    """A connection on which the head of a request, its first line and headers, is limited.

    uvicorn would store a head of any size, and wait for its end for ever; also for a next request,
    once a client has sent anything behind the one that was answered, such as an empty line.

    Args:
        limits: A `Limits`.
        **arguments: Arguments of uvicorn's protocols.
    """

    def __init__(self, limits, **arguments):
        super().__init__(**arguments)
        self.limits = limits
        self._deadline = None  # while a head is awaited
        self._head_bytes = 0

    def connection_made(self, transport):
        super().connection_made(transport)
        self._await_head()

    def connection_lost(self, exc):
        self._finish_head()
        super().connection_lost(exc)

    def data_received(self, data):
        was_awaited = self._deadline is not None
        super().data_received(data)
        if was_awaited and self._deadline is not None:
            self._head_bytes += len(data)
            largest = self.limits.head_bytes
            if self._head_bytes > largest:
                self._refuse(
                    HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE,
                    f"The address and headers of a request have at most {largest} bytes.",
                )

    def on_message_begin(self):
        super().on_message_begin()
        self._await_head()

    def on_headers_complete(self):
        self._finish_head()
        super().on_headers_complete()

    def on_response_complete(self):
        super().on_response_complete()
        if self.cycle.response_complete and self._deadline is None:  # no other request has begun
            self._await_head()
            self._head_bytes = -math.inf  # what comes may be the rest of a body that was refused

    def _await_head(self):
        self._finish_head()
        self._head_bytes = 0
        self._deadline = self.loop.call_later(self.limits.seconds, self._give_up)

    def _finish_head(self):
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    def _give_up(self):
        told = f"The request did not arrive within {self.limits.seconds} seconds."
        self._refuse(HTTPStatus.REQUEST_TIMEOUT, told)

    def _refuse(self, status, told):
        self._finish_head()
        content = json.dumps({"error": told})
        head = (
            f"HTTP/1.1 {status} {status.phrase}\r\nContent-Type: application/json\r\n"
            f"Content-Length: {len(content)}\r\nConnection: close\r\n\r\n"
        )
        self.transport.write((head + content).encode())
        self.transport.close()
