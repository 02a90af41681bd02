"""The ways to a token, as machines: device code (RFC 8628), code with PKCE (RFC 7636), renewal. Pure.

Each says what to ask (`ask`, after `wait` seconds) until it is `done`; `feed` takes what came, `close` ends it. Whoever
drives one owns the network, the clock and the browser.
"""

from __future__ import annotations

import base64
import hashlib
import re
from typing import Any
from urllib.parse import parse_qs, quote, urlencode, urlsplit

import msgspec

from palinurus.core.signin.claims import read_claims
from palinurus.core.types.signin import (
    OAuthAnswer,
    OAuthAsk,
    ShownCode,
    SignInAccount,
    SignInFailure,
    SignInRow,
    TokenSet,
)
from palinurus.patterns import compile_late

DEVICE_GRANT = "urn:ietf:params:oauth:grant-type:device_code"
INTERVAL = 5.0  # seconds between two questions, where nothing is said; slow_down adds as much
SLOWEST = 60.0
LIFE = 900.0  # seconds of a code that does not say how long it lives

# What a server calls it -> what it means to a person. The grant is worth nothing any more after those of _GONE.
_WORDS = {
    "access_denied": "the sign-in was refused",
    "authorization_declined": "the sign-in was refused",
    "expired_token": "the code has expired before it was used",
    "invalid_grant": "the sign-in is not valid any more (revoked, expired or used elsewhere)",
    "invalid_client": "this program is not known there (client id)",
    "unauthorized_client": "this program may not sign in this way there",
    "invalid_scope": "what was asked for is not offered there (scope)",
    "device_flow_disabled": "signing in with a code is switched off there",
    "invalid_dpop_proof": "our proof that the token is ours is not taken (DPoP): is the clock of this machine right?",
    "unsupported_grant_type": "this way of signing in is not offered there",
}
_GONE = compile_late(r"invalid_grant|refresh_token_\w+|token_(?:expired|revoked)|bad_refresh_token")
_PLAIN = compile_late(r"[\w .:-]{1,120}")


def make_challenge(verifier: str) -> str:
    """PKCE's S256."""
    return base64.urlsafe_b64encode(hashlib.sha256(verifier.encode()).digest()).decode().rstrip("=")


def read_object(body: bytes) -> dict[str, Any]:
    """A JSON object, or a form (some servers answer with one); {} for anything else."""
    try:
        found = msgspec.json.decode(body)
    except (msgspec.DecodeError, RecursionError):
        form = parse_qs(body.decode("utf-8", "replace"))
        return {name: values[0] for name, values in form.items()} if "access_token" in form or "error" in form else {}
    return found if isinstance(found, dict) else {}


class TokenFlow:
    """The end of every way: a grant is traded for tokens, those perhaps for others that live for minutes. `form`: a
    grant that needs no person."""

    def __init__(self, row: SignInRow, form: dict[str, str] | None = None) -> None:
        self.row = row
        self.ask: OAuthAsk | None = None
        self.wait = 0.0
        self.shown: ShownCode | None = None
        self.done: TokenSet | SignInFailure | None = None
        self._kept = ""  # the token that is traded for short-lived ones
        if form is not None:
            self._trade({**form, **({"scope": row.scope} if row.scope else {})})

    def feed(self, answer: OAuthAnswer, now: int) -> None:
        """What came for `ask`."""
        if self.done is not None or self.ask is None:
            return
        if answer.status == 0 or answer.status == 429 or answer.status >= 500:
            self._fail(
                f"no answer: {_clean(answer.body.decode('utf-8', 'replace'))}" if not answer.status else "", answer
            )
            return
        told = read_object(answer.body)
        if self._kept:
            self._take_exchanged(answer.status, told)
            return
        if _error(told) or answer.status != 200 or not isinstance(told.get("access_token"), str):
            self._refuse(answer.status, told)
            return
        self._take_tokens(told, now)

    def close(self, reason: str) -> None:
        """It is over, whatever comes."""
        if self.done is None:
            self.ask, self.done = None, SignInFailure(reason)

    def _trade(self, form: dict[str, str]) -> None:
        self.ask, self.wait = build_form(self.row, self.row.token_url, form), 0.0

    def _take_tokens(self, told: dict[str, Any], now: int) -> None:
        access = told["access_token"]
        if self.row.exchange_url:
            self._kept = access
            self._exchange(access)
            return
        refresh = told.get("refresh_token")
        life = _number(told.get("expires_in"))
        expires = now + int(life * 1000) if life else int(_number(read_claims(access).get("exp")) * 1000)
        kept = refresh if isinstance(refresh, str) else ""
        account, email = self.row.read_account(told), read_claims(str(told.get("id_token", ""))).get("email")
        if not account.label and isinstance(email, str):
            account = msgspec.structs.replace(account, label=email)
        self._end(TokenSet(access, kept, expires, account, bound=str(told.get("token_type", "")).lower() == "dpop"))

    def _exchange(self, token: str) -> None:
        self.ask, self.wait = build_exchange(self.row, token), 0.0

    def _take_exchanged(self, status: int, told: dict[str, Any]) -> None:
        token = told.get("token")
        if status != 200 or not isinstance(token, str):
            gone = status in (401, 403, 404)
            words = "this account may not use it, or its access was revoked" if gone else f"HTTP {status}"
            self._end(SignInFailure(_tell(told) or words, gone=gone))
            return
        expires = int(_number(told.get("expires_at")) * 1000)
        self._end(TokenSet(token, self._kept, expires, self.row.read_account(told)))

    def _refuse(self, status: int, told: dict[str, Any]) -> None:
        word = _error(told)
        gone = bool(_GONE.fullmatch(word)) or (status == 401 and word != "invalid_client")
        self._end(SignInFailure(_tell(told) or f"HTTP {status}", gone=gone))

    def _fail(self, reason: str, answer: OAuthAnswer) -> None:
        self._end(SignInFailure(reason or f"HTTP {answer.status}"))

    def _end(self, done: TokenSet | SignInFailure) -> None:
        self.ask, self.done = None, done


class DeviceFlow(TokenFlow):
    """A code that is typed on another device, while this one asks again and again."""

    def __init__(self, row: SignInRow) -> None:
        super().__init__(row)
        self._interval = INTERVAL
        self._device = ""
        self._begun = False
        self._traded = False
        if row.poll_url:
            self.ask = _json_ask(row, row.device_url, {"client_id": row.client_id})
        else:
            self.ask = build_form(row, row.device_url, {"scope": row.scope} if row.scope else {})

    def feed(self, answer: OAuthAnswer, now: int) -> None:
        """What came for `ask`."""
        if self.done is not None or self.ask is None:
            return
        if not self._begun:
            self._begin(answer, now)
        elif self._kept or self._traded:
            super().feed(answer, now)
        else:
            self._polled(answer, now)

    def _begin(self, answer: OAuthAnswer, now: int) -> None:
        told = read_object(answer.body)
        device = told.get("device_code") or told.get("device_auth_id")
        code = told.get("user_code") or told.get("usercode")
        page = told.get("verification_uri") or told.get("verification_url") or self.row.verify_url
        if answer.status != 200 or not all(isinstance(one, str) and one for one in (device, code, page)):
            reason = _tell(told) or (f"HTTP {answer.status}" if answer.status else "the server cannot be reached")
            self._end(SignInFailure(f"no code could be had: {reason}"))
            return
        self._device, self._begun = str(device), True
        self._interval = min(max(_number(told.get("interval")) or INTERVAL, 1.0), SLOWEST)
        life = _number(told.get("expires_in")) or LIFE
        whole = told.get("verification_uri_complete")
        url = whole if isinstance(whole, str) and whole.startswith("https://") else str(page)
        self.shown = ShownCode(url, str(code), now + int(life * 1000))
        self._ask_again()

    def _ask_again(self) -> None:
        assert self.shown is not None
        if self.row.poll_url:
            self.ask = _json_ask(
                self.row, self.row.poll_url, {"device_auth_id": self._device, "user_code": self.shown.code}
            )
        else:
            self._trade({"grant_type": DEVICE_GRANT, "device_code": self._device})
        self.wait = self._interval

    def _polled(self, answer: OAuthAnswer, now: int) -> None:
        told, row = read_object(answer.body), self.row
        word = _error(told)
        waits = word in ("authorization_pending", "slow_down") or (row.poll_url and answer.status in (403, 404))
        broken = answer.status == 0 or answer.status == 429 or answer.status >= 500
        assert self.shown is not None
        if (waits or broken) and now >= self.shown.expires:
            self._end(SignInFailure(_WORDS["expired_token"]))
        elif waits or broken:
            if word == "slow_down":
                self._interval = max(self._interval + INTERVAL, min(_number(told.get("interval")), SLOWEST))
            elif broken:  # RFC 8628: twice as long after each question that nobody answered
                self._interval = min(self._interval * 2, SLOWEST)
            self._ask_again()
        elif row.poll_url and answer.status == 200 and isinstance(told.get("authorization_code"), str):
            self._traded = True
            form = {"grant_type": "authorization_code", "code": told["authorization_code"]}
            self._trade(
                {**form, "redirect_uri": row.poll_redirect, "code_verifier": str(told.get("code_verifier", ""))}
            )
        else:
            super().feed(answer, now)


class CodeFlow(TokenFlow):
    """A page in the browser, which comes back to an address of ours with a code. `verifier` and `state` are random."""

    def __init__(self, row: SignInRow, redirect: str, verifier: str, state: str) -> None:
        super().__init__(row)
        self._redirect, self._verifier, self._state = redirect, verifier, state
        asked = {
            "response_type": "code",
            "client_id": row.client_id,
            "redirect_uri": redirect,
            **({"scope": row.scope} if row.scope else {}),
            "code_challenge": make_challenge(verifier),
            "code_challenge_method": "S256",
            "state": state,
            **({"resource": row.resource} if row.resource else {}),
            **row.extra,
        }
        joint = "&" if "?" in row.authorize_url else "?"
        self.shown = ShownCode(f"{row.authorize_url}{joint}{urlencode(asked, quote_via=quote)}", kind="browser")

    def take_redirect(self, address: str) -> str:
        """Where the browser was sent to, whole or only its query. "" if it is ours; else why not. Who does not know
        our state changes nothing: anybody can knock at that address."""
        text = address.strip().strip("\"'<>")
        query = urlsplit(text).query or text.partition("?")[2] or text
        found = {name: values[0] for name, values in parse_qs(query).items()}
        if not ({"code", "error"} & set(found)):
            return "this is not the address the browser was sent to: it holds no code"
        if found.get("state") != self._state:
            return "this belongs to another sign-in (state): begin again, or use the newest page"
        silent = "" if self.row.names_issuer else self.row.issuer
        if self.done is not None or self.ask is not None:
            return ""
        if self.row.issuer and found.get("iss", silent) != self.row.issuer:
            why = "another server than the one we asked has sent this (iss)"
            self._end(SignInFailure(why))
            return why
        if "error" in found:
            self._end(SignInFailure(_tell(found) or "the sign-in was refused"))
        else:
            form = {"grant_type": "authorization_code", "code": found["code"], "redirect_uri": self._redirect}
            self._trade({**form, "code_verifier": self._verifier})
        return ""


class RenewalFlow(TokenFlow):
    """New tokens for old ones. What a server does not send again stays."""

    def __init__(self, row: SignInRow, old: TokenSet) -> None:
        super().__init__(row)
        self._old = old
        if row.exchange_url:
            self._kept = old.refresh
            self._exchange(old.refresh)
        else:
            self._trade({"grant_type": "refresh_token", "refresh_token": old.refresh})

    def _end(self, done: TokenSet | SignInFailure) -> None:
        if isinstance(done, TokenSet):
            new, old = done.account, self._old.account
            account = SignInAccount(new.label or old.label, old.headers | new.headers, new.base_url or old.base_url)
            done = msgspec.structs.replace(done, refresh=done.refresh or self._old.refresh, account=account)
        super()._end(done)


def build_form(row: SignInRow, url: str, form: dict[str, str]) -> OAuthAsk:
    """A request as token endpoints want it, with the client's name in it."""
    whole = {**form, **({"resource": row.resource} if row.resource else {})}
    headers = {"Content-Type": "application/x-www-form-urlencoded", "Accept": "application/json", **row.headers}
    if row.basic:
        pair = f"{quote(row.client_id, safe='')}:{quote(row.client_secret, safe='')}"
        headers["Authorization"] = f"Basic {base64.b64encode(pair.encode()).decode()}"
    else:
        whole = {"client_id": row.client_id, **whole}
        if row.client_secret:
            whole["client_secret"] = row.client_secret
    return OAuthAsk(url, urlencode(whole).encode(), headers)


def build_exchange(row: SignInRow, token: str) -> OAuthAsk:
    """Trade a lasting token for one that lives for minutes."""
    return OAuthAsk(
        row.exchange_url, None, {"Authorization": f"Bearer {token}", "Accept": "application/json", **row.headers}
    )


def build_revocation(row: SignInRow, tokens: TokenSet) -> OAuthAsk | None:
    """Tell the server that we are gone; None where it has no ear for it."""
    if not row.revoke_url:
        return None
    kind = "refresh_token" if tokens.refresh else "access_token"
    return build_form(row, row.revoke_url, {"token": tokens.refresh or tokens.access, "token_type_hint": kind})


def _json_ask(row: SignInRow, url: str, body: dict[str, str]) -> OAuthAsk:
    headers = {"Content-Type": "application/json", "Accept": "application/json", **row.headers}
    return OAuthAsk(url, msgspec.json.encode(body), headers)


def _error(told: dict[str, Any]) -> str:
    """The server's word for what is wrong: plain, or inside an object."""
    found = told.get("error")
    if isinstance(found, dict):
        found = found.get("code") or found.get("type")
    return found if isinstance(found, str) else ""


def _tell(told: dict[str, Any]) -> str:
    word = _error(told)
    return _WORDS.get(word, "") or (_WORDS["invalid_grant"] if _GONE.fullmatch(word) else _clean(word))


def _clean(text: str) -> str:
    """A word of the other side, if it is one: descriptions may repeat what we sent."""
    short = re.sub(r"\s+", " ", text)[:120]
    return short if _PLAIN.fullmatch(short) else ""


def _number(found: object) -> float:
    try:
        value = float(found) if isinstance(found, int | float | str) and not isinstance(found, bool) else 0.0
    except ValueError:
        return 0.0
    return value if 0 < value < 1e12 else 0.0
