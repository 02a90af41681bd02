"""Requests of MCP's stateless revision. Each stands for itself; where a tool asks the client's person or model
something, the request is answered with the question, and comes again with the answer.

Between the two the tool waits here, in memory, under a name that only that caller can use again. After a kill the name
is unknown, and the client begins anew; tools that are offered only read, so nothing is half done.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
import secrets
import uuid
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from palinurus.clock import Clock
from palinurus.core.jsonschema import find_violations
from palinurus.core.types.caller import Caller
from palinurus.core.types.tool import ToolFailure
from palinurus.gateway.mcp.envelope import GONE, MISSING, Envelope, describe_server, mark_result, translate_fault
from palinurus.gateway.mcp.face import INTERNAL, INVALID_PARAMS, NO_METHOD, McpFace, McpFault, Params
from palinurus.gateway.mcp.stream import ANSWER, LEVELS, McpStream
from palinurus.gateway.mcp.tasks import McpTask, McpTasks
from palinurus.plugins.peer import MCP_PEER, McpLogLevel
from palinurus.tasks import TaskSet

log = logging.getLogger(__name__)

MOST = 100  # calls that wait for answers


class _Question(msgspec.Struct, frozen=True):
    request: Params
    answer: asyncio.Future[Params]


class WaitingCall:
    """One request until it has a result. Implements `plugins.peer.McpPeer`."""

    def __init__(self, envelope: Envelope, owner: tuple[str, str, str], tasks: McpTasks) -> None:
        self.ident = secrets.token_urlsafe(24)
        self.round = 0  # another with every answer: who goes on where the call no longer is, is refused
        self.owner = owner
        self.envelope = envelope
        self.stream = McpStream("0")
        self.told = 0  # how much of the stream the client has heard
        self.outcome: Params | None = None  # `result` or `error`
        self._asked: dict[str, _Question] = {}
        self._count = 0
        self._names: set[str] = set()
        self._lacking: McpFault | None = None
        self._tasks = tasks
        self.deferred: McpTask | None = None  # the client comes back for it
        self.task: asyncio.Task[None] | None = None

    async def serve(self, method: str, params: Params, face: McpFace) -> None:
        """Until there is a result. Raises nothing but CancelledError."""
        MCP_PEER.set(self)
        try:
            told = describe_server() if method == "server/discover" else await face.answer(method, params)
            self.outcome = {"result": mark_result(method, told)}
        except McpFault as fault:
            self._lacking = translate_fault(fault, params)
        except Exception:  # task boundary: the client is told that it failed, and the log says why
            log.exception("mcp %s failed", method[:40])
            self._lacking = McpFault(INTERNAL, "internal error; the gateway's log says more")
        if self._lacking is not None:
            self.outcome = {"error": self._lacking.describe()}
        self.stream.end()
        self._stir()

    @property
    def state(self) -> str:
        """By which the client finds it again."""
        return f"{self.ident}.{self.round}"

    def describe_questions(self) -> Params | None:
        """The result that asks for more; None: nothing is asked."""
        if not (asked := self.list_questions()):
            return None
        return {"resultType": "input_required", "inputRequests": asked, "requestState": self.state}

    def list_questions(self) -> Params:
        """What is asked and not answered."""
        return {name: one.request for name, one in self._asked.items() if not one.answer.done()}

    def _stir(self) -> None:
        self.stream.wake.set()
        if self.deferred is not None:
            self.deferred.touch()

    def take_answers(self, given: Mapping[str, Any]) -> None:
        """What fits a question; what is missing or does not fit is asked for again."""
        self.round += 1
        for name, one in self._asked.items():
            told = given.get(name)
            if isinstance(told, dict) and not one.answer.done() and _fits(one.request, told):
                one.answer.set_result(told)

    def cancel(self) -> None:
        if self.task is not None:
            self.task.cancel()

    # --- the peer ---------------------------------------------------------------------------------------------

    def can(self, ability: str) -> bool:
        return ability in self.envelope.capabilities

    def log(self, level: McpLogLevel, text: str) -> None:
        if self.envelope.level in LEVELS and LEVELS.index(level) >= LEVELS.index(self.envelope.level):
            said = {"level": level, "logger": "palinurus", "data": text}
            self.stream.say({"method": "notifications/message", "params": said})

    def progress(self, done: float, total: float | None = None, message: str = "") -> None:
        if self.deferred is not None:
            self.deferred.said = message or (f"{done:g} of {total:g}" if total else f"{done:g}")
            self.deferred.touch()
        elif self.envelope.token is not None:
            said: Params = {"progressToken": self.envelope.token, "progress": done}
            said |= ({} if total is None else {"total": total}) | ({"message": message} if message else {})
            self.stream.say({"method": "notifications/progress", "params": said})

    async def elicit(self, message: str, schema: Mapping[str, Any], name: str = "") -> dict[str, Any]:
        asked = {"mode": "form", "message": message, "requestedSchema": schema}
        return await self._ask("elicitation", "elicitation/create", asked, name)

    async def sample(self, messages: Sequence[Mapping[str, Any]], max_tokens: int) -> dict[str, Any]:
        asked = {"messages": list(messages), "maxTokens": max_tokens}
        return await self._ask("sampling", "sampling/createMessage", asked)

    async def roots(self) -> list[dict[str, Any]]:
        found = (await self._ask("roots", "roots/list", {})).get("roots")
        return found if isinstance(found, list) else []

    def rest(self) -> None:
        """There is nothing to come back to: the connection stays."""

    def defer(self, name: str = "", *, needed: bool = False) -> bool:
        if self.deferred is None and self.envelope.tasks:
            self.deferred = self._tasks.add(name or str(uuid.uuid4()), self.owner[:2], self)
            self._stir()
        if needed and self.deferred is None:
            self._lacking = self._lacking if self.envelope.tasks else self.envelope.need_tasks()
            raise ToolFailure("this is done only as a task, and too many of them are kept already")
        return self.deferred is not None

    async def _ask(self, need: str, method: str, params: Params, name: str = "") -> Params:
        if not self.can(need):
            self._lacking = McpFault(MISSING, f"the client needs {need}", {"requiredCapabilities": {need: {}}})
            raise ToolFailure(f"the MCP client has no {need}")
        self._count += 1
        name = name if name and name not in self._names else f"{need}-{self._count}"
        self._names.add(name)  # never the same again
        self._asked[name] = _Question({"method": method, "params": params}, asyncio.get_running_loop().create_future())
        self._stir()
        try:
            async with asyncio.timeout(ANSWER):
                return await self._asked[name].answer
        except TimeoutError:
            raise ToolFailure(f"the MCP client did not answer within {ANSWER:g} s") from None
        finally:
            del self._asked[name]


def _fits(request: Params, told: Params) -> bool:
    """Is it an answer to that? A form that was filled in must fit what was asked for."""
    if request["method"] != "elicitation/create":
        return ("roots" if request["method"] == "roots/list" else "content") in told
    if told.get("action") != "accept":
        return told.get("action") in ("decline", "cancel")
    return not find_violations(request["params"]["requestedSchema"], told.get("content"))


class SingleCalls:
    """Those that wait."""

    def __init__(self, clock: Clock) -> None:
        self.tasks = McpTasks(clock)
        self._open: dict[str, WaitingCall] = {}
        self._running = TaskSet("an MCP request")

    def begin(self, message: Params, envelope: Envelope, caller: Caller, face: McpFace) -> WaitingCall:
        """A new call, or the one that this request goes on with. Raises McpFault."""
        method, params = message["method"], message["params"]
        if method in GONE:
            raise McpFault(NO_METHOD, f"Method not found: {method}")
        kept = {
            name: value for name, value in params.items() if name not in ("_meta", "inputResponses", "requestState")
        }
        data = msgspec.json.encode([method, kept], order="deterministic")
        owner = (caller.id, caller.device, hashlib.sha256(data).hexdigest())
        if (state := params.get("requestState")) is not None:
            found = self._open.get(str(state).partition(".")[0])
            if found is None or found.deferred is not None or (found.state, found.owner) != (state, owner):
                raise McpFault(INVALID_PARAMS, "requestState: nothing here waits under that name for this request")
            given = params.get("inputResponses")
            found.take_answers(given if isinstance(given, dict) else {})
            found.envelope = envelope
            return found
        call = WaitingCall(envelope, owner, self.tasks)
        waiting = [one for one in self._open.values() if one.deferred is None]
        for one in waiting[: max(len(waiting) - MOST + 1, 0)]:
            self._open.pop(one.ident).cancel()
        self._open[call.ident] = call
        call.task = self._running.start(call.serve(method, kept, face))
        call.task.add_done_callback(lambda _: self._open.pop(call.ident, None))
        return call

    def close(self) -> None:
        """The gateway stops."""
        self._running.cancel()
