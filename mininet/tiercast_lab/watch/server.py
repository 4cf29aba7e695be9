"""The server of `tiercast watch`: read-only, for loopback unless told otherwise.

/                                     the list of runs (runs.html), from /runs.json
/runs/RUN                             a run (run.html), from /runs/RUN/run.json: scene and frames
/runs/RUN/receivers/R                 a receiver's page (run.html, too), from
                                      /runs/RUN/receivers/R/explanation.json?at=T
/runs/RUN/events?from=N               of a run under way: the frames from number N on as they come,
                                      as server-sent events `frames`, then `ended`

Each viewer has a stream of its own, which sends when the viewer reads: one that reads slowly gets
more frames at a time, and nobody waits for it.
"""

from __future__ import annotations

import asyncio
import ipaddress
import json
import logging
import math
import socket
import ssl
from collections import OrderedDict
from collections.abc import AsyncIterator, Callable, Iterable
from pathlib import Path
from typing import Any, TypeVar

import uvicorn
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import FileResponse, PlainTextResponse, Response, StreamingResponse
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from tiercast_controller.base.tls import KeyRole, Tls
from uvicorn.protocols.http.h11_impl import H11Protocol

from tiercast_lab.base.errors import InputError, LabError, among
from tiercast_lab.results.explain.receiver import as_data
from tiercast_lab.results.explain.snapshot import snapshot_at
from tiercast_lab.results.storage import reading
from tiercast_lab.show.pages import TEMPLATES
from tiercast_lab.watch.scene import described
from tiercast_lab.watch.store import NoSuchRun, RunStore
from tiercast_lab.watch.watched import PERIOD_S, Watched

PAGES = Path(__file__).parent / "pages"
FILES = {
    path.name: path
    for path in (
        TEMPLATES / "report.css",
        TEMPLATES / "charts.js",
        *(PAGES / name for name in ("icon.svg", "watch.css", "watch.js", "network.js", "runs.js")),
    )
}
KEPT_RUNS = 4  # in memory
ALIVE_S = 5.0  # between comments that find out whether a viewer is still there
FRAMES_AT_ONCE = 500  # in one event
LOOPBACK = ("localhost", "127.0.0.1", "[::1]")
HEADERS = {
    b"content-security-policy": b"default-src 'self'; frame-ancestors 'none'",
    b"x-content-type-options": b"nosniff",
    b"referrer-policy": b"no-referrer",
    b"cache-control": b"no-store",
}

T = TypeVar("T")


class Runs:
    """The runs that are watched, the last used ones in memory."""

    def __init__(self, store: RunStore) -> None:
        self.store = store
        self._watched: OrderedDict[Path, Watched] = OrderedDict()
        self._opening = asyncio.Lock()

    async def open(self, name: str) -> Watched:
        """Raises HTTPException: 404 for an unknown run, 422 for one that cannot be read."""
        directory = await answered(self.store.directory, name)
        async with self._opening:
            found = self._watched.get(directory)
            if found is None:
                found = self._watched[directory] = await answered(Watched, directory)
            self._watched.move_to_end(directory)
            while len(self._watched) > KEPT_RUNS:
                self._watched.popitem(last=False)
        await answered(found.refresh)
        return found


async def answered(call: Callable[..., T], *arguments: Any) -> T:
    """Calls what may take long, in a thread. Turns its errors into answers."""
    try:
        return await run_in_threadpool(call, *arguments)
    except NoSuchRun as error:
        raise HTTPException(404, str(error)) from None
    except LabError as error:
        raise HTTPException(422, str(error)) from None


def application(folder: Path, allowed_hosts: Callable[[str], bool]) -> Starlette:
    """Serves the runs in a folder. `allowed_hosts` says which names a request's Host may have."""
    runs = Runs(RunStore(folder))

    async def listing(request: Request) -> Response:
        return as_json(await answered(runs.store.listed))

    async def page(request: Request) -> Response:
        watched = await runs.open(request.path_params["run"])
        if "receiver" in request.path_params:
            require_receiver(watched, request)
        return FileResponse(PAGES / "run.html")

    async def whole_run(request: Request) -> Response:
        watched = await runs.open(request.path_params["run"])
        return as_json(await answered(_whole_run, watched))

    async def events(request: Request) -> Response:
        watched = await runs.open(request.path_params["run"])
        # A browser that lost the connection says which event it had last.
        asked = request.headers.get("last-event-id") or request.query_params.get("from", "0")
        if not (asked.isascii() and asked.isdigit() and len(asked) < 10):
            raise HTTPException(
                400, f"from {asked[:40]!r}; valid: the number of a frame, 0 or more"
            )
        return StreamingResponse(stream(watched, int(asked)), media_type="text/event-stream")

    async def explained(request: Request) -> Response:
        watched = await runs.open(request.path_params["run"])
        receiver = require_receiver(watched, request)
        at = request.query_params.get("at", "")
        try:
            at_s = float(at)
        except ValueError:
            at_s = math.nan
        if not 0 <= at_s <= watched.run.end_s:
            end = f"{watched.run.end_s:g}"
            raise HTTPException(400, f"at {at[:40]!r}; valid: a time in s, from 0 to {end}")
        return as_json(await answered(_explained, watched, receiver, at_s))

    async def file(request: Request) -> Response:
        name = request.path_params["file"]
        if name not in FILES:
            raise HTTPException(404, f"no file {among(name, FILES)}")
        return FileResponse(FILES[name])

    async def home(request: Request) -> Response:
        return FileResponse(PAGES / "runs.html")

    async def refused(request: Request, error: Exception) -> Response:
        assert isinstance(error, HTTPException)
        if error.status_code == 404 and error.detail == "Not Found":
            path = request.url.path[:200]
            return PlainTextResponse(f"no page {path!r}; valid: /, /runs/RUN", 404)
        return PlainTextResponse(error.detail, error.status_code, error.headers)

    run = "/runs/{run}"
    app = Starlette(
        routes=[
            Route("/", home),
            Route("/runs.json", listing),
            Route("/static/{file}", file),
            Route(run, page),
            Route(f"{run}/run.json", whole_run),
            Route(f"{run}/events", events),
            Route(f"{run}/receivers/{{receiver}}", page),
            Route(f"{run}/receivers/{{receiver}}/explanation.json", explained),
        ],
        exception_handlers={HTTPException: refused},
    )
    app.add_middleware(Guard, allowed_hosts=allowed_hosts)
    return app


def _whole_run(watched: Watched) -> dict[str, Any]:
    return {
        "scene": described(watched.run, watched.scene),
        "live": watched.live,
        "verdict": watched.run.summary["verdict"],
        "complete": watched.run.complete,
        "reasons": watched.run.reasons,
        "frames": list(watched.frames),
    }


def _explained(watched: Watched, receiver: str, at_s: float) -> dict[str, Any]:
    run = watched.run
    with reading(run.directory):
        return as_data(snapshot_at(run, receiver, f"{at_s:f}"))


def require_receiver(watched: Watched, request: Request) -> str:
    name: str = request.path_params["receiver"]
    if name not in watched.scene.receivers:
        raise HTTPException(404, f"no receiver {among(name, watched.scene.receivers)}")
    return name


async def stream(watched: Watched, sent: int) -> AsyncIterator[str]:
    """Server-sent events: a run's frames from number `sent` on, until the run ends."""
    waited = 0.0
    while True:
        try:
            await run_in_threadpool(watched.refresh)
        except InputError as error:
            yield event("problem", str(error))
            return
        if not watched.live:
            yield event("ended", watched.run.summary["verdict"])
            return
        while new := watched.frames[sent : sent + FRAMES_AT_ONCE]:
            sent += len(new)
            waited = 0.0
            yield event("frames", new, sent)
        if waited >= ALIVE_S:
            yield ":\n\n"
            waited = 0.0
        await asyncio.sleep(PERIOD_S)
        waited += PERIOD_S


def event(kind: str, value: Any, number: int | None = None) -> str:
    text = compact(value)
    return ("" if number is None else f"id: {number}\n") + f"event: {kind}\ndata: {text}\n\n"


def as_json(value: Any) -> Response:
    return Response(compact(value), media_type="application/json")


def compact(value: Any) -> str:
    return json.dumps(value, separators=(",", ":"), allow_nan=False)


class Guard:
    """Refuses requests whose Host is another site's name, which a page of that site would send
    once its name leads here (DNS rebinding), and adds HEADERS to every answer."""

    def __init__(self, app: ASGIApp, allowed_hosts: Callable[[str], bool]) -> None:
        self._app = app
        self._allowed = allowed_hosts

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        async def with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                kept = [one for one in message["headers"] if one[0].lower() not in HEADERS]
                message["headers"] = [*kept, *HEADERS.items()]
            await send(message)

        hosts = [value.decode("latin-1") for name, value in scope["headers"] if name == b"host"]
        if len(hosts) != 1 or not self._allowed(hosts[0]):
            seen = ", ".join(host[:80] for host in hosts) or "none"
            text = f"Host: {seen}; valid: the name that `tiercast watch` printed"
            await PlainTextResponse(text, 400)(scope, receive, with_headers)
            return
        await self._app(scope, receive, with_headers)


def hosts_of(address: str, certified: Iterable[str] = ()) -> Callable[[str], bool]:
    """Which Host headers are answered by a server at an address: names of the loopback device and
    of its certificate, and, where others can reach it, that address, this machine's name and plain
    addresses, none of which another site can have."""
    here = is_loopback(address)
    own = (address if here else socket.gethostname(), address, *certified)
    names = set(LOOPBACK) | {name.lower() for name in own}

    def allowed(host: str) -> bool:
        name = host.rpartition(":")[0] if host.rpartition(":")[2].isdigit() else host
        name = name.lower()
        return name in names or (not here and is_address(name.strip("[]")))

    return allowed


def is_address(text: str) -> bool:
    try:
        ipaddress.ip_address(text)
    except ValueError:
        return False
    return True


def is_loopback(address: str) -> bool:
    if address == "localhost":
        return True
    return is_address(address) and ipaddress.ip_address(address).is_loopback


def listening(address: str, port: int) -> socket.socket:
    """Raises InputError."""
    valid = "valid: an address of this machine and a free port, such as 127.0.0.1:0 for any"
    try:
        family, kind, protocol, _, place = socket.getaddrinfo(
            address, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        found = socket.socket(family, kind, protocol)
        found.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        found.bind(place)
        found.listen(128)
    except OSError as error:
        raise InputError(f"--listen {address}:{port}: {error.strerror or error}; {valid}") from None
    return found


class Server(uvicorn.Server):
    """Ends at once: streams to viewers have no end of their own, and that they are cut off is no
    error to report."""

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        logging.getLogger("uvicorn.error").setLevel(logging.CRITICAL + 1)
        await super().shutdown(sockets)


READERS = (KeyRole.OBSERVER, KeyRole.CONTROLLER)


class OfReaders(H11Protocol):
    """A connection over TLS, on which only a certificate of one of READERS gets pages."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        certificate = transport.get_extra_info("peercert") or {}
        names = {name for _, name in certificate.get("subjectAltName", ())}
        if names.isdisjoint(role.name_in_certificate for role in READERS):
            needed = " or ".join(READERS)
            self.app = PlainTextResponse(f"a certificate of role {needed} is needed", 403)


def server_of(app: Starlette, tls: Tls | None = None) -> Server:
    """With `tls`, only to clients with a certificate of its authority, of one of READERS."""
    secure: dict[str, Any] = {}
    if tls is not None:
        secure = {
            "ssl_certfile": tls.certificate,
            "ssl_keyfile": tls.key,
            "ssl_ca_certs": tls.ca and str(tls.ca),
            "ssl_cert_reqs": ssl.CERT_REQUIRED,
            "http": OfReaders,
        }
    return Server(
        uvicorn.Config(
            app,
            log_config=None,
            access_log=False,
            lifespan="off",
            server_header=False,
            timeout_graceful_shutdown=0,
            **secure,
        )
    )
