"""Signing in to vendors, for the terminal and for the page: begin, look, paste, sign out, who is signed in.

The calls go through the program's gate for outgoing fetches; hosts that the owner's config names are open to it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

import msgspec

from palinurus.clock import Clock
from palinurus.config.settings import Settings
from palinurus.core.policy.address import OpenHosts, UrlParts, parse_url
from palinurus.core.signin.flow import build_revocation
from palinurus.core.types.signin import OAuthAnswer, OAuthAsk, ShownCode, SignInFailure, SignInRow, TokenSet
from palinurus.errors import BadRequest, NotFound
from palinurus.providers.catalog import Catalog
from palinurus.providers.signin.renew import SignInFetch, TokenKeeper, find_row, make_kept
from palinurus.providers.signin.session import SignInSession
from palinurus.providers.signin.vault import describe_signins
from palinurus.tools.web.egress import EgressGuard, FetchFailure, FetchLimits, FetchRequest

_LIMITS = FetchLimits(size=256_000, time=30.0, redirects=0)
_HERE = ("127.0.0.1", "::1", "localhost")


def make_signin_fetch(guard: EgressGuard, rules: OpenHosts) -> SignInFetch:
    """Asks through `guard`, where besides the open internet `rules` hold. Nothing goes out unencrypted but to this
    machine."""

    async def fetch(ask: OAuthAsk) -> OAuthAnswer:
        at = urlsplit(ask.url)
        if at.scheme != "https" and at.hostname not in _HERE:
            return OAuthAnswer(0, b"only https is used for signing in")
        try:
            got = await guard.get(FetchRequest(ask.url, ask.headers, ask.body, rules), _LIMITS)
        except FetchFailure as error:
            return OAuthAnswer(0, str(error).encode())
        return OAuthAnswer(got.status, got.data, got.challenge)

    return fetch


def open_named_hosts(settings: Settings) -> OpenHosts:
    """What the owner opened, and the hosts that the config names for signing in."""
    urls = (url for one in settings.providers.values() for url in one.sign_in.list_said().values() if "://" in url)
    spots = (parse_url(url) for url in urls)
    named = frozenset(spot.entry for spot in spots if isinstance(spot, UrlParts))
    return settings.web.fetch.rules.join(OpenHosts(named))


def make_keeper(catalog: Catalog, guard: EgressGuard, clock: Clock) -> TokenKeeper:
    """Who renews tokens."""
    fetch = make_signin_fetch(guard, open_named_hosts(catalog.settings))
    return TokenKeeper(catalog.vault, catalog.find_signin, fetch, clock)


class RunningSignIn:
    """A sign-in that somebody has begun."""

    def __init__(self, provider: str, ident: str, session: SignInSession, shown: ShownCode) -> None:
        self.provider, self.ident = provider, ident
        self.session, self.shown = session, shown
        self.kept = ""  # where the tokens are, once it is over
        self.client: dict[str, str] = {}


class ModelSignIns:
    """One per program."""

    def __init__(self, catalog: Catalog, guard: EgressGuard, clock: Clock) -> None:
        self._catalog = catalog
        self._clock = clock
        self.fetch = make_signin_fetch(guard, open_named_hosts(catalog.settings))
        self._going: dict[str, RunningSignIn] = {}

    async def start(
        self, name: str, *, device: bool = False, profile: str = "", client: Mapping[str, str] | None = None
    ) -> RunningSignIn:
        """Begin. One that goes on for the same profile is ended. Raises NotFound, BadRequest."""
        provider = self._find_provider(name)
        row = self._find_row(provider, dict(client or {}))
        ident = f"{provider}:{profile or 'signed-in'}"
        await self.cancel(ident)
        session = SignInSession(row, self.fetch, self._clock)
        try:
            shown = await session.start(device=device)
        except BadRequest:
            await session.close()
            raise
        going = self._going[ident] = RunningSignIn(provider, ident, session, shown)
        going.client = dict(client or {})
        return going

    def find(self, ident: str) -> RunningSignIn:
        """Raises NotFound."""
        if (found := self._going.get(ident)) is None:
            raise NotFound("no sign-in was begun", fix="begin one first")
        return found

    def settle(self, going: RunningSignIn, done: TokenSet | SignInFailure) -> str:
        """Keep what came; "" or why there is nothing. Once: the second time it is done. Raises OSError."""
        if isinstance(done, SignInFailure):
            return done.reason
        if going.kept:
            return ""
        client, secret = dict(going.client), going.client.get("client_secret", "")
        client.pop("client_secret", None)
        if project := client.get("project"):
            account = msgspec.structs.replace(
                done.account, headers={**done.account.headers, "x-goog-user-project": project}
            )
            done = msgspec.structs.replace(done, account=account)
        made = make_kept(going.provider, done, self._clock.now(), client=client, secret=secret)
        going.kept = self._catalog.vault.put(going.ident, made)
        return ""

    async def cancel(self, ident: str) -> None:
        """End one that goes on."""
        if (old := self._going.pop(ident, None)) is not None:
            await old.session.close()

    async def close(self) -> None:
        for ident in list(self._going):
            await self.cancel(ident)

    async def sign_out(self, name: str, profile: str = "") -> list[str]:
        """Revoke where that can be told, and forget. What was done, a line each. Raises NotFound, OSError."""
        provider = self._find_provider(name)
        wanted = f"{provider}:{profile}" if profile else ""
        told = []
        for ident, kept in list(self._catalog.vault.list_all().items()):
            if kept.provider != provider or (wanted and ident != wanted):
                continue
            row = self._catalog.find_signin(provider, kept)
            ask = None if kept.out else build_revocation(row, kept.tokens)
            answer = await self.fetch(ask) if ask is not None else None
            self._catalog.vault.remove(ident)
            how = "forgotten here; the vendor cannot be told: end the access on its page" if answer is None else ""
            if answer is not None:
                fine = answer.status == 200
                how = "revoked and forgotten" if fine else f"forgotten here; revoking failed (HTTP {answer.status})"
            told.append(f"{ident}: {how}")
        if not told:
            raise NotFound(f"nobody is signed in to {wanted or provider}", fix="`pal models status` lists who is")
        return told

    def describe(self) -> list[dict[str, Any]]:
        """Who is signed in, until when, and who is not any more."""
        return describe_signins(self._catalog.vault)

    def list_places(self) -> list[dict[str, str]]:
        """Where one can sign in, or why not."""
        places = []
        for name in self._catalog.list_vendors():
            vendor = self._catalog.vendor(name)
            if vendor is None or vendor.signin is None:
                continue
            row = self._catalog.find_signin(name)
            ways = [way for way, url in (("browser", row.authorize_url), ("device", row.device_url)) if url]
            lacks = row.needs_client if not row.client_id else ""
            places.append({"id": name, "name": vendor.name, "ways": " ".join(ways), "closed": row.closed or lacks})
        return places

    def _find_provider(self, name: str) -> str:
        found = self._catalog.find_provider(name.strip().lower())
        if not found:
            raise NotFound(f"unknown provider {name!r}", fix="`pal models login` lists where one can sign in")
        return found

    def _find_row(self, provider: str, client: dict[str, str]) -> SignInRow:
        vendor, settings = self._catalog.vendor(provider), self._catalog.provider(provider)
        row = self._catalog.find_signin(provider)
        if row.closed:
            raise BadRequest(row.closed)
        if client:
            kept = make_kept(provider, TokenSet(""), 0, client=client, secret=client.get("client_secret", ""))
            row = find_row(vendor.signin if vendor is not None else None, settings, kept)
        if not row.client_id and row.needs_client:
            raise BadRequest(row.needs_client)
        if not (row.token_url and (row.authorize_url or row.device_url)):
            name = vendor.name if vendor is not None else provider
            raise BadRequest(f"{name} has no sign-in", fix=f"`pal models add {provider}` takes a key")
        return row
