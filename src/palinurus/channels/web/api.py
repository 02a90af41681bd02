"""Calls of a platform's HTTP API with a token that is renewed, what its errors mean for a reply, and files behind its
addresses (through the one gate for outgoing fetches). Raises nothing but what `FetchFile` may. Knows no platform: what
one says is a row of `ApiFacts`.
"""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from typing import Any, TypeAlias

import aiohttp
import msgspec

from palinurus.channels.intake import FileUnavailable, RemoteFile
from palinurus.channels.kit import ChannelFile, ChannelKit, decode_object, read_seconds
from palinurus.clock import Clock
from palinurus.config.secrets import Secret
from palinurus.core.policy.address import AddressRefusal, OpenHosts, UrlParts, parse_url
from palinurus.core.types.channel import SendFailure, SendTrouble
from palinurus.tools.web.egress import EgressGuard, FetchFailure, FetchLimits, FetchRequest

LARGE = 16 * 1024 * 1024  # bytes of an answer that are read
WHEN = 30.0  # seconds to wait when a platform limits without saying how long
FILE_SECONDS = 120.0
EARLY = 60_000  # milliseconds before its end at which a token counts as old


def read_mapping(value: Any) -> Mapping[str, Any]:
    """An object of a payload; {} if there is none in that place."""
    return value if isinstance(value, Mapping) else {}


def read_rows(value: Any) -> list[Mapping[str, Any]]:
    """The objects of a list of a payload; [] if there is none in that place."""
    return [one for one in value if isinstance(one, Mapping)] if isinstance(value, list) else []


# An HTTP status where the body says nothing better. What is not here: 5xx nobody knows, 4xx never.
STATUSES: dict[int, SendTrouble] = {
    401: "signed_out", 403: "gone", 404: "gone", 410: "gone", 413: "long", 415: "media", 429: "limited", 503: "down",
}  # fmt: skip


class ApiFacts(msgspec.Struct, frozen=True):
    """How one platform answers. `read_error` finds its code and its words in a body. `strict`: it says 200 to what went
    wrong, and a code that is neither "" nor "0" is an error."""

    label: str  # for people
    read_error: Callable[[Mapping[str, Any]], tuple[str, str]]
    codes: Mapping[str, SendTrouble] = {}
    statuses: Mapping[int, SendTrouble] = {}  # where they differ from STATUSES
    words: Mapping[str, str] = {}  # what a person can do about a code
    strict: bool = False
    fine: frozenset[int] = frozenset()  # statuses from 300 on that are an answer too
    wait: str = "Retry-After"  # the header that says how long to wait


def make_upload_form(fields: Mapping[str, str], name: str, file: ChannelFile) -> aiohttp.FormData:
    """A form with one file, under its own name: aiohttp would write `ü` as `%C3%BC`, and people would read that."""
    form = aiohttp.FormData(fields, quote_fields=False)
    shown = "".join(char if char.isprintable() else "_" for char in file.name)
    form.add_field(name, file.data, filename=shown, content_type=file.mime or "application/octet-stream")
    return form


class TokenGrant(msgspec.Struct, frozen=True):
    """A token, and for how many seconds it is good."""

    token: Secret
    seconds: float


# The headers that prove who we are, or why there are none.
Authorize: TypeAlias = Callable[[], Awaitable[dict[str, str] | SendFailure]]
GrantToken: TypeAlias = Callable[[], Awaitable[TokenGrant | SendFailure]]
# A form is used up by sending it: where a token may be renewed in between, what makes one is given.
CallBody: TypeAlias = Mapping[str, Any] | aiohttp.FormData | Callable[[], aiohttp.FormData] | bytes | None


def authorize_bearer(token: Secret) -> Authorize:
    """For a token that does not change."""

    async def give() -> dict[str, str] | SendFailure:
        return {"Authorization": f"Bearer {token.reveal()}"}

    return give


def make_basic_header(user: str, word: Secret) -> dict[str, str]:
    """A name and a password, as RFC 7617 writes them."""
    return {"Authorization": f"Basic {base64.b64encode(f'{user}:{word.reveal()}'.encode()).decode()}"}


def authorize_basic(user: str, word: Secret) -> Authorize:
    """For a name and a password."""

    async def give() -> dict[str, str] | SendFailure:
        return make_basic_header(user, word)

    return give


class RenewedToken:
    """Implements `Authorize` with a token that is asked for when the last one is old, or was refused."""

    def __init__(self, grant: GrantToken, clock: Clock) -> None:
        self._grant = grant
        self._clock = clock
        self._held: Secret | None = None
        self._until = 0
        self._turn = asyncio.Lock()  # one buys for all who wait

    async def __call__(self) -> dict[str, str] | SendFailure:
        async with self._turn:
            if self._held is None or self._clock.now() >= self._until:
                found = await self._grant()
                if isinstance(found, SendFailure):
                    return found
                self._held, self._until = found.token, self._clock.now() + int(found.seconds * 1000) - EARLY
            return {"Authorization": f"Bearer {self._held.reveal()}"}

    def drop(self, proof: dict[str, str]) -> None:
        """This one is not taken. Who used it late drops no newer one."""
        if self._held is not None and proof.get("Authorization") == f"Bearer {self._held.reveal()}":
            self._held = None


class HttpApi:
    """One platform's API with one account. `base` is where it is; the owner may have written it into the config, so it
    may be a private address, and nothing else is opened by it."""

    def __init__(
        self, facts: ApiFacts, base: str, authorize: Authorize | None = None, *, also: tuple[str, ...] = ()
    ) -> None:
        """`also`: further addresses that are the platform's own, and may be shown our token."""
        self.facts = facts
        self.base = base.rstrip("/")
        self._authorize = authorize
        self._http: aiohttp.ClientSession | None = None
        parts = (parse_url(one) for one in (self.base, *also))
        self._ours = OpenHosts(frozenset(one.entry for one in parts if isinstance(one, UrlParts)))

    def use(self, http: aiohttp.ClientSession) -> None:
        """Its connections are used while it is open; else each call has its own."""
        self._http = http

    async def call(
        self,
        method: str,
        path: str,
        body: CallBody = None,
        *,
        query: Mapping[str, str] | None = None,
        headers: Mapping[str, str] | None = None,
        seconds: float = 30.0,
    ) -> dict[str, Any] | SendFailure:
        """The answer (a list under `rows`), or what went wrong. A mapping goes as JSON. `path` may be a whole address.
        A token that is refused is renewed once."""
        for _ in range(2):
            own = await self._authorize() if self._authorize is not None else {}
            if isinstance(own, SendFailure):
                return own
            told = await self._once(
                method, path, body, query=query, headers={**own, **(headers or {})}, seconds=seconds
            )
            refused = isinstance(told, SendFailure) and told.trouble == "signed_out"
            if not refused or not isinstance(self._authorize, RenewedToken):
                break
            self._authorize.drop(own)
        return told

    async def _once(
        self,
        method: str,
        path: str,
        body: CallBody,
        *,
        query: Mapping[str, str] | None,
        headers: dict[str, str],
        seconds: float,
    ) -> dict[str, Any] | SendFailure:
        data: Any = body() if callable(body) and not isinstance(body, aiohttp.FormData) else body
        if isinstance(body, Mapping):
            data, headers = json.dumps(body).encode(), {"Content-Type": "application/json", **headers}
        shared = self._http if self._http is not None and not self._http.closed else None
        http = shared or aiohttp.ClientSession()
        wait = aiohttp.ClientTimeout(total=seconds, sock_connect=10.0)
        try:
            async with http.request(
                method,
                path if "://" in path else self.base + path,
                data=data,
                params=query,
                headers=headers,
                timeout=wait,
                allow_redirects=False,  # the token is for this server only
            ) as answer:
                told = _decode(await _read(answer))
                return self._judged(answer.status, told, answer.headers)
        except (aiohttp.ClientConnectorError, aiohttp.ConnectionTimeoutError):
            return SendFailure(f"{self.facts.label} cannot be reached")
        except (aiohttp.ClientError, TimeoutError, OSError, ValueError) as exc:
            return SendFailure(f"the connection to {self.facts.label} broke ({type(exc).__name__})", "cut")
        finally:
            if shared is None:
                await http.close()

    def _judged(self, status: int, told: dict[str, Any], headers: Mapping[str, str]) -> dict[str, Any] | SendFailure:
        wrong = status >= 300 and status not in self.facts.fine
        if self.facts.strict and not wrong:
            wrong = self.facts.read_error(told)[0] not in ("", "0")
        return explain_api_error(self.facts, status, told, headers) if wrong else told

    async def fetch_file(self, kit: ChannelKit, file: RemoteFile) -> AsyncGenerator[bytes, None]:
        """The bytes of a file whose `source` is its address. Our token goes along to the API's own host only."""
        url = str(file.source)
        at = parse_url(url)
        if isinstance(at, AddressRefusal):
            raise FileUnavailable("has no address that can be fetched")
        headers = {"Accept": "*/*"}
        if self._authorize is not None and self._ours.names(at):
            proof = await self._authorize()
            if isinstance(proof, SendFailure):
                raise FileUnavailable(f"could not be fetched: {proof.reason}", again=True)
            headers |= proof
        limits = FetchLimits(size=kit.settings.media + 1, time=FILE_SECONDS)
        try:
            found = await EgressGuard(self._ours).get(FetchRequest(url, headers), limits)
        except FetchFailure as exc:
            raise FileUnavailable(f"could not be fetched: {exc}", again=True) from exc
        if found.status != 200:
            later = found.status == 429 or found.status >= 500 or found.status == 202
            raise FileUnavailable(f"could not be fetched from {self.facts.label} ({found.status})", again=later)
        yield found.data


def _decode(data: bytes) -> dict[str, Any]:
    """A list stands under `rows`; what is no JSON says nothing."""
    return decode_object(b'{"rows":' + data + b"}" if data.lstrip()[:1] == b"[" else data)


async def _read(answer: aiohttp.ClientResponse) -> bytes:
    text = b""
    while len(text) < LARGE and (more := await answer.content.read(LARGE - len(text))):
        text += more
    return text


def explain_api_error(facts: ApiFacts, status: int, told: Mapping[str, Any], headers: Mapping[str, str]) -> SendFailure:
    """What an answer that is not ok means."""
    code, words = facts.read_error(told)
    trouble = facts.codes.get(code) or facts.statuses.get(status) or STATUSES.get(status)
    if trouble is None:
        trouble = "cut" if status >= 500 else "refused"
    said = facts.words.get(code) or words[:200]
    reason = f"{facts.label} says {code}: {said}" if code and said else f"{facts.label} says: {said}"
    if not said:
        reason = f"{facts.label} answered {code or status}"
    limited = trouble == "limited"
    return SendFailure(reason, trouble, read_seconds(headers.get(facts.wait), WHEN) if limited else None)
