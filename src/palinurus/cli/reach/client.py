"""One way to talk to the agent, wherever it runs: through a running gateway, or with an App in this process.

Both give the same: run events as they happen, then one `Outcome`.
"""

from __future__ import annotations

import threading
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from typing import Any, Protocol, TypeAlias, TypeVar
from urllib.parse import quote

import msgspec

from palinurus.cli.main import PARTS, load_part
from palinurus.cli.reach import http
from palinurus.clock import Clock
from palinurus.config.load import LoadedConfig
from palinurus.config.settings import Settings
from palinurus.core.types.events import RunEvent
from palinurus.core.types.inbound import TurnBounds
from palinurus.core.types.usage import TokenUsage
from palinurus.errors import (
    BadRequest,
    DiskFull,
    GatewayUnreachable,
    NotFound,
    PalinurusError,
    QueueFull,
    StateLocked,
    Unauthorized,
)
from palinurus.gateway.token import find_location
from palinurus.patterns import decode_late

TRIES = 20  # a gateway that restarts is asked again for the outcome, half a second apart
PAUSE = 0.5
SERVING = ("agent", "chat", "print")  # commands that serve the state they hold, once they last
T = TypeVar("T")


class CliMessage(msgspec.Struct, frozen=True):
    """What to say, and where."""

    text: str
    session: str  # a whole key
    agent: str
    model: str = ""
    thinking: str = ""
    schema: dict[str, Any] | None = None  # the answer must be JSON that fits it
    folder: str = ""  # where the session works, if it begins with this message
    unattended: bool = False  # nobody is here to answer what the run asks leave for
    mode: str = ""  # the permission mode of this turn alone
    system: str = ""  # added to the system prompt
    bounds: TurnBounds = TurnBounds()
    files: tuple[dict[str, str], ...] = ()  # fileName, mimeType and content (base64), as the page sends them


class CliOutcome(msgspec.Struct, frozen=True):
    """How a message ended. `error` is "" when it was answered."""

    id: str
    session: str
    outcome: str
    text: str
    usage: TokenUsage = TokenUsage()
    error: str = ""


class AgentClient(Protocol):
    """Somebody to talk to. `alone`: in this process, nobody else can answer what is asked there."""

    where: str
    alone: bool

    def send(self, message: CliMessage) -> AsyncIterator[RunEvent | CliOutcome]:
        """Events of the run, last an Outcome. Raises PalinurusError when the message is not accepted."""
        ...

    async def abort(self, session: str) -> None:
        """Stop the running turn of a session."""
        ...

    async def close(self) -> None: ...


Start: TypeAlias = Callable[[LoadedConfig, Mapping[str, str], Clock], Awaitable[AgentClient]]


async def connect_agent(
    loaded: LoadedConfig, environ: Mapping[str, str], clock: Clock, *, local: bool = False
) -> AgentClient:
    """A running gateway if there is one (and `local` is not asked for), else the program in this process.

    Raises StateLocked when a gateway holds the state but cannot be used, ConfigError, StateError.
    """
    if local:
        found = await http.is_gateway_alive(http.find_gateway_address(loaded.settings))
    else:
        found = await http.is_gateway_running(loaded.settings)
    if not found or local:
        # what a run must know of this machine is found out beside everything else, in processes of its own
        look: Callable[[], object] = load_part(PARTS["probe"])  # type: ignore[assignment]
        threading.Thread(target=look, name="probe", daemon=True).start()
        start: Start = load_part(PARTS["local"])  # type: ignore[assignment]
        try:
            if local:
                return await start(loaded, environ, clock)
            own = await start_unless_served(lambda: start(loaded, environ, clock), loaded.settings, clock)
        except StateLocked as exc:
            fix = "leave out --local: the running gateway answers" if found else exc.fix
            raise StateLocked(exc.message, fix=fix) from None
        if own is not None:
            return own
    place = find_location(loaded.settings.home) if loaded.settings.gateway.mode == "local" else None

    async def take_over() -> CloseableHouse:
        serve: Any = load_part(PARTS["own"])
        house: CloseableHouse = await serve(loaded, environ, clock)
        return house

    chat = place is not None and place.chat
    return HttpAgentClient(
        lambda: http.find_gateway_address(loaded.settings), clock, take_over=take_over if chat else None
    )


async def start_unless_served(start: Callable[[], Awaitable[T]], settings: Settings, clock: Clock) -> T | None:
    """What `start` makes of the state; None if somebody serves it meanwhile, as chats and one-shot commands do when
    they last. Raises StateLocked for a state that stays somebody else's."""
    for left in range(TRIES, -1, -1):
        try:
            return await start()
        except StateLocked as exc:
            if not left or exc.command not in SERVING:
                raise
        await clock.sleep(PAUSE)
        if await http.is_gateway_running(settings):
            return None
    return None


class CloseableHouse(Protocol):
    """The program in this process, served like a gateway."""

    async def close(self) -> None: ...


class HttpAgentClient:
    """A running gateway, looked for anew with each request: one that restarted proves itself with another key. A chat
    or command that served us may end before our turn does: then we go on with it ourselves (`take_over`)."""

    alone = False

    def __init__(
        self,
        find: Callable[[], http.GatewayEndpoint],
        clock: Clock,
        *,
        take_over: Callable[[], Awaitable[CloseableHouse]] | None = None,
    ) -> None:
        self.where = f"gateway at {find().url}"
        self._find = find
        self._clock = clock
        self._take_over = take_over
        self._own: CloseableHouse | None = None

    async def send(self, message: CliMessage) -> AsyncIterator[RunEvent | CliOutcome]:
        headers = {
            "Content-Type": "application/json",
            "x-openclaw-session-key": message.session,
            "Idempotency-Key": str(uuid.uuid4()),  # asking again after a break can never send it twice
        }
        if message.model:
            headers["x-openclaw-model"] = message.model
        asked: dict[str, Any] = {
            "model": "openclaw",
            "stream": True,
            "messages": [{"role": "user", "content": message.text}],
        }
        if message.schema is not None:
            asked["response_format"] = {"type": "json_schema", "json_schema": {"schema": message.schema}}
        more = {"attachments": message.files, "mode": message.mode, "system": message.system, "folder": message.folder}
        asked |= {name: value for name, value in more.items() if value}
        if message.bounds != TurnBounds():
            asked["bounds"] = message.bounds
        body = msgspec.json.encode({**asked, "reasoning_effort": message.thinking or None})
        for left in range(TRIES, 0, -1):
            try:
                async for piece in self._ask(body, headers, message):
                    yield piece
                    if isinstance(piece, CliOutcome):
                        return
            except (ConnectionError, GatewayUnreachable):
                if left == 1:
                    raise
                await self._step_in()
            await self._clock.sleep(PAUSE)
        raise GatewayUnreachable("the gateway broke off", fix="`pal status`; the message is kept")

    async def _ask(
        self, body: bytes, headers: dict[str, str], message: CliMessage
    ) -> AsyncIterator[RunEvent | CliOutcome]:
        """One request. Ends without an Outcome if the connection breaks off."""
        answer = await http.send_request(self._find(), "POST", "/reach/turn", body, headers=headers)
        try:
            if answer.status != 200:
                _refused(answer.status, await answer.read_body(), far=self._find().remote)
            ended: CliOutcome | None = None
            async for name, data in answer.events():
                if name == "run":
                    yield _decoder.decode(data)
                elif name == "outcome":
                    ended = msgspec.json.decode(data, type=CliOutcome)
                elif data == b"[DONE]":
                    if ended is not None:
                        yield ended
                    return
                elif not name and data.startswith(b'{"error":'):
                    ended = _failed(ended, message, _error(data))
                    if ended is None:
                        return
        finally:
            answer.close()

    async def abort(self, session: str) -> None:
        answer = await http.send_request(self._find(), "POST", f"/sessions/{quote(session, safe='')}/kill")
        await answer.read_body()
        answer.close()

    async def _step_in(self) -> None:
        """Nobody serves any more: the state is on disk, and whoever has its lock goes on with the turn."""
        if self._take_over is None or self._own is not None or await http.is_gateway_alive(self._find()):
            return
        try:
            self._own = await self._take_over()
        except StateLocked:
            pass  # another one was faster, and will be found

    async def close(self) -> None:
        if self._own is not None:
            await self._own.close()


_decoder: msgspec.json.Decoder[Any] = decode_late(RunEvent)


def _failed(ended: CliOutcome | None, message: CliMessage, error: Mapping[str, Any]) -> CliOutcome | None:
    """The outcome with its reason. None if the gateway only stops: the message goes on, ask again."""
    if error.get("code") == "draining":
        return None
    ended = ended or CliOutcome("", message.session, "failed", "")
    return msgspec.structs.replace(ended, error=str(error.get("message") or "failed"))


def _error(data: bytes) -> Mapping[str, Any]:
    try:
        found = msgspec.json.decode(data)["error"]
        return found if isinstance(found, dict) else {}
    except (msgspec.DecodeError, KeyError, TypeError):
        return {"message": data[:200].decode("utf-8", "replace")}


_REFUSALS: dict[int, type[PalinurusError]] = {404: NotFound, 429: QueueFull, 507: DiskFull}


def _refused(status: int, data: bytes, *, far: bool) -> None:
    error = _error(data)
    text = str(error.get("message") or f"the gateway answered {status}")
    if error.get("code") == "draining":
        raise ConnectionResetError(text)
    if status in (401, 403):
        fix = http.NOT_LET_IN_THERE.format("token", "token") if far else http.NOT_LET_IN
        raise Unauthorized(f"the gateway refused us: {text}", fix=fix)
    message, _, fix = text.partition("\n  fix: ")
    raise _REFUSALS.get(status, PalinurusError if status >= 500 else BadRequest)(message, fix=fix)
