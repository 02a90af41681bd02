"""Tokens that stay good: renewed before they end, once for everybody, and written down before anybody uses them.

Who may renew is decided by a lock over all processes of a home (`vault.lock`); nodes of a fleet, which have homes of
their own, have one that spans them in its place (`vault.span`, `shared.py`).
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import TypeAlias

import msgspec

from palinurus.clock import Clock
from palinurus.config.sections.models import ProviderSettings
from palinurus.core.signin.flow import RenewalFlow, TokenFlow
from palinurus.core.types.model import ModelFailure
from palinurus.core.types.signin import OAuthAnswer, OAuthAsk, ShownCode, SignInFailure, SignInRow, TokenSet
from palinurus.providers.credentials import KeyProfile
from palinurus.providers.signin.vault import KeptSignIn, SignInVault, make_profile, refuse_profile

# Asks through the program's one gate for outgoing calls. Never raises: status 0 is no answer.
SignInFetch: TypeAlias = Callable[[OAuthAsk], Awaitable[OAuthAnswer]]

MARGIN = 60_000  # ms that a token must still be good for

# What a sign-in itself was told (a client of the person's own, a server that was discovered) -> fields of the row.
CLIENT_FIELDS = ("client_id", "token_url", "authorize_url", "revoke_url", "scope", "resource", "issuer")


async def drive_flow(
    flow: TokenFlow, fetch: SignInFetch, clock: Clock, show: Callable[[ShownCode], None] = lambda code: None
) -> TokenSet | SignInFailure:
    """Ask what it wants to be asked until it is done. `show` is told once there is something for a person to see."""
    seen: ShownCode | None = None
    while flow.done is None and flow.ask is not None:
        if flow.wait:
            await clock.sleep(flow.wait)
        flow.feed(await fetch(flow.ask), clock.now())
        if flow.shown is not None and flow.shown is not seen:
            seen = flow.shown
            show(seen)
    assert flow.done is not None
    return flow.done


def find_row(row: SignInRow | None, settings: ProviderSettings | None, kept: KeptSignIn | None = None) -> SignInRow:
    """Where this provider is signed in to: the vendor's facts, the config's over them, then what the sign-in itself
    was told (a client of the person's own, a server that was discovered)."""
    said = settings.sign_in.list_said() if settings is not None else {}
    if kept is not None:
        said |= {name: kept.client[name] for name in CLIENT_FIELDS if kept.client.get(name)}
        said |= {"client_secret": kept.client_secret} if kept.client_secret else {}
    made = msgspec.structs.replace(row or SignInRow(), **said)
    return msgspec.structs.replace(made, basic=True) if kept is not None and kept.client.get("basic") else made


class TokenKeeper:
    """`renew` is what `KeyRotation` calls. `find` gives the row of a provider, for a sign-in if there is one."""

    def __init__(
        self,
        vault: SignInVault,
        find: Callable[[str, KeptSignIn | None], SignInRow],
        fetch: SignInFetch,
        clock: Clock,
        prove: Callable[[str], SignInFetch] | None = None,  # asks with proofs by that key
    ) -> None:
        self._vault, self._prove = vault, prove
        self._find = find
        self._fetch = fetch
        self._clock = clock
        self._lock = vault.span or vault.lock

    async def renew(self, profile: KeyProfile) -> KeyProfile | ModelFailure:
        """A profile with a good token, on disk; or why there is none. Raises OSError.

        A kill between the answer and the write loses the answer. Where a server then no longer takes the old token, the
        next renewal is refused and the person is asked to sign in again; nothing else is lost.
        """
        async with self._lock(profile.id, self._clock):
            kept = self._vault.list_all().get(profile.id)
            if kept is not None and kept.out:
                return refuse_profile(profile.provider, kept.out)
            if kept is not None and kept.access != profile.secret.reveal() and self._is_good(kept.expires):
                return make_profile(profile.id, kept)  # another process was faster
            old = kept.tokens if kept is not None and kept.refresh else _read_tokens(profile)
            row = self._find(profile.provider, kept)
            if not old.refresh or not (row.token_url or row.exchange_url):
                return refuse_profile(profile.provider, "it has ended and cannot be renewed")
            key = kept.proof_key if kept is not None else ""
            fetch = self._prove(key) if key and self._prove is not None else self._fetch
            done = await drive_flow(RenewalFlow(row, old), fetch, self._clock)
            if isinstance(done, SignInFailure):
                return self._give_up(profile, done)
            client = kept.client if kept is not None else {}
            secret = kept.client_secret if kept is not None else ""
            fresh = make_kept(profile.provider, done, self._clock.now(), client=client, secret=secret)
            fresh = msgspec.structs.replace(fresh, proof_key=key)
            self._vault.put(profile.id, fresh)
            return make_profile(profile.id, fresh)

    def _give_up(self, profile: KeyProfile, failed: SignInFailure) -> ModelFailure:
        if failed.gone:
            self._vault.mark_out(profile.id, profile.provider, failed.reason)
            return refuse_profile(profile.provider, failed.reason)
        return ModelFailure("network", f"{profile.provider}: the token could not be renewed ({failed.reason})")

    def _is_good(self, expires: int) -> bool:
        return not expires or expires - MARGIN > self._clock.now()


def make_kept(
    provider: str, tokens: TokenSet, now: int, *, client: Mapping[str, str] = {}, secret: str = ""
) -> KeptSignIn:
    """What is kept of a sign-in."""
    return KeptSignIn(
        provider,
        tokens.access,
        tokens.refresh,
        tokens.expires,
        account=tokens.account,
        since=now,
        client=dict(client),
        client_secret=secret,
    )


def _read_tokens(profile: KeyProfile) -> TokenSet:
    return TokenSet(profile.secret.reveal(), profile.renewal.reveal(), profile.expires)
