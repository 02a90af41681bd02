"""Sign-ins that go on, for the terminal and for the page: begun, looked at, pasted to, kept when they are done, ended.

What comes is kept as soon as it is there, whether somebody still looks or not. A kill ends what goes on: nothing of it
was kept, and one begins again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Any, Literal
from urllib.parse import urlsplit

import msgspec

from palinurus.clock import Clock
from palinurus.core.policy.address import OpenHosts
from palinurus.core.signin.discover import HERE
from palinurus.core.signin.flow import build_revocation
from palinurus.core.types.signin import OAuthAnswer, OAuthAsk, ShownCode, SignInFailure, SignInRow, TokenSet
from palinurus.errors import BadRequest, NotFound
from palinurus.providers.signin.renew import SignInFetch, make_kept
from palinurus.providers.signin.session import SignInSession
from palinurus.providers.signin.vault import KeptSignIn, SignInVault, describe_signins
from palinurus.tools.web.egress import EgressGuard, FetchFailure, FetchLimits, FetchRequest

_LIMITS = FetchLimits(size=256_000, time=30.0, redirects=0)


def make_signin_fetch(guard: EgressGuard, rules: OpenHosts) -> SignInFetch:
    """Asks through `guard`, where besides the open internet `rules` hold. Nothing goes out unencrypted but to this
    machine."""

    async def fetch(ask: OAuthAsk) -> OAuthAnswer:
        at = urlsplit(ask.url)
        if at.scheme != "https" and at.hostname not in HERE:
            return OAuthAnswer(0, b"only https is used for signing in")
        try:
            got = await guard.get(FetchRequest(ask.url, ask.headers, ask.body, rules), _LIMITS)
        except FetchFailure as error:
            return OAuthAnswer(0, str(error).encode())
        return OAuthAnswer(got.status, got.data, got.challenge, got.nonce)

    return fetch


class RunningSignIn:
    """A sign-in that somebody has begun. `client` is what is kept beside the tokens."""

    def __init__(self, provider: str, ident: str, session: SignInSession, client: Mapping[str, str]) -> None:
        self.provider, self.ident = provider, ident
        self.session, self.client = session, dict(client)
        self.shown = ShownCode("")
        self.kept = ""  # where the tokens are, once it is over
        self.account = ""
        self.problem = ""  # why there are none
        self.task: asyncio.Task[None] | None = None

    @property
    def state(self) -> Literal["waiting", "done", "failed"]:
        return "done" if self.kept else "failed" if self.problem else "waiting"


class SignInTable:
    """All that go on, by the id they are kept under."""

    def __init__(self, vault: SignInVault, fetch: SignInFetch, clock: Clock) -> None:
        self.vault, self.servers = vault, False  # True: tool servers are signed in to here, not vendors
        self.fetch = fetch
        self._clock = clock
        self._going: dict[str, RunningSignIn] = {}

    async def start(
        self, name: str, *, device: bool = False, profile: str = "", client: Mapping[str, str] | None = None
    ) -> RunningSignIn:
        """Begin. One that goes on for the same name and profile is ended. Raises NotFound, BadRequest."""
        raise NotImplementedError

    async def sign_out(self, name: str, profile: str = "") -> list[str]:
        """Revoke where that can be told, and forget. What was done, a line each. Raises NotFound, OSError."""
        raise NotImplementedError

    def describe(self) -> list[dict[str, Any]]:
        """Who is signed in, until when, and who is not any more."""
        return describe_signins(self.vault, servers=self.servers)

    def list_places(self) -> list[dict[str, str]]:
        """Where one can sign in, or why not."""
        return []

    async def begin(
        self, ident: str, provider: str, row: SignInRow, client: Mapping[str, str], *, device: bool
    ) -> RunningSignIn:
        """One that goes on under the same id is ended. Raises BadRequest."""
        await self.cancel(ident)
        going = RunningSignIn(provider, ident, SignInSession(row, self.choose_fetch(client), self._clock), client)
        try:
            going.shown = await going.session.start(device=device)
        except BadRequest:
            await going.session.close()
            raise
        self._going[ident] = going
        going.task = asyncio.ensure_future(self._keep(going))
        return going

    def find(self, ident: str) -> RunningSignIn:
        """Raises NotFound."""
        if (found := self._going.get(ident)) is None:
            raise NotFound("no sign-in was begun", fix="begin one first")
        return found

    async def wait(self, going: RunningSignIn) -> str:
        """Until it is over and kept; "" or why there is nothing."""
        assert going.task is not None
        await asyncio.shield(going.task)
        return going.problem

    async def cancel(self, ident: str) -> None:
        """End one that goes on."""
        if (old := self._going.pop(ident, None)) is not None:
            if old.task is not None and not old.task.done():
                old.task.cancel()
            await old.session.close()

    async def close(self) -> None:
        for ident in list(self._going):
            await self.cancel(ident)

    async def leave(self, wanted: Callable[[str, KeptSignIn], SignInRow | None]) -> list[str]:
        """Revoke where that can be told, and forget those that `wanted` gives a row for. What was done, a line each.
        Raises OSError."""
        told = []
        for ident, kept in list(self.vault.list_all().items()):
            if (row := wanted(ident, kept)) is None:
                continue
            ask = None if kept.out else build_revocation(row, kept.tokens)
            answer = await self.fetch(ask) if ask is not None else None
            self.vault.remove(ident)
            how = "forgotten here; the other side cannot be told: end the access on its page"
            if answer is not None:
                how = f"forgotten here; revoking failed (HTTP {answer.status})"
                how = "revoked and forgotten" if answer.status == 200 else how
            told.append(f"{ident}: {how}")
        return told

    async def _keep(self, going: RunningSignIn) -> None:
        done = await going.session.wait()
        if isinstance(done, SignInFailure):
            going.problem = done.reason
            return
        client = dict(going.client)
        secret, key = client.pop("client_secret", ""), client.pop("proof_key", "")
        made = make_kept(going.provider, self.complete(going, done), self._clock.now(), client=client, secret=secret)
        made = msgspec.structs.replace(made, proof_key=key if done.bound else "")
        try:
            going.account, going.kept = made.account.label, self.vault.put(going.ident, made)
        except OSError as error:
            going.problem = f"it could not be written down ({error.strerror or error})"
        else:
            self.tell(going)

    def choose_fetch(self, client: Mapping[str, str]) -> SignInFetch:
        """What a sign-in asks with."""
        return self.fetch

    def complete(self, going: RunningSignIn, done: TokenSet) -> TokenSet:
        """What is kept of what came."""
        return done

    def tell(self, going: RunningSignIn) -> None:
        """Somebody is signed in now."""
