"""The canvases of all sessions: one record each, on disk before anybody is told; the addresses that open them; and
scripts that wait for their answer.

After `kill -9` the record says what was shown, and pages that come back draw it again; what waited for an answer is
told as unknown by the run. An address is a capability: the record's name, an end, and a MAC under the record's own
secret. It opens one session's canvas until then, on every node of this state; hiding and resetting change the secret.
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import os
import secrets
from collections.abc import Callable
from typing import Any

import msgspec

from palinurus.core.canvas import MAX_RESULT, A2uiMessage
from palinurus.core.types.tool import ToolFailure
from palinurus.core.window import SlidingWindow
from palinurus.store.records import Records
from palinurus.tools.canvas.offer import KIND, CanvasNews, CanvasOffer

LASTS = 3_600_000  # milliseconds that an address opens something; a page asks for a new one when it draws again
ACTIONS, WINDOW = 20, 60.0  # actions of one canvas in so many seconds
NOBODY = "nobody has the canvas open in the web page"
FOLDER = "canvas"  # of the workspace: pages may use the files in it


class CanvasState(msgspec.Struct, frozen=True, omit_defaults=True):
    """What a session shows. `taint`: where words in it may have come from. A reset session shows nothing."""

    session: str
    conversation: str  # the session's id when it was presented
    secret: str
    revision: int = 0  # grows with every change
    shown: bool = False
    title: str = ""
    html: str = ""
    path: str = ""  # of the folder: where `html` stands; "": it came as text
    root: str = ""  # a real folder, and the one below it whose files pages may use
    folder: str = ""
    surfaces: bool = False  # A2UI instead of `html`
    messages: tuple[A2uiMessage, ...] = ()
    taint: tuple[str, ...] = ()


class CanvasBoard:
    """One per program."""

    def __init__(self, offer: CanvasOffer) -> None:
        self.offer = offer
        self._records = Records(offer.store, KIND, CanvasState)
        self._waiting: dict[str, tuple[str, asyncio.Future[dict[str, Any]]]] = {}  # id -> session, answer
        self._viewers: dict[str, set[str]] = {}  # session -> connections that drew it
        self._pace = SlidingWindow(ACTIONS, WINDOW, 1024)

    # what is shown

    async def find(self, session: str) -> CanvasState | None:
        """What a session's present conversation shows or last showed. Raises StateError kinds."""
        return await self._check(await self._records.get(name_record(session)))

    async def find_named(self, name: str) -> CanvasState | None:
        """The same by the name of its record."""
        return await self._check(await self._records.get(name))

    async def change(
        self, session: str, make: Callable[[CanvasState], CanvasState], action: str, **told: Any
    ) -> CanvasState:
        """Write what `make` makes of the canvas; then everybody hears of it. Raises StateError kinds."""
        row = await self.offer.store.session(session)
        conversation = row.session_id if row is not None else ""
        fresh = CanvasState(session, conversation, secrets.token_hex(16))

        def update(old: CanvasState | None) -> CanvasState:
            known = old if old is not None and old.conversation == conversation else None
            before = known or msgspec.structs.replace(fresh, revision=old.revision if old else 0)
            return msgspec.structs.replace(make(before), revision=before.revision + 1)

        state = await self._records.update(name_record(session), update)
        assert state is not None
        self.offer.tell(CanvasNews(session, action, {"revision": state.revision, **told}))
        return state

    async def _check(self, state: CanvasState | None) -> CanvasState | None:
        if state is None:
            return None
        row = await self.offer.store.session(state.session)
        return state if (row.session_id if row is not None else "") == state.conversation else None

    async def sweep(self) -> None:
        """What conversations showed that are gone goes, too. Raises StateError kinds."""
        for name, state in (await self._records.all()).items():
            if await self._check(state) is None:
                await self._records.swap(name, state, None)

    def find_root(self, workspace: str) -> tuple[str, str]:
        """(`root`, `folder`) for pages of this workspace. A folder of the workspace is opened from there: commands of
        the agent could make it a link to anywhere. One that the owner named elsewhere is taken as it is."""
        wanted = os.path.expanduser(self.offer.settings.canvas.root)
        root = os.path.realpath(workspace)
        return (os.path.realpath(wanted), "") if os.path.isabs(wanted) else (root, (wanted or FOLDER).strip("/"))

    # addresses

    def make_address(self, state: CanvasState) -> tuple[str, int]:
        """(the path below the page's base that opens this canvas, until when in milliseconds)."""
        until = self.offer.clock.now() + LASTS
        name = name_record(state.session)
        where = "a2ui/" if state.surfaces else f"canvas/{state.path}"
        return f"/__openclaw__/cap/{name}.{until:x}.{_sign(state.secret, name, until)}/__openclaw__/{where}", until

    async def open_address(self, token: str) -> CanvasState | None:
        """The canvas that the capability opens now; None for every other. Raises StateError kinds."""
        name, _, rest = token.partition(".")
        end, _, mac = rest.partition(".")
        try:
            until = int(end, 16)
        except ValueError:
            return None
        state = await self.find_named(name)
        right = state is not None and hmac.compare_digest(_sign(state.secret, name, until), mac)
        return state if right and until > self.offer.clock.now() else None

    # who looks

    def add_viewer(self, session: str, conn: str) -> None:
        """This connection draws the canvas from now on; it is asked when a script shall run in it."""
        self._viewers.setdefault(session, set()).add(conn)

    def list_viewers(self, session: str, connected: set[str]) -> set[str]:
        """Those of the connected that draw it; the others are forgotten."""
        found = self._viewers.get(session, set()) & connected
        self._viewers[session] = found
        return found

    def take_action(self, session: str) -> float:
        """Count one; seconds to wait if there were too many."""
        return self._pace.count(session, self.offer.clock.monotonic())

    # scripts

    async def evaluate(self, session: str, code: str, seconds: float) -> tuple[Any, str]:
        """What a script gave back in the page that a person has open, and whose word that is, if not the owner's.
        Raises ToolFailure."""
        if not self.offer.listeners:
            raise ToolFailure(NOBODY)
        ident = secrets.token_hex(12)
        answer: asyncio.Future[dict[str, Any]] = asyncio.get_running_loop().create_future()
        self._waiting[ident] = (session, answer)
        try:
            self.offer.tell(CanvasNews(session, "eval", {"id": ident, "javaScript": code}))
            async with asyncio.timeout(seconds):
                told = await answer
        except TimeoutError:
            raise ToolFailure(
                f"no answer in {seconds:g} s: what the script has done by then is done (is the page still open?)"
            ) from None
        finally:
            del self._waiting[ident]
        if not told["ok"]:  # what fails is told in words of ours
            raise ToolFailure("the script failed" + ("" if told["source"] else f": {str(told['value'])[:2000]}"))
        return told["value"], told["source"]

    def refuse(self, ident: str) -> None:
        """Nobody can run it."""
        if ident in self._waiting:
            self.answer(ident, self._waiting[ident][0], ok=False, value=NOBODY)

    def answer(self, ident: str, session: str, *, ok: bool, value: str | None, source: str = "") -> bool:
        """A page's answer; the first one counts. False if nobody waits for it, or for one of another session."""
        asked, waiting = self._waiting.get(ident, ("", None))
        if waiting is None or asked != session or waiting.done():
            return False
        shown = value[:MAX_RESULT] if value is not None else None
        waiting.set_result({"ok": ok, "value": shown, "source": source})
        return True


def name_record(session: str) -> str:
    """The record of a session's canvas; it says nothing of the session to who sees it in an address."""
    return hashlib.sha256(session.encode()).hexdigest()[:24]


def _sign(secret: str, name: str, until: int) -> str:
    return hmac.new(secret.encode(), f"{name}.{until:x}".encode(), hashlib.sha256).hexdigest()[:40]
