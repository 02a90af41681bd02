"""Signing in to vendors, for the terminal and for the page: begin, look, paste, sign out, who is signed in.

The calls go through the program's gate for outgoing fetches; hosts that the owner's config names are open to it.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from palinurus.clock import Clock
from palinurus.config.settings import Settings
from palinurus.core.policy.address import OpenHosts, UrlParts, parse_url
from palinurus.core.types.signin import SignInRow, TokenSet
from palinurus.errors import BadRequest, NotFound
from palinurus.providers.catalog import Catalog
from palinurus.providers.signin.renew import TokenKeeper, find_row, make_kept
from palinurus.providers.signin.vault import KeptSignIn
from palinurus.services.signins import RunningSignIn, SignInTable, make_signin_fetch
from palinurus.tools.web.egress import EgressGuard


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


class ModelSignIns(SignInTable):
    """One per program."""

    def __init__(self, catalog: Catalog, guard: EgressGuard, clock: Clock) -> None:
        super().__init__(catalog.vault, make_signin_fetch(guard, open_named_hosts(catalog.settings)), clock)
        self._catalog = catalog

    async def start(
        self, name: str, *, device: bool = False, profile: str = "", client: Mapping[str, str] | None = None
    ) -> RunningSignIn:
        """Begin. One that goes on for the same profile is ended. Raises NotFound, BadRequest."""
        provider, told = self._find_provider(name), dict(client or {})
        row = self._find_row(provider, told)
        return await self.begin(f"{provider}:{profile or 'signed-in'}", provider, row, told, device=device)

    async def sign_out(self, name: str, profile: str = "") -> list[str]:
        """Revoke where that can be told, and forget. What was done, a line each. Raises NotFound, OSError."""
        provider = self._find_provider(name)
        wanted = f"{provider}:{profile}" if profile else ""

        def choose(ident: str, kept: KeptSignIn) -> SignInRow | None:
            fits = kept.provider == provider and wanted in ("", ident)
            return self._catalog.find_signin(provider, kept) if fits else None

        if not (told := await self.leave(choose)):
            raise NotFound(f"nobody is signed in to {wanted or provider}", fix="`pal models status` lists who is")
        return told

    def complete(self, going: RunningSignIn, done: TokenSet) -> TokenSet:
        """Google's calls name the project that pays."""
        if not (project := going.client.get("project")):
            return done
        headers = {**done.account.headers, "x-goog-user-project": project}
        return msgspec.structs.replace(done, account=msgspec.structs.replace(done.account, headers=headers))

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
