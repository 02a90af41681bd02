"""A fake provider on 127.0.0.1: OpenAI Chat Completions and Anthropic Messages from a script, with faults; and one that
hears (transcriptions).

In a test: `async with ModelServer([say("hi"), respond_status(429)]) as server: … server.url …`. As a process of its
own, driven by the words of `markers.py`: `python -m palinurus.testing.server --port N [--script FILE]`; it writes its
address as one line to standard output.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
from collections.abc import Callable, Iterable
from typing import Any, TypeAlias

import aiohttp
import msgspec
from aiohttp import web

from palinurus.clock import SystemClock
from palinurus.testing import markers, wire
from palinurus.testing.loopback import EVERY_REQUEST, LoopbackHttp, abort_connection
from palinurus.testing.model import ScriptedTurn, ScriptStep, resolve_step, say


class AudioUpload(msgspec.Struct, frozen=True):
    """One request. Header names are lower-case."""

    fields: dict[str, str]
    name: str
    data: bytes
    headers: dict[str, str]


class FakeTranscriber:
    """POST …/audio/transcriptions, the multipart form of OpenAI's API. Hears the same words in everything, or fails
    with `status`; `answer` goes before both. While `gate` is not set, nobody is answered."""

    def __init__(self, words: str, *, status: int = 200, answer: Callable[[], web.Response] | None = None) -> None:
        self.words = words
        self.status = status
        self.asked: list[AudioUpload] = []
        self.gate = asyncio.Event()
        self.gate.set()
        self._answer = answer
        self._http = LoopbackHttp({"POST /v1/audio/transcriptions": self._hear}, cancels=True)

    @property
    def url(self) -> str:
        return f"{self._http.url}/v1"

    async def __aenter__(self) -> FakeTranscriber:
        await self._http.start()
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self._http.stop()

    async def _hear(self, request: web.Request) -> web.Response:
        fields: dict[str, str] = {}
        name, data = "", b""
        async for part in await request.multipart():
            assert isinstance(part, aiohttp.BodyPartReader)
            if part.filename:
                name, data = part.filename, bytes(await part.read())
            else:
                fields[part.name or ""] = await part.text()
        self.asked.append(
            AudioUpload(fields, name, data, {key.lower(): value for key, value in request.headers.items()})
        )
        await self.gate.wait()
        if self._answer is not None:
            return self._answer()
        if self.status != 200:
            return web.json_response({"error": {"message": "no ears today"}}, status=self.status)
        return web.json_response({"text": self.words})


_APIS = {"/chat/completions": "openai-completions", "/messages": "anthropic-messages"}


class ModelServerRequest(msgspec.Struct, frozen=True):
    """One request as it came. `body` is the decoded JSON, {} if it was none."""

    path: str
    api: str
    headers: dict[str, str]  # names in lower case
    body: dict[str, Any]

    @property
    def conversation(self) -> markers.MarkerConversation:
        return markers.parse_conversation(self.body)


class ScriptedResponse(msgspec.Struct, frozen=True):
    """A turn, and what goes wrong while it is sent."""

    turn: ScriptedTurn = ScriptedTurn()
    status: int = 200
    body: bytes | None = None  # sent instead of the turn
    headers: dict[str, str] = {}
    refuse: bool = False  # the connection is closed without an answer
    cut: int | None = None  # … after so many bytes of the body
    stall: int | None = None  # silence after so many bytes, until the client or the server goes
    delay: float = 0.0  # seconds between events
    split: int = 0  # bytes per write; 0: one event per write


ServerStep: TypeAlias = ScriptStep | ScriptedResponse | Callable[[ModelServerRequest], ScriptStep | ScriptedResponse]


def refuse_connection() -> ScriptedResponse:
    """The connection is closed before a byte is answered."""
    return ScriptedResponse(refuse=True)


def respond_status(
    code: int, body: str = '{"error": {"message": "scripted"}}', headers: dict[str, str] | None = None
) -> ScriptedResponse:
    """An error response."""
    return ScriptedResponse(
        status=code, body=body.encode(), headers={"content-type": "application/json", **(headers or {})}
    )


def respond_html(code: int = 200) -> ScriptedResponse:
    """A proxy's page where the protocol should be."""
    page = b"<!doctype html><html><head><title>Sign in</title></head><body>Welcome</body></html>"
    return ScriptedResponse(status=code, body=page, headers={"content-type": "text/html"})


def respond_malformed(data: bytes = b'data: {"choices": [{"delta": {"content": \n\ndata: [[[\n\n') -> ScriptedResponse:
    """An event stream that is not the protocol."""
    return ScriptedResponse(body=data, headers={"content-type": "text/event-stream"})


def cut_stream(turn: ScriptedTurn, after: int) -> ScriptedResponse:
    """The connection breaks after so many bytes of the stream."""
    return ScriptedResponse(turn, cut=after)


def stall_stream(turn: ScriptedTurn, after: int = 0) -> ScriptedResponse:
    """Nothing more comes after so many bytes; the connection stays open."""
    return ScriptedResponse(turn, stall=after)


def slow_stream(turn: ScriptedTurn, delay: float = 0.05) -> ScriptedResponse:
    """Seconds between events."""
    return ScriptedResponse(turn, delay=delay)


def split_stream(turn: ScriptedTurn, size: int) -> ScriptedResponse:
    """Written in pieces of `size` bytes, wherever that cuts."""
    return ScriptedResponse(turn, split=size)


def follow_markers(asked: ModelServerRequest) -> ScriptedResponse:
    """What the newest user message asks for."""
    marked = markers.answer_markers(asked.conversation)
    return ScriptedResponse(marked.turn, delay=marked.delay, cut=marked.cut, stall=marked.stall)


class ModelServer:
    """`script`: one step per request, then `default` (the markers, which echo a plain message).

    `requests` holds what was asked, `open` counts responses under way, `failed` those the client left early.
    """

    def __init__(
        self,
        script: Iterable[ServerStep] = (),
        *,
        default: ServerStep = follow_markers,
        chunk: int = 8,
        remember: bool = True,  # False: a soak asks for gigabytes
    ) -> None:
        self._script = list(script)
        self._default = default
        self._chunk = chunk
        self._http = LoopbackHttp({EVERY_REQUEST: self._handle})
        self._closing = asyncio.Event()
        self._remember = remember
        self.requests: list[ModelServerRequest] = []
        self.open = 0
        self.failed = 0

    @property
    def url(self) -> str:
        """The base URL for either API (`/chat/completions` and `/messages` are looked for at the end of a path)."""
        return f"{self._http.url}/v1"

    @property
    def port(self) -> int:
        return self._http.port

    async def start(self, port: int = 0) -> None:
        """Listen; without a port on that of last time. Raises OSError when the port is taken."""
        self._closing = asyncio.Event()
        self._http.port = port or self._http.port
        await self._http.start()

    async def stop(self) -> None:
        """Close every connection, stalled ones too."""
        self._closing.set()
        await self._http.stop()

    async def __aenter__(self) -> ModelServer:
        await self.start()
        return self

    async def __aexit__(self, *_exc: object) -> None:
        await self.stop()

    def add(self, *steps: ServerStep) -> None:
        """More steps at the end of the script."""
        self._script += steps

    async def _handle(self, request: web.BaseRequest) -> web.StreamResponse:
        api = next((api for tail, api in _APIS.items() if request.path.endswith(tail)), "")
        if not api:
            known = request.path.endswith("/models")
            listed = {"object": "list", "data": [{"id": "fake", "object": "model"}]}
            return _json(listed) if known else _json({"error": {"message": "not found"}}, 404)
        raw = await request.read()
        try:
            body = msgspec.json.decode(raw, type=dict[str, Any])
        except msgspec.DecodeError:
            body = {}
        asked = ModelServerRequest(request.path, api, {k.lower(): v for k, v in request.headers.items()}, body)
        if self._remember:
            self.requests.append(asked)
        answer = _answer(self._script.pop(0) if self._script else self._default, asked)
        self.open += 1
        try:
            return await self._answered(request, asked, answer)
        except ConnectionError:  # the client has gone; nobody is there to be told
            self.failed += 1
            return web.Response()
        except asyncio.CancelledError:
            self.failed += 1
            raise
        finally:
            self.open -= 1

    async def _answered(
        self, request: web.BaseRequest, asked: ModelServerRequest, answer: ScriptedResponse
    ) -> web.StreamResponse:
        turn = answer.turn
        if answer.refuse:
            return abort_connection(request)
        if turn.failure is not None and not turn.text and answer.body is None:
            code, error = wire.make_error_body(turn.failure)
            wait = turn.failure.retry_after
            return _json(error, code, {} if wait is None else {"retry-after": f"{wait:g}"})
        ids = [asked.conversation.call_id(n) for n in range(len(turn.calls))]
        if answer.body is None and not asked.body.get("stream"):
            return _json(wire.BODY_BUILDERS[asked.api](turn, ids))
        if answer.body is not None and answer.status != 200:
            return web.Response(status=answer.status, body=answer.body, headers=answer.headers)
        events = [answer.body] if answer.body is not None else wire.STREAM_ENCODERS[asked.api](turn, ids, self._chunk)
        response = web.StreamResponse(headers={"content-type": "text/event-stream", **answer.headers})
        await response.prepare(request)
        return await self._stream(request, response, events, answer)

    async def _stream(
        self, request: web.BaseRequest, response: web.StreamResponse, events: list[bytes], answer: ScriptedResponse
    ) -> web.StreamResponse:
        gates = dict(answer.turn.gates)
        stop_at = answer.cut if answer.cut is not None else answer.stall
        sent = 0
        for n, data in enumerate(_pieces(events, answer.split)):
            if n in gates:
                await gates[n].wait_open()
            if answer.delay and n:
                await SystemClock().sleep(answer.delay)
            part = data if stop_at is None else data[: max(0, stop_at - sent)]
            if part:
                await response.write(part)
            sent += len(part)
            if stop_at is not None and sent >= stop_at:
                if answer.stall is not None:
                    await self._closing.wait()
                return abort_connection(request, response)
        await response.write_eof()
        return response


def _answer(step: ServerStep, asked: ModelServerRequest) -> ScriptedResponse:
    found = step(asked) if callable(step) else step
    return found if isinstance(found, ScriptedResponse) else ScriptedResponse(resolve_step(found, asked))


def _pieces(events: list[bytes], size: int) -> list[bytes]:
    if not size:
        return events
    whole = b"".join(events)
    return [whole[at : at + size] for at in range(0, len(whole), size)]


def _json(data: Any, code: int = 200, headers: dict[str, str] | None = None) -> web.Response:
    return web.Response(
        status=code, body=msgspec.json.encode(data), headers={"content-type": "application/json", **(headers or {})}
    )


def read_script(data: bytes) -> list[ServerStep]:
    """A JSON list of {"say": text} | {"turn": Turn} | {"status": n, "body": …, "cut": n, …} (fields of Answer)."""
    steps: list[ServerStep] = []
    for one in msgspec.json.decode(data, type=list[dict[str, Any]]):
        if "say" in one:
            steps.append(say(str(one["say"])))
        else:
            fields = {k: v for k, v in one.items() if k != "body"}
            body = one["body"].encode() if "body" in one else None
            steps.append(msgspec.structs.replace(msgspec.convert(fields, ScriptedResponse), body=body))
    return steps


async def serve_script(port: int, script: list[ServerStep]) -> None:
    """Run until cancelled; the address goes to standard output first."""
    server = ModelServer(script, remember=False)  # nobody could look
    await server.start(port)
    sys.stdout.write(server.url + "\n")
    sys.stdout.flush()
    try:
        await asyncio.get_running_loop().create_future()
    finally:
        await server.stop()


def main(argv: list[str] | None = None) -> int:
    """The command line."""
    parser = argparse.ArgumentParser(prog="python -m palinurus.testing.server", description=__doc__)
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--script", help="JSON list of steps; without it the markers decide")
    options = parser.parse_args(argv)
    script: list[ServerStep] = []
    if options.script:
        with open(options.script, "rb") as handle:
            script = read_script(handle.read())
    try:
        asyncio.run(serve_script(options.port, script))
    except KeyboardInterrupt:
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main())
