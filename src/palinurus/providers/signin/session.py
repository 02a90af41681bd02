"""One sign-in that goes on: a code on another device, or a page in the browser that comes back to 127.0.0.1 (or whose
address a person pastes, in a remote shell). Nothing is kept until it is done; a kill ends it, and one begins again.
"""

from __future__ import annotations

import asyncio
import contextlib
import secrets
from collections.abc import Callable
from html import escape
from urllib.parse import urlsplit

from palinurus.clock import Clock
from palinurus.core.signin.flow import CodeFlow, DeviceFlow, TokenFlow
from palinurus.core.types.signin import ShownCode, SignInFailure, SignInRow, TokenSet
from palinurus.errors import BadRequest
from palinurus.providers.signin.renew import SignInFetch, drive_flow

PATIENCE = 900.0  # seconds that a browser may take
_LONGEST = 16_384  # bytes of a request line
_PAGE = "<!doctype html><meta charset=utf-8><title>Palinurus</title><p style='font:1.2em sans-serif'>{words}</p>"


class RedirectServer:
    """Waits on 127.0.0.1 for the browser. `take` says "" to what it wanted, else why not; anybody may knock."""

    def __init__(self, path: str, take: Callable[[str], str]) -> None:
        self._path = path
        self._take = take
        self._server: asyncio.Server | None = None
        self.port = 0

    async def start(self, port: int) -> None:
        """Raises OSError when the port is taken."""
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", port, limit=_LONGEST)
        self.port = int(self._server.sockets[0].getsockname()[1])

    def close(self) -> None:
        if self._server is not None:
            self._server.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError, ValueError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            line = (await reader.readuntil(b"\r\n\r\n")).split(b"\r\n", 1)[0].decode("ascii", "replace")
            verb, _, rest = line.partition(" ")
            target = rest.partition(" ")[0]
            status, words = "404 Not Found", "There is nothing here."
            if verb == "GET" and urlsplit(target).path == self._path:
                wrong = self._take(target)
                status = "400 Bad Request" if wrong else "200 OK"
                words = f"Not signed in: {wrong}" if wrong else "Done. You can close this window."
            page = _PAGE.format(words=escape(words)).encode()
            head = f"HTTP/1.1 {status}\r\ncontent-type: text/html; charset=utf-8\r\ncontent-length: {len(page)}\r\n"
            writer.write(f"{head}cache-control: no-store\r\nconnection: close\r\n\r\n".encode() + page)
            await writer.drain()
        writer.close()


class SignInSession:
    """`start` it, show `shown`, `wait` for the end; `paste` what the browser's address line says. `close` always."""

    def __init__(self, row: SignInRow, fetch: SignInFetch, clock: Clock) -> None:
        self._row = row
        self._fetch = fetch
        self._clock = clock
        self._flow: TokenFlow | None = None
        self._server: RedirectServer | None = None
        self._task: asyncio.Task[TokenSet | SignInFailure] | None = None
        self._back = asyncio.Event()
        self._ready = asyncio.Event()
        self.note = ""  # what a person should know besides

    async def start(self, *, device: bool) -> ShownCode:
        """What a person needs. Raises BadRequest where this way does not exist or fails at once."""
        device = device or not self._row.authorize_url
        if device and not self._row.device_url:
            raise BadRequest("there is no sign-in with a code here", fix="leave --device out")
        self._flow = DeviceFlow(self._row) if device else await self._open_browser_flow()
        self._task = asyncio.ensure_future(self._run(self._flow))
        self._task.add_done_callback(lambda task: self._ready.set())
        if self._flow.shown is None:
            await self._ready.wait()
        if self._flow.shown is None:
            done = self._task.result()
            raise BadRequest(done.reason if isinstance(done, SignInFailure) else "nothing to show")
        return self._flow.shown

    def paste(self, address: str) -> str:
        """The address the browser was sent to, by hand. "" if it was taken, else why not."""
        if not isinstance(self._flow, CodeFlow):
            return "there is nothing to paste here: type the code on the page"
        return self._take(address)

    async def wait(self) -> TokenSet | SignInFailure:
        """How it ended."""
        assert self._task is not None
        return await asyncio.shield(self._task)

    @property
    def done(self) -> TokenSet | SignInFailure | None:
        """How it ended; None while it goes on."""
        ended = self._task is not None and self._task.done() and not self._task.cancelled()
        return self._task.result() if ended and self._task is not None else None

    async def close(self) -> None:
        if self._server is not None:
            self._server.close()
        if self._task is not None and not self._task.done():
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def _open_browser_flow(self) -> CodeFlow:
        row = self._row
        self._server = RedirectServer(row.path, self._take)
        try:
            await self._server.start(row.port)
        except OSError:
            self._server = None
            self.note = f"port {row.port} is taken here: paste the address that the browser ends at"
        port = self._server.port if self._server is not None else row.port
        redirect = f"http://{row.host}:{port}{row.path}"
        return CodeFlow(row, redirect, secrets.token_urlsafe(48), secrets.token_urlsafe(24))

    def _take(self, address: str) -> str:
        assert isinstance(self._flow, CodeFlow)
        wrong = self._flow.take_redirect(address)
        if not wrong or self._flow.done is not None:
            self._back.set()
        return wrong

    async def _run(self, flow: TokenFlow) -> TokenSet | SignInFailure:
        if isinstance(flow, CodeFlow):
            waiting = asyncio.ensure_future(self._back.wait())
            late = asyncio.ensure_future(self._clock.sleep(PATIENCE))
            try:
                await asyncio.wait((waiting, late), return_when=asyncio.FIRST_COMPLETED)
            finally:
                waiting.cancel()
                late.cancel()
            if not self._back.is_set():
                flow.close("nobody came back from the browser")
        return await drive_flow(flow, self._fetch, self._clock, lambda shown: self._ready.set())
