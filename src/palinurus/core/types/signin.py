"""Signing in instead of keeping a key: what is known about a place where one can, and what comes of it. Values only;
the steps are in `core/signin`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

import msgspec


class SignInAccount(msgspec.Struct, frozen=True):
    """Who signed in, as far as the tokens say it; and what every call has to carry because of that."""

    label: str = ""
    headers: dict[str, str] = {}
    base_url: str = ""  # where this account's calls go, if not to the vendor's usual address


def read_no_account(told: dict[str, Any]) -> SignInAccount:
    """The tokens say nothing about anybody."""
    return SignInAccount()


class SignInRow(msgspec.Struct, frozen=True):
    """How one signs in at one place. Empty addresses: that way does not exist there."""

    token_url: str = ""
    client_id: str = ""
    client_secret: str = ""  # of installed programs it is no secret, but is asked for
    authorize_url: str = ""  # the page in the browser (authorization code with PKCE)
    device_url: str = ""  # where a code for another device is fetched (RFC 8628)
    poll_url: str = ""  # where a device asks whether the code was typed, if not at `token_url`; it answers with a
    # code to be traded there, under this redirect:
    poll_redirect: str = ""
    verify_url: str = ""  # where the code is typed, if the answer does not say it
    exchange_url: str = ""  # where the token is traded for one that lives for minutes
    revoke_url: str = ""  # RFC 7009
    scope: str = ""
    extra: dict[str, str] = {}  # more parameters of the page's address
    headers: dict[str, str] = {}  # of every request here
    resource: str = ""  # RFC 8707: for whom the token is
    basic: bool = False  # the client names itself in a header instead of the form
    issuer: str = ""  # RFC 9207: who must have sent the browser back, where that is told
    names_issuer: bool = False  # it says that it always tells
    binds: bool = False  # RFC 9449: it binds tokens to a key of ours, of the kind that we have (ES256)
    host: str = "127.0.0.1"  # of the address the browser comes back to
    port: int = 0  # 0: any that is free
    path: str = "/callback"
    read_account: Callable[[dict[str, Any]], SignInAccount] = read_no_account
    closed: str = ""  # why one cannot sign in here, and what to do instead
    needs_client: str = ""  # why the owner has to bring a client of their own, and how


class OAuthAsk(msgspec.Struct, frozen=True):
    """One request. Without a body it is a GET."""

    url: str
    body: bytes | None = None
    headers: dict[str, str] = {}


class OAuthAnswer(msgspec.Struct, frozen=True):
    """What came; status 0: nothing did, and `body` says why."""

    status: int
    body: bytes = b""
    challenge: str = ""  # WWW-Authenticate
    nonce: str = ""  # DPoP-Nonce: what the next proof must hold


class TokenSet(msgspec.Struct, frozen=True):
    """What a sign-in is worth. Never printed."""

    access: str
    refresh: str = ""
    expires: int = 0  # wall clock in ms; 0: it does not say
    account: SignInAccount = SignInAccount()
    bound: bool = False  # to the key that was shown (DPoP)

    def __repr__(self) -> str:
        return f"TokenSet(expires={self.expires})"


class SignInFailure(msgspec.Struct, frozen=True):
    """Why there is no token. `gone`: what we had is worth nothing any more; else it may work later."""

    reason: str
    gone: bool = False


class ShownCode(msgspec.Struct, frozen=True):
    """What a person needs: a page, and a code to type there (or none: the page knows it)."""

    url: str
    code: str = ""
    expires: int = 0
    kind: Literal["device", "browser"] = "device"
