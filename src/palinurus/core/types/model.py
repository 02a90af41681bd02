"""Models: the facts about one, the request, the events of a stream, and the port.

The stream contract, for every provider: events in order, the last one is `StreamDone` or `StreamFailed`,
nothing is ever raised, and nothing comes after the last one.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Sequence
from functools import lru_cache
from typing import Any, Literal, Protocol, TypeAlias, TypeVar

import msgspec

from palinurus.core.types.keys import ModelRef
from palinurus.core.types.messages import AssistantMessage, Message
from palinurus.core.types.tool import ToolSpec
from palinurus.core.types.usage import TokenCost, TokenUsage

T = TypeVar("T")


class TokenPrice(msgspec.Struct, frozen=True):
    """US dollars per million tokens."""

    input: float = 0.0
    output: float = 0.0
    cacheRead: float = 0.0
    cacheWrite: float = 0.0
    above: int = 0  # a call with more input tokens than this …
    long: TokenPrice | None = None  # … has these prices

    def compute_cost(self, usage: TokenUsage) -> TokenCost:
        """Dollars for one call."""
        price = self
        if self.long is not None and usage.input + usage.cacheRead + usage.cacheWrite > self.above:
            price = self.long
        parts = (
            usage.input * price.input / 1e6,
            usage.output * price.output / 1e6,
            usage.cacheRead * price.cacheRead / 1e6,
            usage.cacheWrite * price.cacheWrite / 1e6,
        )
        return TokenCost(*parts, sum(parts))


class ModelSpec(msgspec.Struct, frozen=True):
    """All that is known about one model, merged from the vendor's file and the config. Resolved once."""

    ref: ModelRef
    api: str
    base_url: str = ""
    name: str = ""
    reasoning: bool | None = False  # None: nobody has said
    vision: bool = False
    tools: bool = True
    context_window: int = 200_000
    max_tokens: int = 8192
    price: TokenPrice | None = None
    headers: dict[str, str] = {}
    compat: dict[str, Any] = {}
    params: dict[str, Any] = {}  # agents.defaults.models["p/m"].params and models.providers.*.models[].params
    timeout: float | None = None  # models.providers.<id>.timeoutSeconds


class PromptPart(msgspec.Struct, frozen=True):
    """One section of a prompt as it was rendered: its size, and on which side of the cache boundary it lies."""

    name: str
    chars: int
    stable: bool


def _put(stable: str, volatile: str) -> str:
    return f"{stable}\n\n{volatile}" if volatile else stable


KEPT = 8192  # characters below the boundary with which the whole is kept
_join = lru_cache(8)(_put)  # one object for all requests that are alike: it is encoded once


class Prompt(msgspec.Struct, frozen=True):
    """The system prompt. `stable` is byte-equal from turn to turn; the cache boundary lies between the two."""

    stable: str
    volatile: str = ""
    parts: tuple[PromptPart, ...] = ()  # in order, a blank line between each two; () when nobody counted

    @property
    def text(self) -> str:
        return _join(self.stable, self.volatile) if len(self.volatile) <= KEPT else _put(self.stable, self.volatile)


class ModelRequest(msgspec.Struct, frozen=True):
    """One model call. Pure data; a wire codec turns it into a body."""

    model: ModelSpec
    prompt: Prompt
    messages: Sequence[Message]
    tools: tuple[ToolSpec, ...] = ()
    level: str = "off"  # resolved thinking level
    fast: bool | None = None  # None: never set, nothing is sent
    max_tokens: int | None = None
    temperature: float | None = None
    top_p: float | None = None
    stop: tuple[str, ...] = ()
    seed: int | None = None
    tool_choice: str | dict[str, Any] | None = None
    schema: dict[str, Any] | None = None  # what is written must fit it, where the server can hold a model to that
    session: str = ""  # stable id for prompt_cache_key and the like
    owner: str = ""  # the session key: whose budget pays
    profile: str = ""  # the auth profile the person chose for the session; others only while it rests
    fallback: bool = False  # another model stands behind this one: keys that rest are left alone
    fast_until: int | None = None  # wall clock in ms from when a further try of this call is not fast ("auto")


# --- what a stream yields -------------------------------------------------------------------------------------


class TextDelta(msgspec.Struct, frozen=True, tag="text_delta"):
    text: str


class ThinkingDelta(msgspec.Struct, frozen=True, tag="thinking_delta"):
    text: str


class CallStart(msgspec.Struct, frozen=True, tag="call_start"):
    """A tool call has begun; `index` counts calls of this message from 0."""

    index: int
    id: str
    name: str


class CallDelta(msgspec.Struct, frozen=True, tag="call_delta"):
    """A piece of the call's argument JSON."""

    index: int
    json: str


FailureKind: TypeAlias = Literal[
    "auth",  # 401/403: this key does not work
    "billing",  # out of credit
    "rate_limit",  # 429
    "overloaded",  # 529, 503
    "server",  # other 5xx
    "timeout",  # connect, first byte or idle
    "network",  # refused, DNS, TLS, cut before anything came
    "cut",  # the stream ended without its end
    "overflow",  # the context does not fit
    "format",  # the provider refused our request (400): our fault
    "not_found",  # no such model
    "malformed",  # what came is not the protocol
    "refused",  # content policy
    "aborted",  # somebody stopped it
    "config",  # no key, unknown provider
    "budget",  # the person's own limit is reached
]


class ModelFailure(msgspec.Struct, frozen=True):
    """Why a call failed. `message` is short, safe to show, free of secrets."""

    kind: FailureKind
    message: str
    status: int = 0
    retry_after: float | None = None  # seconds, as the provider asked
    partial: bool = False  # True when text had already been streamed
    rotate: bool = False  # the provider has another key that may do better: the same call is worth another try


class StreamDone(msgspec.Struct, frozen=True, tag="done"):
    message: AssistantMessage


class StreamFailed(msgspec.Struct, frozen=True, tag="failed"):
    """`message` holds what had arrived, stopReason error or aborted; its tool calls are never run."""

    failure: ModelFailure
    message: AssistantMessage


class StreamRetry(msgspec.Struct, frozen=True, tag="retrying"):
    """Nothing was shown yet; the call is made again after `wait` seconds."""

    failure: ModelFailure
    attempt: int
    wait: float


class StreamNotice(msgspec.Struct, frozen=True, tag="notice"):
    """Something the person should know that is no part of the answer."""

    text: str


class StreamProgress(msgspec.Struct, frozen=True, tag="progress"):
    """Why nothing comes yet: the model answers somebody else, is being loaded (bytes; how many are done nobody says) or
    reads (tokens)."""

    stage: Literal["waiting", "loading", "reading"]
    total: int = 0
    done: int = 0
    seconds: int = 0  # since that began


ModelEvent: TypeAlias = (
    TextDelta
    | ThinkingDelta
    | CallStart
    | CallDelta
    | StreamProgress
    | StreamRetry
    | StreamNotice
    | StreamDone
    | StreamFailed
)


class StopSignal(Protocol):
    """What ends a stream early. `palinurus.abort.Abort` is one."""

    @property
    def reason(self) -> str | None:
        """By what it was set; None: it is not."""
        ...

    def wait(self, thing: Awaitable[T], /) -> Awaitable[T]:
        """Await `thing`, interruptible. Raises Aborted."""
        ...


class Model(Protocol):
    """The port. Implementations: `providers.stream`, `providers.demo`, `testing.ScriptedModel`, cassettes."""

    def stream(self, request: ModelRequest, stop: StopSignal) -> AsyncIterator[ModelEvent]:
        """Events as they come; the last is StreamDone or StreamFailed. Never raises (a cancel of the task passes
        through).

        When `stop` is set the stream ends with StreamFailed of kind "aborted".
        """
        ...


class StreamDecoder(Protocol):
    """A wire's stream decoder: a machine without I/O. Same events however the bytes are cut."""

    def feed(self, data: bytes) -> list[ModelEvent]:
        """Take bytes, return the events they complete. After StreamDone or StreamFailed it returns []."""
        ...

    def close(self) -> list[ModelEvent]:
        """The stream has ended. Returns the rest; if StreamDone or StreamFailed had not come yet, that too."""
        ...


class SourceImage(msgspec.Struct, frozen=True):
    """A picture to go by."""

    mime: str
    data: bytes


class ImageOrder(msgspec.Struct, frozen=True):
    """A picture that is wanted of a model; "" where nothing was said. Without `model` the agent's own is asked."""

    prompt: str
    count: int = 1
    size: str = ""
    aspect: str = ""
    resolution: str = ""
    quality: str = ""
    format: str = ""
    background: str = ""
    images: tuple[SourceImage, ...] = ()
    model: str = ""
    timeout: float | None = None  # seconds
