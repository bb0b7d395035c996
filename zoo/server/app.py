"""The HTTP application: routes, limits, metrics."""

import asyncio
import contextlib
import functools
import hmac
import time
import traceback

import prometheus_client
from anyio import to_thread
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect
from starlette.responses import (
    HTMLResponse,
    JSONResponse,
    PlainTextResponse,
    Response,
    StreamingResponse,
)
from starlette.routing import Route

from zoo.pages import attention_page
from zoo.server import chat, completions, embeddings, pages, protocol, transcriptions
from zoo.server.errors import Refused
from zoo.server.limits import Limits
from zoo.server.models import DEFAULT, require_distinct

LATENCIES = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)
ROWS = (1, 2, 4, 8, 16, 32)
NO_OFFER = (
    "This page is for translators, captioners and text generators, and this server has none. Its "
    "models answer programs."
)
ASK_TOKEN = {"WWW-Authenticate": "Bearer"}
RETRY = {"Retry-After": "1"}  # seconds
AT_ONCE = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}  # proxies pass events on


def make_app(models, limits=None, token=None):
    """Returns the application that serves models.

    | address | |
    |---|---|
    | `GET /` | a page to try the models and look at their attention |
    | `POST /page/NAME` | requests of the page to a model in memory |
    | `GET /v1/models/NAME[/versions/N]` | its state |
    | `GET /v1/models/NAME[/versions/N]/metadata` | its signatures |
    | `POST /v1/models/NAME[/versions/N]:predict` | TF Serving's protocol |
    | `GET /v1/models` | all models, in OpenAI's format |
    | `POST /v1/completions` | OpenAI's protocol, for language models |
    | `POST /v1/chat/completions` | the same for conversations |
    | `POST /v1/embeddings` | OpenAI's protocol, for models that turn texts into vectors |
    | `POST /v1/audio/transcriptions` | OpenAI's protocol, for models that turn speech into text |
    | `POST /v1/audio/translations` | the same for texts in English |
    | `GET /v2/health/live`, `/v2/health/ready` | whether the server is live, and ready |
    | `GET /metrics` | for Prometheus |

    Args:
        models: List of `LoadedModel` and `ExportedModel`.
        limits: A `Limits`.
        token: Token that clients must send as `Authorization: Bearer TOKEN`; `None` for none.

    Returns:
        A `starlette.applications.Starlette`.

    Raises:
        ValueError: If two models have the same name, or the token cannot be sent.
    """
    return _Server(models, limits or Limits(), token).app()


def require_sendable(token):
    """Raises a `ValueError` for an empty token, which all have, or one that no header can hold.

    `--token "$TOKEN"` is empty if there is no such variable.
    """
    if token is not None and (not token or token != token.strip()):
        raise ValueError(
            "`token` (--token on the command line) must not be empty, or have spaces at its ends. "
            f"Received: {token!r}. Leave it out to serve everybody."
        )


class _Server:
    def __init__(self, models, limits, token):
        require_distinct([model.name for model in models])
        self.models = {model.name: model for model in models}
        require_sendable(token)
        self.limits, self.token, self.created = limits, token, int(time.time())
        self.waiting, self.running = 0, set()  # tasks that nobody else may hold
        self.metrics = _Metrics()

    def app(self):
        model = "/v1/models/{name}"
        complete, chat_on = (
            self.guarded(functools.partial(self.complete, kind)) for kind in (completions, chat)
        )
        transcribe, translate = (
            self.guarded(functools.partial(self.transcribe, task))
            for task in ("transcribe", "translate")
        )
        routes = [
            Route("/", self.page),
            Route("/page/{name}", self.guarded(self.show), methods=["POST"]),
            Route("/v1/models", self.guarded(self.list_models)),
            Route("/v1/completions", complete, methods=["POST"]),
            Route("/v1/chat/completions", chat_on, methods=["POST"]),
            Route("/v1/embeddings", self.guarded(self.embed), methods=["POST"]),
            Route("/v1/audio/transcriptions", transcribe, methods=["POST"]),
            Route("/v1/audio/translations", translate, methods=["POST"]),
            Route("/v2/health/live", self.live),
            Route("/v2/health/ready", self.live),
            Route("/metrics", self.guarded(self.tell_metrics)),
        ]
        for place in (model + "/versions/{version:int}", model):
            routes += [
                Route(place + ":predict", self.guarded(self.predict), methods=["POST"]),
                Route(place + ":predict", self.refuse_get),
                Route(place + "/metadata", self.guarded(self.metadata)),
                Route(place, self.guarded(self.status)),
                Route(place + ":{verb}", self.guarded(self.refuse_verb), methods=["GET", "POST"]),
            ]
        handlers = {HTTPException: _no_address}
        return Starlette(routes=routes, lifespan=self.lifespan, exception_handlers=handlers)

    @contextlib.asynccontextmanager
    async def lifespan(self, app):
        to_thread.current_default_thread_limiter().total_tokens = self.limits.waiting + 8
        watching = asyncio.create_task(self.watch())
        yield
        watching.cancel()

    async def watch(self):
        """Takes over new versions."""
        while True:
            await asyncio.sleep(self.limits.refresh_seconds)
            for model in self.models.values():
                try:
                    await run_in_threadpool(model.refresh)
                except Exception as error:  # a version that cannot be read: the old one goes on
                    print(f"{model.name}: a new version could not be loaded. {error}", flush=True)

    # ------------------------------------------------------------------------------------- routes

    async def live(self, request):
        return PlainTextResponse("")

    async def tell_metrics(self, request):
        content = prometheus_client.generate_latest(self.metrics.registry)
        return Response(content, media_type=prometheus_client.CONTENT_TYPE_LATEST)

    async def page(self, request):
        """A page to try the models, and to look at their attention."""
        offers = [pages.offer_of(model, self.limits.new_tokens) for model in self.models.values()]
        models = [offer for offer in offers if offer is not None]
        content = {"models": models} if models else {"views": [], "text": NO_OFFER}
        return HTMLResponse(attention_page("keras-attention-zoo", **content))

    async def show(self, request):
        """An answer for the page, which chooses the sampler and sees all attention."""
        model = self.model(request)
        if model.task is None:
            raise Refused(404, f"{model.name} is an exported model: send requests to :predict.")
        body = await self.body(request)
        return await self.in_time(
            model, lambda: JSONResponse(pages.answer_of(model, body, self.limits))
        )

    async def list_models(self, request):
        return JSONResponse(completions.listing(self.models.values(), self.created))

    async def status(self, request):
        return JSONResponse(protocol.status_of(self.model(request)))

    async def metadata(self, request):
        # In a thread, since signatures are traced for it, which can take seconds.
        return JSONResponse(await run_in_threadpool(protocol.metadata_of, self.model(request)))

    async def predict(self, request):
        model = self.model(request)
        body = await self.body(request)

        def answer():
            signature, tensors, is_by_rows = protocol.request_of(body, model.signatures, DEFAULT)
            self.limits.require_tensors(tensors)
            self.metrics.rows.labels(model.name).observe(len(next(iter(tensors.values()))))
            observe = self.metrics.batches.labels(model.name).observe
            return JSONResponse(protocol.answer_of(signature(tensors, observe), is_by_rows))

        return await self.in_time(model, answer)

    async def refuse_get(self, request):
        """The answer to GET of what is for POST, which would take it for the name of a model."""
        raise HTTPException(405, headers={"Allow": "POST"})

    async def refuse_verb(self, request):
        raise _no_verb(request.path_params["verb"])

    async def complete(self, kind, request):
        """Answers a request by the protocol of a module, `completions` or `chat`."""
        wanted = await self.read(kind, request)
        if not wanted.stream:
            return await self.in_time(wanted.model, lambda: JSONResponse(kind.answer_of(wanted)))
        self.require_room()  # while there still is a status to tell it by
        events = self.streamed(wanted, kind.events_of(wanted))
        return _Events(events, self.limits.seconds)

    async def embed(self, request):
        wanted = await self.read(embeddings, request)
        self.metrics.rows.labels(wanted.model.name).observe(len(wanted.texts))
        observe = self.metrics.batches.labels(wanted.model.name).observe
        return await self.in_time(
            wanted.model, lambda: JSONResponse(embeddings.answer_of(wanted, observe))
        )

    async def transcribe(self, task, request):
        """Answers a request for the text of a sound; the task is `transcribe` or `translate`."""
        body = await self.body(request)
        wanted = await transcriptions.request_of(request, body, self.models, task)
        return await self.in_time(wanted.model, lambda: transcriptions.answer_of(wanted))

    async def streamed(self, wanted, events):
        with self.counted(wanted.model):
            while True:
                event = await run_in_threadpool(next, events, None)
                if event is None:
                    return
                yield event

    # ------------------------------------------------------------------------------------- guards

    def guarded(self, route):
        """Returns a route that checks the token, reports refusals, and is measured.

        Args:
            route: Function of a request.
        """

        async def handle(request):
            name, start = request.path_params.get("name", ""), time.perf_counter()
            try:
                self.require_token(request)
                response = await route(request)
            except Refused as error:
                response = _failed(request, error.status, str(error), error.headers)
            except Exception as error:  # a fault of the server, for whoever runs it to read
                traceback.print_exception(error)
                response = _failed(request, 500, "The server failed at this request.")
            name = name if name in self.models else ""
            self.metrics.requests.labels(name, response.status_code).inc()
            self.metrics.latency.labels(name).observe(time.perf_counter() - start)
            return response

        return handle

    def require_token(self, request):
        if self.token is None:
            return
        scheme, _, sent = request.headers.get("authorization", "").partition(" ")
        is_right = hmac.compare_digest(sent.encode("latin-1"), self.token.encode())
        if scheme.lower() != "bearer" or not is_right:
            told = "Send the token of this server: Authorization: Bearer TOKEN."
            raise Refused(401, told, ASK_TOKEN)

    def model(self, request):
        """Returns the model named in a URL."""
        name, version = request.path_params["name"], request.path_params.get("version")
        model = self.models.get(name)
        if model is None:
            asked, _, verb = name.rpartition(":")
            if asked in self.models:  # GET of a verb, which is part of the name here
                raise _no_verb(verb)
            known = ", ".join(self.models)
            raise Refused(404, f"There is no model {name!r} on this server. Its models: {known}.")
        if version not in (None, model.version):
            raise Refused(404, f"{name} is served as version {model.version}, not {version}.")
        return model

    async def body(self, request):
        """Returns the body of a request, unless it is too large, too slow, or compressed.

        It takes memory, so the request counts as one in progress meanwhile.
        """
        encoding = request.headers.get("content-encoding", "identity")
        if encoding.lower() != "identity":
            raise Refused(415, f"Send the body as it is, without Content-Encoding: {encoding}.")
        largest, seconds, body = self.limits.body_bytes, self.limits.seconds, bytearray()
        self.require_room()
        self.waiting += 1
        try:
            async with asyncio.timeout(seconds):
                async for chunk in request.stream():
                    body += chunk
                    if len(body) > largest:
                        raise Refused(413, f"The body of a request has at most {largest} bytes.")
        except TimeoutError as error:
            raise Refused(408, f"The request did not arrive within {seconds} seconds.") from error
        except ClientDisconnect as error:
            raise Refused(400, "The request ended before its body was complete.") from error
        finally:
            self.waiting -= 1
        return bytes(body)

    async def read(self, kind, request):
        """Returns what a client asks for by the protocol of a module.

        In a thread: it takes a while to read many long texts, and others ask in the meantime.
        """
        body = await self.body(request)
        return await self.in_time(None, lambda: kind.request_of(body, self.models, self.limits))

    @contextlib.contextmanager
    def counted(self, model):
        """Counts a request that is being read or answered; the model is `None` until known."""
        self.waiting += 1
        gauge = self.metrics.waiting.labels("" if model is None else model.name)
        gauge.inc()
        try:
            yield
        finally:
            self.waiting -= 1
            gauge.dec()

    def require_room(self):
        """Refuses a request if too many are in progress."""
        if self.waiting >= self.limits.waiting:
            raise Refused(503, "The server is overloaded. Try again later.", RETRY)

    async def in_time(self, model, function):
        """Runs a function in a thread, and refuses when it takes too long.

        A thread cannot be stopped. One whose answer was given up counts until it ends, so that a
        server that is too slow for its clients refuses new ones instead of piling up work.
        """

        async def run():
            self.require_room()
            with self.counted(model):
                return await run_in_threadpool(function)

        running = asyncio.create_task(run())
        self.running.add(running)
        running.add_done_callback(self.running.discard)
        try:
            return await asyncio.wait_for(asyncio.shield(running), self.limits.seconds)
        except TimeoutError as error:
            running.add_done_callback(_forget)
            raise Refused(504, f"No answer within {self.limits.seconds} seconds.") from error


class _Events(StreamingResponse):
    """Server-sent events, given up once the client is gone, or does not take one in time.

    Args:
        events: Asynchronous generator of `str`.
        seconds: Maximum time to send an event. A client that reads nothing would hold its place
            among the requests in progress for ever.
    """

    def __init__(self, events, seconds):
        super().__init__(events, headers=AT_ONCE, media_type="text/event-stream")
        self.seconds = seconds

    async def stream_response(self, send):
        async def send_in_time(message):
            async with asyncio.timeout(self.seconds):
                await send(message)

        async with contextlib.aclosing(self.body_iterator):
            with contextlib.suppress(TimeoutError):
                await super().stream_response(send_in_time)


def _no_verb(verb):
    return Refused(404, f"Send requests to :predict, not to :{verb}.")


async def _no_address(request, error):
    """Returns the answer to a request for which there is no route."""
    told = f"There is nothing at {request.url.path}."
    if error.status_code == 405:
        allowed = "GET" if "GET" in error.headers["Allow"] else "POST"
        told = f"{request.url.path} does not take {request.method}: use {allowed}."
    return _failed(request, error.status_code, told, error.headers)


def _failed(request, status, message, headers=None):
    """Returns the answer to a request that failed, in the form of the protocol of its address."""
    message = message.encode(errors="replace").decode()  # what it quotes may be no Unicode
    path = request.url.path
    is_of_openai = path.startswith("/v1/") and not path.startswith("/v1/models/")
    error = completions.error_of(status, message) if is_of_openai else message
    return JSONResponse({"error": error}, status, headers)


def _forget(task):
    """Retrieves the result of a task that nobody awaits."""
    if not task.cancelled():
        task.exception()


class _Metrics:
    """The metrics for Prometheus; each server has its own."""

    def __init__(self):
        self.registry = registry = prometheus_client.CollectorRegistry()

        def of(kind, name, what, labels, **options):
            return kind(f"zoo_{name}", what, labels, registry=registry, **options)

        counter, histogram = prometheus_client.Counter, prometheus_client.Histogram
        self.requests = of(counter, "requests", "Requests by status.", ["model", "status"])
        self.latency = of(histogram, "seconds", "Time of an answer.", ["model"], buckets=LATENCIES)
        self.rows = of(histogram, "rows", "Rows of a request.", ["model"], buckets=ROWS)
        self.batches = of(histogram, "batch_rows", "Rows of a batch.", ["model"], buckets=ROWS)
        self.waiting = of(
            prometheus_client.Gauge, "waiting", "Requests that are being answered.", ["model"]
        )
