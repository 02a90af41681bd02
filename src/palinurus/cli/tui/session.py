"""The other end of the screen: one session over one connection that is made again when it breaks. Draws nothing.

What it learns it tells as `ScreenChange`, in order. A message that was sent when the line broke is sent again under
the same id, so it arrives once.
"""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Protocol

import msgspec

from palinurus.cli.tui.conversation import ConversationBlock, ScreenConversation
from palinurus.cli.tui.status import format_model as named
from palinurus.clock import Clock
from palinurus.core.types.keys import parse_session_key
from palinurus.errors import GatewayUnreachable, PalinurusError
from palinurus.tasks import TaskSet


class ScreenConnection(Protocol):
    """A connection that is logged in. `events` gets every event frame."""

    events: asyncio.Queue[dict[str, Any]]

    async def call(self, method: str, params: Any = None) -> Any:
        """The payload of the answer. Raises BadRequest with the refusal, GatewayUnreachable when the line is cut."""
        ...

    async def wait_closed(self) -> int | None:
        """Returns when the line is cut."""
        ...

    async def close(self) -> None:
        """End it."""
        ...


class ConnectionSource(Protocol):
    """Where the agent lives. `where` is for people."""

    where: str

    async def open(self) -> ScreenConnection:
        """A new connection. Raises PalinurusError kinds."""
        ...

    async def close(self) -> None:
        """Leave. The program ends if it ran only for us."""
        ...


HISTORY = 120  # messages that are shown of a session, and as many more with each look further back
READS = 3  # of a history that changes while it is read
PAUSES = (0.2, 0.5, 1.0, 2.0, 5.0)  # seconds between tries to connect again
ANEW = "A new conversation began: the agent does not see what was said before. session.reset says when that happens."
LOST = "reconnecting …"


class ScreenChange(msgspec.Struct, frozen=True):
    """What changed. `fresh`: everything shown before goes; `earlier`: the blocks come before all others; `asked`,
    `answered`: a question came, or ended."""

    blocks: Sequence[ConversationBlock] = ()
    fresh: bool = False
    earlier: bool = False
    asked: Mapping[str, Any] | None = None
    answered: str = ""
    lists: bool = False


class ScreenSession:
    """Used by the screen; `tell` is awaited for every change."""

    def __init__(
        self,
        enter: Callable[[], Awaitable[ConnectionSource]],
        session: str,
        model: str,
        clock: Clock,
        tell: Callable[[ScreenChange], Awaitable[None]],
    ) -> None:
        self.session = session
        self.row: dict[str, Any] = {}
        self.cost = 0.0  # dollars that the session took lately
        self.title = ""  # what it is about
        self.inherited = ""  # the model of a session that chose none
        self.models: list[dict[str, Any]] = []
        self.commands: list[dict[str, Any]] = []
        self.talk = ScreenConversation()
        self.line = "starting …"
        self.where = ""
        self.folder = ""  # where the session works, if it begins now; "": as it has it
        self._enter = enter
        self._model = model
        self._clock = clock
        self._tell = tell
        self._looking = False  # further back
        self._why = self._said = self._anew = ""  # the last refusal, what we said last, the session that began unasked
        self._source: ConnectionSource | None = None
        self._wire: ScreenConnection | None = None
        self._open = asyncio.Event()  # there is a connection, and the session is on the screen
        self._tasks = TaskSet("the screen's work")

    @property
    def levels(self) -> list[dict[str, Any]]:
        """What the session's model can think at: id and label."""
        return list(self.row.get("thinkingLevels") or ())

    # --- the connection --------------------------------------------------------------------------------------

    async def live(self) -> None:
        """Until cancelled. Raises PalinurusError when the first connection cannot be made."""
        self._source = await self._enter()
        self.where = self._source.where
        tries = 0
        while True:
            try:
                self._wire = await self._source.open()
                await self._joined(self._wire)
                tries = 0
                await self._listen(self._wire)
            except PalinurusError as exc:
                if not self.row:
                    raise
                await self._refused(exc)
            self._open.clear()
            if self._wire is not None:
                wire, self._wire = self._wire, None
                await wire.close()
            self.line = LOST
            await self._tell(ScreenChange())
            await self._clock.sleep(PAUSES[min(tries, len(PAUSES) - 1)])
            tries += 1

    async def _refused(self, exc: PalinurusError) -> None:
        """A gateway that is away comes back; one that says no says why, once."""
        if not isinstance(exc, GatewayUnreachable) and exc.message != self._why:
            self._why = exc.message
            await self._tell(ScreenChange([self.talk.note(exc.message, "error")]))

    async def close(self) -> None:
        """Hang up."""
        self._tasks.cancel()
        if self._wire is not None:
            await self._wire.close()
        if self._source is not None:
            await self._source.close()

    async def _joined(self, wire: ScreenConnection) -> None:
        await wire.call("sessions.subscribe")
        if self.folder and not self.row:
            await wire.call("sessions.create", {"key": self.session, "folder": self.folder})
        await self._read(wire)
        self.line = ""
        self._open.set()
        await self._tell(ScreenChange())
        found = await wire.call("chat.metadata", {"agentId": self._agent()})
        self.models, self.commands = found["models"], found["commands"]
        await self._tell(ScreenChange(lists=True))
        for family in ("exec", "plugin"):
            for asked in await wire.call(f"{family}.approval.list"):
                await self._tell(ScreenChange(asked=asked))

    async def _read(self, wire: ScreenConnection) -> None:
        """Show the session from disk. What happens while it is read is in it, or it is read once more."""
        await wire.call("sessions.messages.subscribe", {"key": self.session})
        for _ in range(READS):
            answer = await wire.call("chat.history", {"sessionKey": self.session, "limit": HISTORY})
            if not self._drained(wire):
                break
        self.session = answer["sessionKey"]
        self.row = dict(answer["sessionInfo"])
        self.inherited = named(answer["defaults"])
        news = [self.talk.note(ANEW)] if self._anew == self.row.get("sessionId") else []
        await self._tell(ScreenChange([*news, *self.talk.reset(answer)], fresh=True))
        await self._priced(wire)

    async def look_back(self) -> bool:
        """Show what came before. False: there is nothing, or somebody is looking already."""
        wire = self._wire
        if wire is None or self.talk.oldest <= 1 or self._looking:
            return False
        self._looking = True
        asked = {"sessionKey": self.session, "limit": HISTORY, "before": self.talk.oldest}
        try:
            answer = await wire.call("chat.history", asked)
            if asked["sessionKey"] != self.session:
                return False
            await self._tell(ScreenChange(self.talk.look_back(answer), earlier=True))
            return True
        except PalinurusError as exc:
            await self._refused(exc)
            return False
        finally:
            self._looking = False

    def _drained(self, wire: ScreenConnection) -> bool:
        """Take away what was told of this session meanwhile. Was there something that matters?"""
        kept, ours = [], False
        while not wire.events.empty():
            frame = wire.events.get_nowait()
            payload = frame.get("payload") or {}
            if payload.get("sessionKey") == self.session and ".approval." not in frame["event"]:
                ours = ours or payload.get("state") != "delta"
            else:
                kept.append(frame)
        for frame in kept:
            wire.events.put_nowait(frame)
        return ours

    async def _listen(self, wire: ScreenConnection) -> None:
        """Every event, until the line breaks."""
        over, told = asyncio.ensure_future(wire.wait_closed()), asyncio.ensure_future(wire.events.get())
        try:
            while True:
                await asyncio.wait({told, over}, return_when=asyncio.FIRST_COMPLETED)
                if not told.done():
                    return
                frame = told.result()
                await self._event(wire, frame["event"], frame.get("payload") or {})
                told = asyncio.ensure_future(wire.events.get())
        finally:
            over.cancel()
            told.cancel()

    async def _event(self, wire: ScreenConnection, event: str, payload: Mapping[str, Any]) -> None:
        if event.endswith(".approval.requested"):
            await self._tell(ScreenChange(asked=payload))
        elif event.endswith(".approval.resolved"):
            await self._tell(ScreenChange(answered=str(payload.get("id"))))
        elif payload.get("sessionKey") != self.session:
            return
        elif event == "sessions.changed":
            await self._changed(wire, payload)
        else:
            stale = self.talk.stale
            blocks = self.talk.feed(event, payload)
            over = event == "chat" and payload.get("state") != "delta"
            await self._tell(ScreenChange(blocks))
            if over and stale and not (payload.get("message") or {}).get("command"):
                await self._read(wire)
            elif over:
                if await self._look(wire):  # what the command that began the session anew had to say
                    await self._tell(ScreenChange(blocks))
                await self._priced(wire)

    async def _changed(self, wire: ScreenConnection, payload: Mapping[str, Any]) -> bool:
        """Its row is another. Returns whether the session began anew."""
        row = payload.get("session") or {}
        begun, asked = self.row.get("sessionId") not in (None, row.get("sessionId")), self._said.startswith("/")
        if not row or (begun and not asked and "sessionKey" not in payload):  # a look overtook the event that says why
            return False
        self.row = dict(row)
        if begun:
            if payload.get("phase") == "start" and not asked:  # a run began it; here nobody asked
                self._anew = str(row.get("sessionId"))
            await self._read(wire)
        else:
            await self._tell(ScreenChange())
        return begun

    async def _look(self, wire: ScreenConnection) -> bool:
        """A run or a command may have changed what applies to the session. Returns whether it began anew."""
        return await self._changed(wire, await wire.call("sessions.describe", {"key": self.session}))

    async def _priced(self, wire: ScreenConnection) -> None:
        """What the session has cost, and what it is about; shown with the next change."""
        found = await wire.call("sessions.usage", {"key": self.session, "limit": 1})
        self.cost = float(found["totals"]["totalCost"])
        asked = {"search": self.session, "limit": 5, "includeDerivedTitles": True}
        rows = (await wire.call("sessions.list", asked)).get("sessions") or () if not self.title else ()
        titles = [str(row.get("derivedTitle") or "") for row in rows if row["key"] == self.session]
        self.title = next((one for one in titles if one != self.session), self.title)
        await self._tell(ScreenChange())

    # --- acts ------------------------------------------------------------------------------------------------

    async def send(self, text: str, pictures: Sequence[Mapping[str, Any]] = ()) -> None:
        """Say something. Goes out when there is a connection; a refusal is shown."""
        run, self._said = str(uuid.uuid4()), text
        await self._tell(ScreenChange([self.talk.send(run, text, self._clock.now())]))
        params: dict[str, Any] = {"sessionKey": self.session, "message": text, "idempotencyKey": run}
        params |= {"model": self._model} if self._model else {}
        self._tasks.start(self._sent(run, params | ({"attachments": list(pictures)} if pictures else {})))

    async def take_back(self) -> str:
        """The newest message that still waits, which is not sent then; "" if there is none."""
        found = self.talk.find_waiting()
        if found is None:
            return ""
        run, text = found
        done = await self.ask("chat.abort", {"sessionKey": self.session, "runId": run})
        if done is None or not done.get("aborted"):
            return ""
        await self._tell(ScreenChange(self.talk.mark(run, "failed")))
        return text

    async def read_again(self) -> None:
        """Show the session as it is on disk now."""
        if self._wire is not None:
            await self._read(self._wire)

    async def _sent(self, run: str, params: Mapping[str, Any]) -> None:
        talk = self.talk
        while True:
            await self._open.wait()
            try:
                assert self._wire is not None
                answer = await self._wire.call("chat.send", params)
                break
            except GatewayUnreachable:
                await self._clock.sleep(PAUSES[0])
            except PalinurusError as exc:
                await self._tell(ScreenChange([*talk.mark(run, "failed"), talk.note(exc.message, "error")]))
                return
        await self._tell(ScreenChange(talk.mark(run, "done" if "aborted" in answer else "waiting")))

    async def stop(self) -> bool:
        """Stop what runs. False if nothing does."""
        if not self.talk.run:
            return False
        await self.ask("chat.abort", {"sessionKey": self.session})
        return True

    async def decide(self, ident: str, decision: str) -> None:
        """Answer a question."""
        family = "plugin" if ident.startswith("plugin:") else "exec"
        done = await self.ask(f"{family}.approval.resolve", {"id": ident, "decision": decision})
        if done is not None:
            note = done.get("note") or {"deny": "denied", "allow-always": "always allowed"}.get(
                decision, "allowed once"
            )
            await self._tell(ScreenChange([self.talk.note(str(note))], answered=ident))

    async def patch(self, **changes: Any) -> None:
        """Change what applies to the session; None clears."""
        if "model" in changes:
            self._model = ""
        done = await self.ask("sessions.patch", {"key": self.session, **changes})
        if done is not None and self._wire is not None:
            await self._look(self._wire)

    async def sessions(self) -> list[dict[str, Any]]:
        """Newest first."""
        found = await self.ask("sessions.list", {"limit": 100, "includeDerivedTitles": True})
        return list(found["sessions"]) if found is not None else []

    async def search(self, words: str) -> list[dict[str, Any]]:
        """What was said, in any session; newest first."""
        found = await self.try_ask("sessions.search", {"query": words, "limit": 50})
        return list(found["hits"]) if found is not None else []

    async def agents(self) -> list[str]:
        """The ids of the other agents."""
        found = await self.ask("agents.list", {})
        rows = found["agents"] if found is not None else []
        return [str(row["id"]) for row in rows if row["id"] != self._agent()]

    async def begin(self, agent: str = "") -> None:
        """A new session of the same agent, or another, and go there."""
        place = {"folder": self.row["folder"]} if self.row.get("folder") else {}
        made = await self.ask("sessions.create", {"agentId": agent or self._agent(), **place})
        if made is not None:
            await self.go(made["key"])

    async def go(self, session: str) -> None:
        """To another session."""
        if session == self.session or self._wire is None:
            return
        await self.ask("sessions.messages.unsubscribe", {"key": self.session})
        self.session, self.talk, self.row, self.title = session, ScreenConversation(), {}, ""
        try:
            await self._read(self._wire)
        except PalinurusError as exc:
            await self._tell(ScreenChange([self.talk.note(exc.message, "error")], fresh=True))

    async def ask(self, method: str, params: Mapping[str, Any]) -> Any:
        """The answer; None, and a line on the screen, when there is none."""
        try:
            if self._wire is None:
                raise GatewayUnreachable("the gateway cannot be reached just now")
            return await self._wire.call(method, params)
        except PalinurusError as exc:
            await self._tell(ScreenChange([self.talk.note(exc.message, "error")]))
            return None

    async def try_ask(self, method: str, params: Mapping[str, Any]) -> Any:
        """As `ask`, for what is only nice to know: a refusal is None and is not shown."""
        try:
            return await self._wire.call(method, params) if self._wire is not None else None
        except PalinurusError:
            return None

    def _agent(self) -> str:
        key = parse_session_key(self.session)
        return key.agent if key is not None else ""
