"""The login as a machine without I/O: fed the frames of a new connection, it says who the client is, or which error
it gets and how the socket closes. What a client asks for is at most what its credential opens.

Order: frame, protocol, origin of a browser, limiter, credential, device, role, scopes.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import msgspec

from palinurus.gateway.auth import Gate, Knock, narrowed
from palinurus.gateway.pairing import Device, Pairing
from palinurus.gateway.rpc import SCOPES, ClientInfo, RpcError, allows
from palinurus.gateway.ws import device as identity
from palinurus.gateway.ws import frames
from palinurus.gateway.ws.resume import Resume

BROWSERS = frozenset({"openclaw-control-ui", "webchat-ui", "webchat"})
POLICY, PROTOCOL_ERROR = 1008, 1002


class Auth(msgspec.Struct, frozen=True, rename="camel"):
    """The credentials of a connect request."""

    token: str | None = None
    password: str | None = None
    device_token: str | None = None
    bootstrap_token: str | None = None


class Connect(msgspec.Struct, frozen=True, rename="camel"):
    """The params of `connect`. Fields we do not know are ignored; none of them could grant anything."""

    min_protocol: int
    max_protocol: int
    client: ClientInfo
    role: str = "operator"
    scopes: tuple[str, ...] = ()
    caps: tuple[str, ...] = ()
    auth: Auth | None = None
    device: identity.Proof | None = None
    resume: Resume | None = None  # ours: where a client was before it lost its connection


class Refused(NamedTuple):
    """No login. `error` is sent under `id` (when there is one), then the socket closes."""

    id: str
    error: RpcError | None
    close: int = POLICY


class Login(NamedTuple):
    """A client that may come in. `enrol`: make the device known and give it a token of its own."""

    id: str
    params: Connect
    scopes: tuple[str, ...]
    how: str
    principal: str
    enrol: Device | None = None


class Wish(NamedTuple):
    """A device that proved itself but asks for more than it has: a person must say yes."""

    id: str
    device: Device
    reason: str  # not-paired, scope-upgrade
    approved: tuple[str, ...]


Outcome = Refused | Login | Wish


class Handshake:
    """One connection before it has logged in."""

    def __init__(self, gate: Gate, pairing: Pairing, knock: Knock, nonce: str) -> None:
        self._gate = gate
        self._pairing = pairing
        self._knock = knock
        self._nonce = nonce

    def feed(self, data: str | bytes, now: int) -> Outcome:
        """What the first frame leads to. Every frame ends the handshake one way or the other."""
        request = frames.request(data)
        if request is None:
            return Refused("", None, 1000)
        if isinstance(request, frames.Bad):
            return Refused(request.id, RpcError(request.message))
        if request.method != "connect":
            return Refused(request.id, RpcError("invalid handshake: first request must be connect"))
        try:
            asked: Connect = frames.params("connect", Connect, request.params)
        except RpcError as error:
            return Refused(request.id, error)
        if not asked.min_protocol <= frames.PROTOCOL <= asked.max_protocol:
            return Refused(request.id, _mismatch(asked), PROTOCOL_ERROR)
        found = self._judge(asked, now)
        if isinstance(found, RpcError):
            return Refused(request.id, found)
        return found._replace(id=request.id)

    def _judge(self, asked: Connect, now: int) -> Login | Wish | RpcError:
        if asked.role not in ("operator", "node"):
            return RpcError("invalid role")
        if asked.client.id in BROWSERS and not self._knock.origins:
            details = {"code": "CONTROL_UI_ORIGIN_NOT_ALLOWED", "reason": "origin missing or invalid"}
            return RpcError(_ORIGIN, details=details)
        wait = 0.0 if self._gate.mode in ("none", "trusted-proxy") else self._gate.wait(self._knock.address)
        if wait > 0:
            return _auth("rate_limited", "AUTH_RATE_LIMITED", "wait_then_retry", wait=wait)
        how = self._credential(asked, now)
        if isinstance(how, RpcError):
            return how
        fault = self._device(asked, now, required=how[0] == "none")
        if fault is not None:
            return fault
        if asked.role == "node":
            details = {"code": "AUTH_UNAUTHORIZED", "reason": "role-not-supported"}
            return RpcError("role node is not supported by this gateway", details=details)
        return self._granted(asked, how, now)

    def _credential(self, asked: Connect, now: int) -> tuple[str, str, frozenset[str]] | RpcError:
        """How the client proved itself, who it is, and what that opens; or the refusal."""
        mode, auth = self._gate.mode, asked.auth or Auth()
        if mode == "none":
            return "none", "owner", SCOPES
        if mode == "trusted-proxy":
            user = self._gate.find_proxy_user(self._knock)
            if user is None:
                return _auth("trusted_proxy_user_missing", "AUTH_UNAUTHORIZED", "update_auth_configuration")
            return "proxy", user, narrowed(self._knock, SCOPES)
        secret = auth.token if mode == "token" else auth.password
        if secret and self._gate.is_secret(secret):
            return mode, "owner", SCOPES
        own = auth.device_token or auth.token
        if own and asked.device is not None and self._proof(asked, now) is None:
            holder = self._pairing.holder(own)
            if holder is not None and holder.device == asked.device.id:
                return "device", f"device:{holder.device}", holder.scopes
        if asked.device is None and not secret and not own:
            missing = self._device(asked, now, required=True)
            assert missing is not None
            return missing
        if secret or own:
            self._gate.count_failure(self._knock.address)
        if auth.device_token and not secret:
            return _auth("device_token_mismatch", "AUTH_DEVICE_TOKEN_MISMATCH", "update_auth_credentials")
        if not secret:
            return _auth(f"{mode}_missing", f"AUTH_{mode.upper()}_MISSING", "update_auth_configuration")
        again = mode == "token" and asked.device is not None and not auth.device_token
        step = "retry_with_device_token" if again else "update_auth_credentials"
        return _auth(f"{mode}_mismatch", f"AUTH_{mode.upper()}_MISMATCH", step, again=again)

    def _device(self, asked: Connect, now: int, *, required: bool) -> RpcError | None:
        """Why the device part does not hold, if so."""
        if asked.device is not None:
            fault = self._proof(asked, now)
            if fault is None:
                return None
            return RpcError(fault.message, details={"code": fault.code, "reason": fault.reason})
        if asked.client.id in BROWSERS and self._gate.mode != "trusted-proxy":
            text = "control ui requires device identity (use HTTPS or localhost secure context)"
            return RpcError(text, details={"code": "CONTROL_UI_DEVICE_IDENTITY_REQUIRED"})
        if required:
            details = {"code": "DEVICE_IDENTITY_REQUIRED"}
            return RpcError("device identity required", code="NOT_PAIRED", details=details)
        return None

    def _proof(self, asked: Connect, now: int) -> identity.Fault | None:
        assert asked.device is not None
        auth = asked.auth or Auth()
        token = auth.token or auth.device_token or auth.bootstrap_token or ""
        claim = identity.Claim(asked.client, asked.role, asked.scopes, token)
        return identity.verify(asked.device, claim, self._nonce, now)

    def _granted(self, asked: Connect, how: tuple[str, str, frozenset[str]], now: int) -> Login | Wish:
        word, principal, opens = how
        wanted = tuple(dict.fromkeys(scope for scope in asked.scopes if scope in SCOPES))
        scopes = tuple(scope for scope in wanted if allows(opens, scope))
        if asked.device is None:
            return Login("", asked, scopes, word, principal)
        fresh = _device(asked, asked.device, wanted if word == "device" else scopes, now)
        known = self._pairing.device(fresh.device_id)
        if known is not None and known.blocked:
            return Wish("", fresh, "not-paired", ())
        if word == "device" and scopes != wanted:
            return Wish("", fresh, "scope-upgrade", known.scopes if known else ())
        enrol = fresh if word in ("token", "password") else None
        return Login("", asked, scopes, word, principal, enrol)


_ORIGIN = (
    "origin not allowed (open the Control UI from the gateway host or allow it in gateway.controlUi.allowedOrigins)"
)
_TEXTS = {
    "token_missing": "gateway token missing (set gateway.remote.token to match gateway.auth.token)",
    "token_mismatch": "gateway token mismatch (set gateway.remote.token to match gateway.auth.token)",
    "password_missing": "gateway password missing (set gateway.remote.password to match gateway.auth.password)",
    "password_mismatch": "gateway password mismatch (set gateway.remote.password to match gateway.auth.password)",
    "device_token_mismatch": "device token mismatch (rotate/reissue device token)",
    "rate_limited": "too many failed authentication attempts (retry later)",
    "trusted_proxy_user_missing": "the proxy did not name an allowed user",
}


def _auth(reason: str, code: str, step: str, *, again: bool = False, wait: float = 0.0) -> RpcError:
    details = {"code": code, "authReason": reason, "canRetryWithDeviceToken": again, "recommendedNextStep": step}
    after = int(wait * 1000) + 1 if wait else None
    return RpcError(f"unauthorized: {_TEXTS[reason]}", details=details, retry_after_ms=after)


def _mismatch(asked: Connect) -> RpcError:
    details: dict[str, Any] = {
        "code": "PROTOCOL_MISMATCH",
        "clientMinProtocol": asked.min_protocol,
        "clientMaxProtocol": asked.max_protocol,
        "expectedProtocol": frames.PROTOCOL,
        "minimumProbeProtocol": frames.PROTOCOL,
    }
    return RpcError("protocol mismatch", details=details)


def _device(asked: Connect, proof: identity.Proof, scopes: tuple[str, ...], now: int) -> Device:
    client = asked.client
    return Device(
        proof.id,
        identity.pack(identity.public_key(proof.public_key) or b""),
        client.platform,
        client.id,
        client.mode,
        asked.role,
        (asked.role,),
        tuple(sorted(scopes)),
        now,
        now,
        client.display_name,
        client.device_family,
    )


def pairing_required(request_id: str, wish: Wish) -> RpcError:
    """The refusal that names the request a person has to approve."""
    upgrade = wish.reason == "scope-upgrade"
    text = "device is asking for more scopes than currently approved" if upgrade else "device is not approved yet"
    hint = "Review the requested scopes, then approve the pending upgrade." if upgrade else "Approve this device."
    details = {
        "code": "PAIRING_REQUIRED",
        "reason": wish.reason,
        "requestId": request_id,
        "remediationHint": hint,
        "deviceId": wish.device.device_id,
        "requestedRole": wish.device.role,
        "requestedScopes": list(wish.device.scopes),
        "approvedRoles": [wish.device.role] if wish.approved else [],
        "approvedScopes": list(wish.approved),
    }
    return RpcError(f"pairing required: {text}", code="NOT_PAIRED", details=details)
