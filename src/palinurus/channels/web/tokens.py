"""Who signs requests to us (keys of an OpenID provider, fetched and kept), and where our own tokens come from."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

import aiohttp

from palinurus.channels.web.api import ApiFacts, GrantToken, HttpApi, TokenGrant
from palinurus.clock import Clock
from palinurus.config.secrets import Secret
from palinurus.core.jwt import RsaPublicKey, find_key_id, read_jwks, verify_token
from palinurus.core.types.channel import SendFailure

KEEP = 24 * 3600.0  # seconds that keys are believed without a look
PAUSE = 60.0  # seconds between two looks: who calls with unknown keys has us fetch no more than that
FACTS = ApiFacts(
    "the sign-in service",
    lambda told: (str(told.get("error") or ""), str(told.get("error_description") or "")),
    codes=dict.fromkeys(
        ("invalid_client", "unauthorized_client", "invalid_grant", "invalid_request", "account_inactive"), "signed_out"
    ),
    statuses={400: "refused", 401: "signed_out"},
)


class OpenIdKeys:
    """The keys behind an address: a key set, or a provider's description that names one (`jwks_uri`)."""

    def __init__(self, url: str, clock: Clock) -> None:
        self._api = HttpApi(FACTS, url)
        self._clock = clock
        self._keys: dict[str, RsaPublicKey] = {}
        self._looked: float | None = None

    async def verify(
        self, header: str, issuers: Collection[str], audience: str
    ) -> tuple[Mapping[str, Any], RsaPublicKey] | SendFailure | None:
        """What the token of an Authorization header claims, and the key that says so; None if it is not to be
        believed. A failure: the keys cannot be had now."""
        kind, _, token = header.partition(" ")
        ident = find_key_id(token.strip()) if kind.lower() == "bearer" else ""
        if not ident:
            return None
        trouble = await self._look(ident)
        key = self._keys.get(ident)
        if key is None:
            return trouble
        claims = verify_token(token.strip(), key, issuers, audience, now=self._clock.now() // 1000)
        return None if claims is None else (claims, key)

    async def _look(self, ident: str) -> SendFailure | None:
        now = self._clock.monotonic()
        age = KEEP + 1 if self._looked is None else now - self._looked
        if age <= (KEEP if ident in self._keys else PAUSE):
            return None
        told = await self._api.call("GET", "")
        if not isinstance(told, SendFailure) and isinstance(told.get("jwks_uri"), str):
            told = await self._api.call("GET", told["jwks_uri"])
        if isinstance(told, SendFailure):
            return told
        self._looked, self._keys = now, read_jwks(told)
        return None


def grant_by_form(url: str, form: Mapping[str, str | Secret]) -> GrantToken:
    """Asks an OAuth 2 endpoint with this form, anew each time."""
    api = HttpApi(FACTS, url)

    async def grant() -> TokenGrant | SendFailure:
        plain = {name: one.reveal() if isinstance(one, Secret) else one for name, one in form.items()}
        return read_grant(await api.call("POST", "", aiohttp.FormData(plain)))

    return grant


def read_grant(told: dict[str, Any] | SendFailure) -> TokenGrant | SendFailure:
    """The token of an OAuth 2 answer."""
    if isinstance(told, SendFailure):
        return told
    token, seconds = told.get("access_token"), told.get("expires_in")
    if not isinstance(token, str) or not token:
        return SendFailure("the sign-in service gave no token", "signed_out")
    return TokenGrant(Secret(token), float(seconds) if isinstance(seconds, int | float) else 300.0)
