"""A connection to one server, by the official SDK: handshake, lists, calls, progress, cancellation.

The only file that speaks MCP as a client. Servers may ask a person something while a tool of theirs runs, and learn
which folders the config opened for their program, and borrow a model where the person lends it (sampling).
"""

from __future__ import annotations

import asyncio
import contextlib
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from functools import cache, partial
from typing import Any, Literal, TypeVar
from urllib.parse import quote

import anyio
import httpx2
import mcp_types
import pydantic
from mcp.client.session import ClientSession
from mcp.client.sse import sse_client
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.exceptions import MCPError

from palinurus import __version__
from palinurus.clock import Clock
from palinurus.config.sections.mcp import McpServerSettings, McpTransport
from palinurus.core.types.sampling import SamplingRequest
from palinurus.core.types.tool import ToolFailure
from palinurus.tools.mcp import port
from palinurus.tools.mcp.pipe import Streams, open_pipe
from palinurus.tools.mcp.questions import McpQuestion
from palinurus.tools.mcp.revision import agree_on_revision, finish_request, hear_changes, is_closed
from palinurus.tools.mcp.skills import EXTENSION, make_skill_row
from palinurus.tools.mcp.transport import PinnedTransport, SignedTransport

PAGES = 20  # of a list; a server that never ends is cut off
REFUSED = -1  # the protocol's code for a person who said no
LONGEST = 20  # times the time-out: how far progress may put it off
_BARE = ("Server returned an error response", "Not Found")
_ODD = ("Unexpected content type", "Failed to parse JSON response")
T = TypeVar("T")


@asynccontextmanager
async def connect_server(
    server: McpServerSettings, wire: McpTransport, means: port.McpMeans, watch: port.McpWatch
) -> AsyncIterator[McpConnection]:
    """An open connection after the handshake. Raises OSError, McpConnectionLost, McpRefusal and what the SDK raises."""
    async with AsyncExitStack() as stack:
        read, write = await stack.enter_async_context(_OPEN[wire](server, means, watch))

        async def told(message: Any) -> None:
            if isinstance(message, mcp_types.ToolListChangedNotification):
                watch.changed()

        info = mcp_types.Implementation(name="palinurus", version=__version__)
        held = _Limits()

        async def ask(context: Any, params: Any) -> mcp_types.ElicitResult:
            form = getattr(params, "requested_schema", None)
            question = McpQuestion(params.message, form or {}, getattr(params, "url", ""))
            with held.stopped():
                answer = await watch.help().ask(question)
            return mcp_types.ElicitResult(action=answer.action, content=answer.content)

        async def sample(context: Any, params: mcp_types.CreateMessageRequestParams) -> Any:
            request = _read_sampling(params)
            try:
                if request is None:
                    raise ToolFailure("only text is passed on to a model, without tools")
                with held.stopped():
                    told = await watch.help().sample(request)
            except ToolFailure as failure:
                return mcp_types.ErrorData(code=REFUSED, message=str(failure))
            said = mcp_types.TextContent(type="text", text=told.text)
            end = "maxTokens" if told.cut else "endTurn"
            return mcp_types.CreateMessageResult(role="assistant", content=said, model=told.model, stop_reason=end)

        roots = _make_roots(server) if wire == "stdio" else None
        make = partial(
            ClientSession,
            message_handler=told,
            client_info=info,
            elicitation_callback=ask,
            list_roots_callback=roots,
            sampling_callback=sample,
        )
        session = await stack.enter_async_context(make(read, write))
        try:
            await _asked(session.initialize() if wire == "sse" else agree_on_revision(session, watch), watch)
        except port.McpConnectionLost:
            if wire != "stdio":
                raise
            await stack.aclose()  # an old program may end at the first word that it does not know
            watch.noise = ""
            read, write = await stack.enter_async_context(_OPEN[wire](server, means, watch))
            session = await stack.enter_async_context(make(read, write))
            await _asked(session.initialize(), watch)
        hearing = asyncio.ensure_future(hear_changes(session, means.clock, watch))
        try:
            yield McpConnection(session, watch, held, means.clock)
        finally:
            hearing.cancel()
            await asyncio.wait({hearing})


def _read_sampling(params: mcp_types.CreateMessageRequestParams) -> SamplingRequest | None:
    """None: it holds what is not passed on."""
    said: list[tuple[Literal["user", "assistant"], str]] = []
    for message in params.messages:
        parts = message.content if isinstance(message.content, list) else [message.content]
        if not all(isinstance(part, mcp_types.TextContent) for part in parts):
            return None
        said.append((message.role, "\n".join(str(getattr(part, "text", "")) for part in parts)))
    wished = params.model_preferences.hints if params.model_preferences else None
    if params.tools or not said:
        return None
    return SamplingRequest(
        tuple(said),
        max(params.max_tokens, 1),
        params.system_prompt or "",
        params.temperature,
        stop=tuple(params.stop_sequences or ())[:4],
        hints=tuple(str(one.name or "") for one in wished or ()),
    )


def _make_roots(server: McpServerSettings) -> Any:
    """The folders that the owner opened for its program."""
    found = [
        mcp_types.Root(uri=pydantic.FileUrl(f"file://{quote(one)}"))
        for one in dict.fromkeys((*server.write, *server.read))
    ]

    async def list_roots(context: Any) -> mcp_types.ListRootsResult:
        return mcp_types.ListRootsResult(roots=found)

    return list_roots


class _Limits:
    """The time-outs of calls under way; while a person thinks, none of them runs."""

    def __init__(self) -> None:
        self.all: dict[asyncio.Timeout, float] = {}

    @contextmanager
    def stopped(self) -> Iterator[None]:
        held = [one for one in self.all if not one.expired()]
        for one in held:
            one.reschedule(None)
        try:
            yield
        finally:
            now = asyncio.get_running_loop().time()
            for one in held:
                if one in self.all and not one.expired():
                    one.reschedule(now + self.all[one])


def _program(server: McpServerSettings, means: port.McpMeans, watch: port.McpWatch) -> Any:
    return open_pipe(means.launch(server), means.mark(server.name), watch)


@asynccontextmanager
async def _http(server: McpServerSettings, means: port.McpMeans, watch: port.McpWatch) -> AsyncIterator[Streams]:
    url = server.url.reveal()
    async with _client(server, means, watch) as client:
        async with streamable_http_client(url, http_client=client) as streams:
            yield streams


def _sse(server: McpServerSettings, means: port.McpMeans, watch: port.McpWatch) -> Any:
    def make(*_: Any, **__: Any) -> httpx2.AsyncClient:
        return _client(server, means, watch)

    return sse_client(server.url.reveal(), httpx_client_factory=make)


def _client(server: McpServerSettings, means: port.McpMeans, watch: port.McpWatch) -> httpx2.AsyncClient:
    pinned = PinnedTransport(server.url.reveal(), means.judge, watch, _trust(server))
    return httpx2.AsyncClient(
        transport=SignedTransport(pinned, server, means.tokens, watch),
        headers={name: value.reveal() for name, value in server.headers.items()},
        timeout=httpx2.Timeout(server.start, read=max(server.timeout * LONGEST, 300.0)),
        trust_env=False,
    )


@cache
def _read_authorities() -> ssl.SSLContext:
    """Whom the machine believes: 20 ms each time, with every connection."""
    return httpx2.create_ssl_context(trust_env=False)


def _trust(server: McpServerSettings) -> ssl.SSLContext:
    """sslVerify, clientCert and clientKey. Raises OSError: a certificate that cannot be read."""
    if server.verify and not server.cert:
        return _read_authorities()
    context = ssl.create_default_context()
    if not server.verify:
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    if server.cert:
        context.load_cert_chain(server.cert, server.cert_key, password=lambda: b"")  # never ask at a terminal
    return context


_OPEN: dict[McpTransport, Callable[[McpServerSettings, port.McpMeans, port.McpWatch], Any]] = {
    "stdio": _program,
    "http": _http,
    "sse": _sse,
}


class _SkillPage(pydantic.BaseModel):
    skills: list[dict[str, Any]]
    next_cursor: str | None = pydantic.Field(None, alias="nextCursor")


class McpConnection:
    """Implements `port.McpLink`."""

    def __init__(self, session: ClientSession, watch: port.McpWatch, limits: _Limits, clock: Clock) -> None:
        self._clock = clock
        self._session = session
        self._limits = limits
        self._watch = watch
        told, can = session.server_info, session.server_capabilities
        self._tools = can is None or can.tools is not None
        self._skills = can is not None and EXTENSION in (can.extensions or {})
        self.facts = port.McpServerFacts(
            told.name if told else "",
            told.version if told else "",
            session.protocol_version or "",
            can is not None and can.resources is not None,
            prompts=can is not None and can.prompts is not None,
        )

    async def tools(self) -> tuple[port.McpToolListing, ...]:
        """All pages; skills, where it has some, as rows beside them."""
        found = await self._pages(self._session.list_tools, "tools") if self._tools else []
        skills: list[dict[str, Any]] = []
        with contextlib.suppress(port.McpRefusal):  # its tools are of use without them
            skills = await self._pages(self._list_skills, "skills") if self._skills else []
        return (*found, *(row for one in skills if (row := make_skill_row(one)) is not None))

    async def _list_skills(self, params: mcp_types.PaginatedRequestParams | None) -> _SkillPage:
        asked = mcp_types.Request(method="skills/list", params=params or mcp_types.PaginatedRequestParams())
        return await self._session.send_request(asked, _SkillPage)

    async def resources(self) -> list[dict[str, Any]]:
        """All pages."""
        return await self._pages(self._session.list_resources, "resources")

    async def read(self, uri: str, timeout: float) -> list[dict[str, Any]]:
        """One resource."""
        async with asyncio.timeout(timeout):
            read = partial(self._session.read_resource, uri, allow_input_required=True)
            got = await self._finish(lambda given, state: read(input_responses=given, request_state=state))
            return [_plain(one) for one in got.contents]

    async def call(
        self, name: str, arguments: Mapping[str, Any], timeout: float, show: port.McpProgress
    ) -> dict[str, Any]:
        """One call. Whoever is cancelled while waiting here has told the server so."""
        now = asyncio.get_running_loop().time
        latest = now() + timeout * LONGEST
        async with asyncio.timeout(timeout) as limit:
            self._limits.all[limit] = timeout

            async def told(progress: float, total: float | None, message: str | None) -> None:
                if not limit.expired():
                    limit.reschedule(min(now() + timeout, latest))
                show(progress, total, message or "")

            call = partial(
                self._session.call_tool, name, dict(arguments), progress_callback=told, allow_input_required=True
            )
            try:
                return _plain(await self._finish(lambda given, state: call(input_responses=given, request_state=state)))
            finally:
                del self._limits.all[limit]

    async def prompts(self) -> list[dict[str, Any]]:
        """All pages."""
        return await self._pages(self._session.list_prompts, "prompts")

    async def prompt(self, name: str, arguments: Mapping[str, str], timeout: float) -> port.McpPrompt:
        """One, filled in."""
        async with asyncio.timeout(timeout):
            get = partial(self._session.get_prompt, name, dict(arguments), allow_input_required=True)
            got = await self._finish(lambda given, state: get(input_responses=given, request_state=state))
        said = tuple((str(one.role), str(getattr(one.content, "text", "[not a text]"))) for one in got.messages)
        return port.McpPrompt(got.description or "", said)

    async def _ask(self, asking: Awaitable[T]) -> T:
        return await _asked(asking, self._watch)

    async def _finish(self, send: Callable[[Any, str | None], Awaitable[Any]]) -> Any:
        """The result; with tools listed anew where the server has other ones than we think (then it did nothing)."""
        try:
            return await self._ask(finish_request(self._session, self._clock, send))
        except port.McpRefusal as refused:
            if refused.code != mcp_types.HEADER_MISMATCH:
                raise
        self._watch.changed()
        await self.tools()
        return await self._ask(finish_request(self._session, self._clock, send))

    async def _pages(self, page: Callable[..., Awaitable[Any]], name: str) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = []
        cursor: str | None = None
        for _ in range(PAGES):
            at = mcp_types.PaginatedRequestParams(cursor=cursor) if cursor else None
            answer = await self._ask(page(params=at))
            found += (one if isinstance(one, dict) else _plain(one) for one in getattr(answer, name))
            cursor = answer.next_cursor
            if not cursor:
                break
        return found


async def _asked(asking: Awaitable[T], watch: port.McpWatch) -> T:
    """What came; the SDK's exceptions in our words."""
    try:
        return await asking
    except MCPError as error:
        if is_closed(error):
            raise port.McpConnectionLost(watch.end or "the connection was closed") from None
        if error.message == "Session terminated":  # how the SDK says 404: the server has begun anew
            raise port.McpConnectionLost("the server has forgotten this session", unsent=True) from None
        if error.message in _BARE and watch.why:  # how the SDK says that HTTP said no; `watch` knows with what
            raise ToolFailure(watch.why) from None
        if error.message.startswith(_ODD):
            told = error.message.partition("\n")[0].partition(": 1 validation")[0]
            raise port.McpRefusal(f"what it answers is not MCP ({told})", error.code) from None
        raise port.McpRefusal(f"{error.message} (error {error.code})", error.code) from None
    except (anyio.ClosedResourceError, anyio.BrokenResourceError, httpx2.HTTPError) as error:
        raise port.McpConnectionLost(f"the connection broke ({type(error).__name__})") from None
    except (pydantic.ValidationError, RuntimeError) as error:
        told = _describe_invalid(error) if isinstance(error, pydantic.ValidationError) else str(error)
        raise port.McpRefusal(f"the answer breaks the protocol: {told[:300]}") from None


def _describe_invalid(error: pydantic.ValidationError) -> str:
    """Where the first thing is that does not fit, and how many more there are; not what stands there."""
    first = error.errors(include_url=False, include_context=False, include_input=False)[0]
    more = f" (and {error.error_count() - 1} more)" if error.error_count() > 1 else ""
    return f"{'.'.join(map(str, first['loc']))}: {first['msg']}{more}"


def _plain(model: pydantic.BaseModel) -> dict[str, Any]:
    made: dict[str, Any] = model.model_dump(mode="json", by_alias=True, exclude_none=True)
    return made
