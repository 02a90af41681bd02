"""Clients of our MCP server: what each was told, what it follows, what goes on for it. No HTTP here.

A session lives in memory. After a kill the client is told that it is unknown and begins anew, as the protocol has it;
what it said to an agent was on disk before, and goes on.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import logging
import uuid
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any
from urllib.parse import unquote

import msgspec

from palinurus.clock import Clock
from palinurus.core.types.caller import Caller
from palinurus.core.types.events import AgentEnd, MessageEnd, RunEvent, ToolStart
from palinurus.core.types.inbound import Inbound
from palinurus.core.types.tool import ToolFailure
from palinurus.gateway.mcp.face import INTERNAL, INVALID_PARAMS, NO_RESOURCE, VERSIONS, McpFace, McpFault, Params
from palinurus.gateway.mcp.single import SingleCalls
from palinurus.gateway.mcp.stream import ANSWER, LEVELS, McpStream
from palinurus.inbox.message import CONTROL_LANE
from palinurus.plugins.peer import MCP_PEER, McpLogLevel
from palinurus.tasks import TaskSet

log = logging.getLogger(__name__)

MOST = 100  # sessions
IDLE = 3600.0  # seconds without a request after which one may be forgotten
STREAMS = 32  # of a session that are kept for a client that comes back
FOLLOWED = 1000  # resources that a session is subscribed to
LISTS = ("tools/list", "resources/list", "prompts/list")


class _Caller:
    """Implements `plugins.peer.McpPeer`: the client, for the time of one of its calls."""

    def __init__(self, session: McpSession, stream: McpStream, token: object) -> None:
        self._session, self._stream, self._token = session, stream, token

    def can(self, ability: str) -> bool:
        return self._session.can(ability)

    def log(self, level: McpLogLevel, text: str) -> None:
        if LEVELS.index(level) >= LEVELS.index(self._session.level):
            said = {"level": level, "logger": "palinurus", "data": text}
            self._stream.say({"method": "notifications/message", "params": said})

    def progress(self, done: float, total: float | None = None, message: str = "") -> None:
        if self._token is not None:
            said: Params = {"progressToken": self._token, "progress": done}
            said |= ({} if total is None else {"total": total}) | ({"message": message} if message else {})
            self._stream.say({"method": "notifications/progress", "params": said})

    async def elicit(self, message: str, schema: Mapping[str, Any], name: str = "") -> dict[str, Any]:
        asked = {"message": message, "requestedSchema": schema}
        return await self._session.ask(self._stream, "elicitation", "elicitation/create", asked)

    async def sample(self, messages: Sequence[Mapping[str, Any]], max_tokens: int) -> dict[str, Any]:
        asked = {"messages": list(messages), "maxTokens": max_tokens}
        return await self._session.ask(self._stream, "sampling", "sampling/createMessage", asked)

    async def roots(self) -> list[dict[str, Any]]:
        found = (await self._session.ask(self._stream, "roots", "roots/list", {})).get("roots")
        return found if isinstance(found, list) else []

    def rest(self) -> None:
        self._stream.take()

    def defer(self, name: str = "", *, needed: bool = False) -> bool:
        if needed:
            raise ToolFailure("this takes long, and clients with a session cannot come back for it (tasks)")
        return False


class McpSession:
    """One client, from its `initialize` on; without an `id` the client of a single request."""

    def __init__(self, ident: str, caller: Caller) -> None:
        self.id = ident
        self.caller = caller
        self.version = VERSIONS[0]
        self.level: str = "info"
        self.used = 0.0
        self.news = McpStream("0")  # what belongs to no request
        self.heard = 0  # of it, by who listens without a session
        self.streams: OrderedDict[str, McpStream] = OrderedDict({"0": self.news})
        self.tasks = TaskSet("an MCP request")
        self._can: Mapping[str, Any] = {}
        self._running: dict[Any, asyncio.Task[None]] = {}
        self._asked: dict[str, asyncio.Future[Params]] = {}
        self._followed: dict[str, int] = {}  # uri -> when it was written, of files
        self._lists: dict[str, bytes] = {}  # those that the client has asked for
        self._count = 0

    def start(self, message: Params, face: McpFace) -> McpStream:
        """Serve a request; its answer ends the stream."""
        self._count += 1
        stream = McpStream(str(self._count))
        self.streams[stream.name] = stream
        while len(self.streams) > STREAMS:
            self.streams.pop(next(name for name in self.streams if name != "0"))
        task = self.tasks.start(self._serve(message, face, stream))
        self._running[message["id"]] = task
        task.add_done_callback(lambda _: self._running.pop(message["id"], None))
        return stream

    async def _serve(self, message: Params, face: McpFace, stream: McpStream) -> None:
        params = message.get("params")
        params = params if isinstance(params, dict) else {}
        meta = params.get("_meta")
        token = meta.get("progressToken") if isinstance(meta, dict) else None
        MCP_PEER.set(_Caller(self, stream, token))
        try:
            told: Params = {"result": await self._answer(message["method"], params, face)}
        except McpFault as fault:
            told = {"error": fault.describe()}
        except asyncio.CancelledError:  # nobody waits for the answer
            stream.end()
            raise
        except Exception:  # task boundary: the client is told that it failed, and the log says why
            log.exception("mcp %s failed", message["method"][:40])
            told = {"error": {"code": INTERNAL, "message": "internal error; the gateway's log says more"}}
        stream.say({"id": message["id"], **told})
        stream.end()

    async def _answer(self, method: str, params: Params, face: McpFace) -> Params:
        if method == "logging/setLevel":
            if params.get("level") not in LEVELS:
                raise McpFault(INVALID_PARAMS, f"level: one of {', '.join(LEVELS)}")
            self.level = params["level"]
            return {}
        if method in ("resources/subscribe", "resources/unsubscribe"):
            return await self._follow(str(params.get("uri")), face, wanted=method == "resources/subscribe")
        told = await face.answer(method, params)
        if method == "initialize":
            can = params.get("capabilities")
            self._can, self.version = can if isinstance(can, dict) else {}, told["protocolVersion"]
        elif method in LISTS:
            self._lists[method] = _digest(told)
        return told

    async def expect(self, wanted: Mapping[str, Any], face: McpFace) -> Params:
        """What of it the client will be told of (`subscriptions/listen`)."""
        kept: Params = {}
        for name in LISTS:
            word = f"{name.partition('/')[0]}ListChanged"
            if wanted.get(word) is True:
                self._lists[name] = _digest(await face.answer(name, {}))
                kept[word] = True
        uris = wanted.get("resourceSubscriptions")
        for uri in uris if isinstance(uris, list) else ():
            with contextlib.suppress(McpFault):
                await self._follow(str(uri), face, wanted=True)
        return {**kept, "resourceSubscriptions": list(self._followed)} if self._followed else kept

    async def _follow(self, uri: str, face: McpFace, *, wanted: bool) -> Params:
        if not wanted:
            self._followed.pop(uri, None)
            return {}
        if not self.id:
            raise McpFault(INVALID_PARAMS, "a subscription needs a session (initialize)")
        if len(self._followed) >= FOLLOWED or not await face.has(uri):
            raise McpFault(NO_RESOURCE, f"no resource {uri[:200]}")
        self._followed[uri] = (await face.dates()).get(uri.removeprefix("memory://"), 0)
        return {}

    async def look(self, face: McpFace) -> None:
        """While the client listens: lists that it knows and files that it follows, are they still the same?"""
        try:
            for name, known in tuple(self._lists.items()):
                if (now := _digest(await face.answer(name, {}))) != known:
                    self._lists[name] = now
                    self.news.say({"method": f"notifications/{name.partition('/')[0]}/list_changed"})
            dates = await face.dates() if any(uri.startswith("memory://") for uri in self._followed) else {}
        except McpFault:
            return
        for name, date in dates.items():
            if self._followed.get(f"memory://{name}", date) != date:
                self._followed[f"memory://{name}"] = date
                self.tell_change(f"memory://{name}")

    def tell_change(self, uri: str) -> None:
        """Somebody who reads it again reads something else."""
        if uri in self._followed:
            self.news.say({"method": "notifications/resources/updated", "params": {"uri": uri}})

    def list_followed(self) -> tuple[str, ...]:
        return tuple(self._followed)

    def take_notice(self, method: str, params: Params) -> None:
        """A notification of the client's."""
        if method == "notifications/cancelled" and (task := self._running.get(params.get("requestId"))) is not None:
            task.cancel()

    def take_answer(self, message: Params) -> None:
        """What it answers to a request of ours."""
        waiting = self._asked.get(str(message.get("id")))
        if waiting is not None and not waiting.done():
            waiting.set_result(message)

    def can(self, ability: str) -> bool:
        return ability in self._can

    async def ask(self, stream: McpStream, need: str, method: str, params: Params) -> Params:
        """Its answer. Raises ToolFailure."""
        if not self.can(need):
            raise ToolFailure(f"the MCP client has no {need}")
        ident = f"pal-{uuid.uuid4()}"
        self._asked[ident] = asyncio.get_running_loop().create_future()
        stream.say({"id": ident, "method": method, "params": params})
        try:
            async with asyncio.timeout(ANSWER):
                told = await self._asked[ident]
        except TimeoutError:
            raise ToolFailure(f"the MCP client did not answer within {ANSWER:g} s") from None
        finally:
            del self._asked[ident]
        result = told.get("result")
        if not isinstance(result, dict):
            raise ToolFailure(f"the MCP client refused: {str(told.get('error'))[:300]}")
        return result

    def close(self) -> None:
        """What goes on for it is stopped."""
        self.tasks.cancel()
        for stream in self.streams.values():
            stream.end()


def _digest(told: Params) -> bytes:
    """In whatever order: conversations change places all the time."""
    rows = sorted(msgspec.json.encode(row, order="deterministic") for rows in told.values() for row in rows)
    return hashlib.sha256(b"\n".join(rows)).digest()


class McpSessions:
    """All of them. Follows the runs of all sessions, so that who subscribed to a conversation hears of it. Implements
    `inbox.feed.RunFollower`."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._all: OrderedDict[str, McpSession] = OrderedDict()
        self._items: dict[str, str] = {}  # runs -> their sessions
        self._steps: dict[str, tuple[Callable[[int, str], None], int]] = {}  # runs -> who is told of its steps
        self._waiting: dict[str, Callable[[int, str], None]] = {}
        self.unfollow: Callable[[], None] = lambda: None
        self.single = SingleCalls(clock)
        self.called = asyncio.Event()  # set, and made anew, when a tool was called: it may have changed something

    def __len__(self) -> int:
        return len(self._all)

    def open(self, caller: Caller) -> McpSession:
        """A new one; the longest unused makes room for it."""
        now = self._clock.monotonic()
        for ident, one in tuple(self._all.items()):
            if one.used < now - IDLE or len(self._all) >= MOST:
                self.end(ident)
        made = McpSession(uuid.uuid4().hex, caller)
        self._all[made.id] = made
        made.used = now
        return made

    def find(self, ident: str, caller: Caller) -> McpSession | None:
        """This caller's session of that name."""
        found = self._all.get(ident)
        if found is None or (found.caller.id, found.caller.device) != (caller.id, caller.device):
            return None
        self._all.move_to_end(ident)
        found.used = self._clock.monotonic()
        return found

    def end(self, ident: str) -> None:
        if (found := self._all.pop(ident, None)) is not None:
            found.close()

    def close(self) -> None:
        """The gateway stops."""
        self.unfollow()
        self.single.close()
        for ident in tuple(self._all):
            self.end(ident)

    def stir(self) -> None:
        """Whoever listens looks again."""
        self.called.set()
        self.called = asyncio.Event()

    def tell_change(self, uri: str) -> None:
        """Tell all who subscribed to it."""
        for one in self._all.values():
            one.tell_change(uri)

    def expect_run(self, name: str, tell: Callable[[int, str], None]) -> None:
        """`tell` hears of the steps of a run that is about to be submitted under this name."""
        self._waiting[name] = tell

    def forget_run(self, name: str) -> None:
        self._waiting.pop(name, None)

    # --- the follower ---------------------------------------------------------------------------------------------

    def on_accepted(self, item: str, session: str, inbound: Inbound) -> None:
        lane, _, rest = session.partition(":")
        self._items[item] = rest if lane.partition("/")[0] == CONTROL_LANE else session
        if (tell := self._waiting.pop(inbound.event, None)) is not None:
            self._steps[item] = (tell, 0)

    on_started = on_accepted

    def on_event(self, item: str, event: RunEvent) -> None:
        if isinstance(event, ToolStart) and item in self._steps:
            tell, count = self._steps[item]
            self._steps[item] = (tell, count + 1)
            tell(count + 1, event.summary or event.name)
        if isinstance(event, MessageEnd | AgentEnd) and (key := self._items.get(item)):
            for uri in self._find_uris(key):
                self.tell_change(uri)

    def _find_uris(self, key: str) -> Iterator[str]:
        """As the client wrote it."""
        listed = {uri for one in self._all.values() for uri in one.list_followed()}
        return (uri for uri in listed if uri.startswith("session://") and unquote(uri[10:]) == key)

    def on_merged(self, item: str, into: str) -> None:
        self.on_ended(item)

    def on_ended(self, item: str) -> None:
        self._items.pop(item, None)
        self._steps.pop(item, None)
