"""One tab: its sessions, what it waits for, what it has said. Hears events; others wait here for what they change."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Coroutine
from typing import Any, Literal, TypeVar

import msgspec

from palinurus.clock import Clock
from palinurus.tasks import TaskSet
from palinurus.tools.browser.link import BrowserFault, DevtoolsLink
from palinurus.tools.browser.snapshot import PageSnapshot, RefBook

T = TypeVar("T")
KEPT_LINES = 200  # of the console
_LINE = 500


class ConsoleLine(msgspec.Struct, frozen=True):
    """One line of a page's console."""

    level: str
    text: str


class PagePrompt(msgspec.Struct, frozen=True):
    """Something that stands before the page until it is answered: a dialog, or the question for name and password."""

    kind: str  # alert, confirm, prompt, beforeunload, auth
    text: str
    session: str
    request: str = ""  # auth: the request that waits
    url: str = ""  # auth: who asks


class PromptAnswer(msgspec.Struct, frozen=True):
    """How the next prompt is answered, or the present one."""

    accept: bool
    text: str = ""


class FileChooser(msgspec.Struct, frozen=True):
    """The page asked for files."""

    session: str
    node: int


class PromptOpened(Exception):
    """A prompt came in the way."""


class BrowserTab:
    """Sessions: `session` is the page's own, `inner` are those of frames that live in processes of their own."""

    def __init__(self, link: DevtoolsLink, ident: str, target: str, session: str, *, clock: Clock) -> None:
        self.link = link
        self.clock = clock
        self.id = ident
        self.target = target
        self.session = session
        self.owner = ""  # the session of ours it belongs to
        self.url, self.title = "about:blank", ""
        self.inner: dict[str, str] = {}  # frame -> session
        self.around: dict[str, str] = {}  # session of such a frame -> the one it stands in
        self.ready = asyncio.Event()
        self.closed = False
        self.console: deque[ConsoleLine] = deque(maxlen=KEPT_LINES)
        self.refs = RefBook()
        self.last: PageSnapshot | None = None
        self.typed: list[str] = []  # what the model typed since the page came
        self.passwords: list[str] = []  # the same, into fields that show nothing
        self.prompt: PagePrompt | None = None
        self.answer: PromptAnswer | None = None  # for the next one
        self.answered: deque[str] = deque(maxlen=10)
        self.chooser: FileChooser | None = None
        self.files: tuple[str, ...] = ()  # for the next one
        self.loading: set[str] = set()
        self.states: dict[str, set[str]] = {}  # loader -> lifecycle events
        self.loader = ""
        self.dragged: dict[str, Any] | None = None
        self.fulfil: Callable[[dict[str, Any]], Coroutine[Any, Any, Any]] | None = None  # answers what it asks for
        self._waiting: set[asyncio.Future[None]] = set()
        self._tasks = TaskSet("a browser tab's work")

    async def send(self, method: str, params: dict[str, Any] | None = None, session: str = "") -> dict[str, Any]:
        """Ask the page, or another session of its. Raises BrowserFault."""
        if self.closed:
            raise BrowserFault(f"the tab {self.id} is closed")
        return await self.link.send(method, params, session or self.session)

    def start(self, work: Coroutine[Any, Any, Any]) -> None:
        """Work that goes on beside whoever began it."""
        self._tasks.start(_quietly(work))

    def stir(self) -> None:
        """Something changed: let those who wait look again."""
        for waiting in self._waiting:
            if not waiting.done():
                waiting.set_result(None)

    async def until(self, true: Callable[[], bool], seconds: float) -> bool:
        """Wait until `true()`, looking whenever something changed. False if that took too long."""
        try:
            async with asyncio.timeout(seconds):
                while not true():
                    waiting: asyncio.Future[None] = asyncio.get_running_loop().create_future()
                    self._waiting.add(waiting)
                    try:
                        await waiting
                    finally:
                        self._waiting.discard(waiting)
        except TimeoutError:
            return False
        return True

    async def run_guarded(self, work: Coroutine[Any, Any, T]) -> T:
        """The result of `work`. Raises PromptOpened if a prompt comes in its way. What the page was told already goes
        on there; nothing more of it is done, least of all after a person has been asked."""
        task = asyncio.ensure_future(work)
        blocked = asyncio.ensure_future(self.until(lambda: self.prompt is not None or self.closed, 3600))
        try:
            await asyncio.wait((task, blocked), return_when=asyncio.FIRST_COMPLETED)
            if task.done():
                return task.result()
            if self.closed:
                raise BrowserFault(f"the tab {self.id} was closed by its page")
            raise PromptOpened
        finally:
            blocked.cancel()
            if task.cancel():
                self.start(_awaited(task))  # it may have to tidy up

    async def wait_loaded(self, seconds: float, state: str = "load") -> bool:
        """Wait until the present document has reached `state`. False if that took too long."""
        return await self.until(lambda: self.prompt is not None or state in self.states.get(self.loader, ()), seconds)

    async def settle(self, seconds: float, pause: float = 0.15) -> None:
        """After an action: give the page a moment, and wait for what it began to load."""
        began = self.loader
        await self.until(lambda: self.prompt is not None or bool(self.loading) or self.loader != began, pause)
        if self.loading or self.loader != began:
            await self.until(lambda: self.prompt is not None or not self.loading, seconds)

    def note(self, level: str, text: str) -> None:
        """A line of the console."""
        self.console.append(ConsoleLine(level, " ".join(text.split())[:_LINE]))

    def close(self) -> None:
        """It is gone."""
        self.closed = True
        self.stir()
        self._tasks.cancel()

    # what the browser tells

    def hear(self, method: str, session: str, params: dict[str, Any]) -> None:
        """One event of one of its sessions."""
        heard = _EVENTS.get(method)
        if heard is not None:
            heard(self, session, params)
            self.stir()


async def _quietly(work: Coroutine[Any, Any, Any]) -> None:
    try:
        await work
    except BrowserFault:
        pass  # the page or the browser went away meanwhile


async def _awaited(task: asyncio.Future[Any]) -> None:
    await asyncio.wait((task,))
    if not task.cancelled():
        task.exception()  # nobody else wants to know


def _navigated(tab: BrowserTab, session: str, params: dict[str, Any]) -> None:
    frame = params["frame"]
    if session == tab.session and not frame.get("parentId"):
        tab.url, tab.loader = frame["url"] + frame.get("urlFragment", ""), frame["loaderId"]
        tab.states = {tab.loader: tab.states.get(tab.loader, set())}
        tab.refs.forget()
        tab.last = None
        tab.typed.clear()
        tab.passwords.clear()
        tab.chooser = None


def _moved_within(tab: BrowserTab, session: str, params: dict[str, Any]) -> None:
    if session == tab.session and params["frameId"] == tab.target:
        tab.url = params["url"]


def _lifecycle(tab: BrowserTab, session: str, params: dict[str, Any]) -> None:
    if session == tab.session and params["frameId"] == tab.target:
        tab.states.setdefault(params["loaderId"], set()).add(params["name"].lower())


def _loading(tab: BrowserTab, session: str, params: dict[str, Any]) -> None:
    tab.loading.add(params["frameId"])


def _loaded(tab: BrowserTab, session: str, params: dict[str, Any]) -> None:
    tab.loading.discard(params["frameId"])


def _console(tab: BrowserTab, session: str, params: dict[str, Any]) -> None:
    words = [str(one.get("value", one.get("description", one.get("type", "")))) for one in params.get("args", ())]
    tab.note({"warn": "warning"}.get(params["type"], params["type"]), " ".join(words))


def _exception(tab: BrowserTab, session: str, params: dict[str, Any]) -> None:
    details = params["exceptionDetails"]
    tab.note("error", str(details.get("exception", {}).get("description") or details.get("text", "")))


def _logged(tab: BrowserTab, session: str, params: dict[str, Any]) -> None:
    entry = params["entry"]
    tab.note(entry["level"], f"{entry['text']} {entry.get('url', '')}")


def _dialog(tab: BrowserTab, session: str, params: dict[str, Any]) -> None:
    _open_prompt(tab, PagePrompt(params["type"], params.get("message", ""), session))


def _dialog_gone(tab: BrowserTab, session: str, params: dict[str, Any]) -> None:
    tab.prompt = None


def _open_prompt(tab: BrowserTab, prompt: PagePrompt) -> None:
    tab.prompt = prompt
    answer, tab.answer = tab.answer, None
    if prompt.kind == "beforeunload" and answer is None:
        answer = PromptAnswer(True)  # leaving is what was asked for
    if answer is not None:
        tab.start(answer_prompt(tab, answer))


async def answer_prompt(tab: BrowserTab, answer: PromptAnswer) -> None:
    """Answer what stands before the page. Raises BrowserFault."""
    prompt, tab.prompt = tab.prompt, None
    if prompt is None:
        return
    tab.answered.append(f"{prompt.kind}: {prompt.text[:200]!r} was {'accepted' if answer.accept else 'dismissed'}")
    if prompt.kind == "auth":
        name, _, password = answer.text.partition(":")
        told = (
            {"response": "ProvideCredentials", "username": name, "password": password}
            if answer.accept
            else {"response": "CancelAuth"}
        )
        await tab.send(
            "Fetch.continueWithAuth", {"requestId": prompt.request, "authChallengeResponse": told}, prompt.session
        )
        return
    more = {"promptText": answer.text} if answer.text else {}
    await tab.send("Page.handleJavaScriptDialog", {"accept": answer.accept, **more}, prompt.session)


def _chooser(tab: BrowserTab, session: str, params: dict[str, Any]) -> None:
    tab.chooser = FileChooser(session, int(params.get("backendNodeId") or 0))
    if tab.files:
        files, tab.files = tab.files, ()
        tab.start(give_files(tab, files))


async def give_files(tab: BrowserTab, files: tuple[str, ...]) -> None:
    """To the page that asked for them. Raises BrowserFault."""
    chooser, tab.chooser = tab.chooser, None
    if chooser is not None and chooser.node:
        await tab.send("DOM.setFileInputFiles", {"files": list(files), "backendNodeId": chooser.node}, chooser.session)


def _dragged(tab: BrowserTab, session: str, params: dict[str, Any]) -> None:
    tab.dragged = params["data"]


def _paused(tab: BrowserTab, session: str, params: dict[str, Any]) -> None:
    """Documents stop here on their way out: only the web is opened, whoever asks."""
    if tab.fulfil is not None:
        tab.start(tab.fulfil(params))
        return
    request = params["requestId"]
    web = params["request"]["url"].lower().startswith(("http://", "https://", "data:", "blob:", "about:"))
    how: Literal["Fetch.continueRequest", "Fetch.failRequest"] = "Fetch.continueRequest" if web else "Fetch.failRequest"
    tab.start(tab.send(how, {"requestId": request, **({} if web else {"errorReason": "BlockedByClient"})}, session))


def _asks_password(tab: BrowserTab, session: str, params: dict[str, Any]) -> None:
    challenge = params["authChallenge"]
    text = f"{challenge.get('origin', '')} asks for a name and a password ({challenge.get('realm', '')[:100]})"
    asker = str(challenge.get("origin", ""))
    _open_prompt(tab, PagePrompt("auth", text, session, request=params["requestId"], url=asker))


_EVENTS: dict[str, Callable[[BrowserTab, str, dict[str, Any]], None]] = {
    "Page.frameNavigated": _navigated,
    "Page.navigatedWithinDocument": _moved_within,
    "Page.lifecycleEvent": _lifecycle,
    "Page.frameStartedLoading": _loading,
    "Page.frameStoppedLoading": _loaded,
    "Page.javascriptDialogOpening": _dialog,
    "Page.javascriptDialogClosed": _dialog_gone,
    "Page.fileChooserOpened": _chooser,
    "Runtime.consoleAPICalled": _console,
    "Runtime.exceptionThrown": _exception,
    "Log.entryAdded": _logged,
    "Input.dragIntercepted": _dragged,
    "Fetch.requestPaused": _paused,
    "Fetch.authRequired": _asks_password,
}
