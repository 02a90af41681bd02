"""The login as a machine without I/O: fed the frames of a new connection, it says who the client is, or which error
it gets and how the socket closes. What a client asks for is at most what its credential opens.

Order: frame, protocol, origin of a browser, limiter, credential, device, role, scopes.
"""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec.structs import replace

from palinurus.core.types.caller import SCOPES, Caller
from palinurus.gateway.auth import GatewayAuth, GatewayPeer, narrow_scopes
from palinurus.gateway.pairing import PHONE, DevicePairing
from palinurus.gateway.rpc import ClientDescription, MethodError, decode_params
from palinurus.gateway.ws import device as identity
from palinurus.gateway.ws import frames
from palinurus.gateway.ws.devicerow import PairedDevice
from palinurus.gateway.ws.hub import ResumePoint
from palinurus.services.nodes.pairing import NodeFacts, NodePairing, NodeRequest

BROWSERS = frozenset({"openclaw-control-ui", "webchat-ui", "webchat"})
POLICY, PROTOCOL_ERROR = 1008, 1002


class ConnectAuth(msgspec.Struct, frozen=True, rename="camel"):
    """The credentials of a connect request."""

    token: str | None = None
    password: str | None = None
    device_token: str | None = None
    bootstrap_token: str | None = None


class ConnectParams(msgspec.Struct, frozen=True, rename="camel"):
    """The params of `connect`. Fields we do not know are ignored; none of them could grant anything."""

    min_protocol: int
    max_protocol: int
    client: ClientDescription
    role: str = "operator"
    scopes: tuple[str, ...] = ()
    caps: tuple[str, ...] = ()
    commands: tuple[str, ...] = ()  # of a node: what it can be asked for
    permissions: dict[str, bool] = {}
    auth: ConnectAuth | None = None
    device: identity.DeviceProof | None = None
    resume: ResumePoint | None = None  # ours: where a client was before it lost its connection


class LoginRefusal(msgspec.Struct, frozen=True):
    """No login. `error` is sent under `id` (when there is one), then the socket closes."""

    id: str
    error: MethodError | None
    close: int = POLICY


class ClientLogin(msgspec.Struct, frozen=True):
    """A client that may come in. `enrol`: make the device known and give it a token of its own."""

    id: str
    params: ConnectParams
    scopes: tuple[str, ...]
    how: str
    principal: str
    enrol: PairedDevice | None = None
    node: NodeFacts | None = None  # of a node: what it says of itself
    handover: str = ""  # a phone's token as an operator


class PairingNeeded(msgspec.Struct, frozen=True):
    """A device that proved itself but asks for more than it has: a person must say yes."""

    id: str
    device: PairedDevice
    reason: str  # not-paired, scope-upgrade
    approved: tuple[str, ...]


class NodesNeeded(msgspec.Struct, frozen=True):
    """A node knocks, and who is paired has not been read: the same frame is to be judged again with `nodes` set."""

    id: str


class NodeKnock(msgspec.Struct, frozen=True):
    """A node that proved itself. Whether it may come in is the pairing's to say."""

    id: str
    params: ConnectParams
    how: str  # token, password, none, proxy: a secret of the owner's; device: its own token; code: for the first time
    facts: NodeFacts


LoginOutcome = LoginRefusal | ClientLogin | PairingNeeded | NodesNeeded | NodeKnock
Judged = ClientLogin | PairingNeeded | NodesNeeded | NodeKnock | MethodError


class Handshake:
    """One connection before it has logged in."""

    def __init__(self, auth: GatewayAuth, pairing: DevicePairing, peer: GatewayPeer, nonce: str) -> None:
        self._auth = auth
        self._pairing = pairing
        self._peer = peer
        self._nonce = nonce
        self.nodes: NodePairing | None = None  # read when the first node knocks
        self._counted = False  # the same frame may be judged twice; a wrong credential counts once

    def feed(self, data: str | bytes, now: int) -> LoginOutcome:
        """What the first frame leads to. Every frame ends the handshake one way or the other."""
        request = frames.decode_request(data)
        if request is None:
            return LoginRefusal("", None, 1000)
        if isinstance(request, frames.BadFrame):
            return LoginRefusal(request.id, MethodError(request.message))
        if request.method != "connect":
            return LoginRefusal(request.id, MethodError("invalid handshake: first request must be connect"))
        try:
            asked: ConnectParams = decode_params("connect", ConnectParams, request.params)
        except MethodError as error:
            return LoginRefusal(request.id, error)
        if not asked.min_protocol <= frames.PROTOCOL <= asked.max_protocol:
            return LoginRefusal(request.id, _mismatch(asked), PROTOCOL_ERROR)
        found = self._judge(asked, now)
        if isinstance(found, MethodError):
            return LoginRefusal(request.id, found)
        return msgspec.structs.replace(found, id=request.id)

    def _judge(self, asked: ConnectParams, now: int) -> Judged:
        if asked.role not in ("operator", "node"):
            return MethodError("invalid role")
        if asked.client.id in BROWSERS and not self._peer.origins:
            details = {"code": "CONTROL_UI_ORIGIN_NOT_ALLOWED", "reason": "origin missing or invalid"}
            return MethodError(_ORIGIN, details=details)
        given = asked.auth or ConnectAuth()
        if asked.role == "node" and self.nodes is None:
            return NodesNeeded("")
        sure = self._auth.mode in ("none", "trusted-proxy") or any(
            map(self._auth.is_sure, (given.token or "", given.device_token or ""))
        )
        sure = sure or bool(self._own_node_credential(asked))
        wait = 0.0 if sure else self._auth.wait(self._peer)
        if wait > 0:
            return _auth("rate_limited", "AUTH_RATE_LIMITED", "wait_then_retry", wait=wait)
        if asked.role == "node":
            return self._node(asked, now)
        caller = self._credential(asked, now)
        if isinstance(caller, MethodError):
            return caller
        fault = self._device(asked, now, required=caller.how == "none")
        return self._granted(asked, caller, now) if fault is None else fault

    def _node(self, asked: ConnectParams, now: int) -> NodeKnock | MethodError:
        """A node is a device, and stays one: it proves its key, then what it holds. No operator's token opens this."""
        fault = self._device(asked, now, required=True)
        if fault is not None:
            return fault
        assert asked.device is not None
        word = self._own_node_credential(asked)
        if not word:
            caller = self._credential(asked, now)
            if isinstance(caller, MethodError):
                return caller
            word = caller.how
        if word == "device" and not self._own_node_credential(asked):
            return _auth("device_token_mismatch", "AUTH_DEVICE_TOKEN_MISMATCH", "update_auth_credentials")
        client = asked.client
        facts = NodeFacts(
            *(asked.device.id, client.platform, client.display_name or "", client.version),
            client_id=client.id,
            client_mode=client.mode,
            device_family=client.device_family or "",
            caps=asked.caps,
            commands=asked.commands,
            permissions=asked.permissions,
        )
        return NodeKnock("", asked, word, facts)

    def _own_node_credential(self, asked: ConnectParams) -> str:
        """`device` for a node's own token, `code` for one that pairs it; "" for neither."""
        if asked.role != "node" or self.nodes is None or asked.device is None:
            return ""
        auth = asked.auth or ConnectAuth()
        if any(token and self.nodes.holds(asked.device.id, token) for token in (auth.device_token, auth.token)):
            return "device"
        return "code" if auth.bootstrap_token and self.nodes.find_code(auth.bootstrap_token) is not None else ""

    def _credential(self, asked: ConnectParams, now: int) -> Caller | MethodError:
        """Who the client is, with all that its credential opens; or the refusal."""
        mode, auth = self._auth.mode, asked.auth or ConnectAuth()
        if mode == "none":
            return Caller("owner", SCOPES, "none")
        if mode == "trusted-proxy":
            user = self._auth.find_proxy_user(self._peer)
            if user is None:
                return _auth("trusted_proxy_user_missing", "AUTH_UNAUTHORIZED", "update_auth_configuration")
            return Caller(user, narrow_scopes(self._peer.headers, SCOPES), "proxy")
        secret = auth.token if mode == "token" else auth.password
        if secret and self._auth.is_secret(secret):
            return Caller("owner", SCOPES, mode)
        own = auth.device_token or auth.token
        if own and asked.device is not None and self._proof(asked, now) is None:
            holder = self._pairing.holder(own)
            if holder is not None and holder.device == asked.device.id:
                return Caller(f"device:{holder.device}", holder.scopes, "device")
        if asked.device is None and not secret and not own:
            missing = self._device(asked, now, required=True)
            assert missing is not None
            return missing
        if (secret or own) and not self._counted:
            self._counted = True
            self._auth.count_failure(self._peer)
        if auth.device_token and not secret:
            return _auth("device_token_mismatch", "AUTH_DEVICE_TOKEN_MISMATCH", "update_auth_credentials")
        if not secret:
            return _auth(f"{mode}_missing", f"AUTH_{mode.upper()}_MISSING", "update_auth_configuration")
        again = mode == "token" and asked.device is not None and not auth.device_token
        step = "retry_with_device_token" if again else "update_auth_credentials"
        return _auth(f"{mode}_mismatch", f"AUTH_{mode.upper()}_MISMATCH", step, again=again)

    def _device(self, asked: ConnectParams, now: int, *, required: bool) -> MethodError | None:
        """Why the device part does not hold, if so."""
        if asked.device is not None:
            fault = self._proof(asked, now)
            if fault is None:
                return None
            return MethodError(fault.message, details={"code": fault.code, "reason": fault.reason})
        if asked.client.id in BROWSERS and self._auth.mode != "trusted-proxy":
            text = "control ui requires device identity (use HTTPS or localhost secure context)"
            return MethodError(text, details={"code": "CONTROL_UI_DEVICE_IDENTITY_REQUIRED"})
        if required:
            details = {"code": "DEVICE_IDENTITY_REQUIRED"}
            return MethodError("device identity required", code="NOT_PAIRED", details=details)
        return None

    def _proof(self, asked: ConnectParams, now: int) -> identity.DeviceFault | None:
        assert asked.device is not None
        auth = asked.auth or ConnectAuth()
        token = auth.token or auth.device_token or auth.bootstrap_token or ""
        claim = identity.DeviceClaim(asked.client, asked.role, asked.scopes, token)
        return identity.verify_device(asked.device, claim, self._nonce, now)

    def _granted(self, asked: ConnectParams, caller: Caller, now: int) -> ClientLogin | PairingNeeded:
        word, principal = caller.how, caller.id
        wanted = tuple(dict.fromkeys(scope for scope in asked.scopes if scope in SCOPES))
        scopes = tuple(scope for scope in wanted if caller.may(scope))
        if asked.device is None:
            return ClientLogin("", asked, scopes, word, principal=principal)
        fresh = _device(asked, asked.device, wanted if word == "device" else scopes, now)
        known = self._pairing.device(fresh.device_id)
        if known is not None and known.blocked:
            return PairingNeeded("", fresh, "not-paired", ())
        if word == "device" and scopes != wanted:
            return PairingNeeded("", fresh, "scope-upgrade", known.scopes if known else ())
        enrol = fresh if word in ("token", "password") else None
        return ClientLogin("", asked, scopes, word, principal=principal, enrol=enrol)


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


def _auth(reason: str, code: str, step: str, *, again: bool = False, wait: float = 0.0) -> MethodError:
    details = {"code": code, "authReason": reason, "canRetryWithDeviceToken": again, "recommendedNextStep": step}
    after = int(wait * 1000) + 1 if wait else None
    return MethodError(f"unauthorized: {_TEXTS[reason]}", details=details, retry_after_ms=after)


def _mismatch(asked: ConnectParams) -> MethodError:
    details: dict[str, Any] = {
        "code": "PROTOCOL_MISMATCH",
        "clientMinProtocol": asked.min_protocol,
        "clientMaxProtocol": asked.max_protocol,
        "expectedProtocol": frames.PROTOCOL,
        "minimumProbeProtocol": frames.PROTOCOL,
    }
    return MethodError("protocol mismatch", details=details)


def _device(asked: ConnectParams, proof: identity.DeviceProof, scopes: tuple[str, ...], now: int) -> PairedDevice:
    client = asked.client
    return PairedDevice(
        proof.id,
        identity.encode_base64url(identity.parse_public_key(proof.public_key) or b""),
        client.platform,
        client.id,
        client_mode=client.mode,
        role=asked.role,
        roles=(asked.role,),
        scopes=tuple(sorted(scopes)),
        created_at_ms=now,
        approved_at_ms=now,
        display_name=client.display_name,
        device_family=client.device_family,
    )


def make_phone(asked: ConnectParams, now: int) -> PairedDevice:
    """The operator that a phone is besides being a node, after a person showed it a code for both."""
    assert asked.device is not None  # no node without one
    return replace(_device(asked, asked.device, PHONE, now), role="operator", roles=("operator",))


def make_node_error(request: NodeRequest) -> MethodError:
    """The same for a node that was sent away before."""
    details = {
        "code": "PAIRING_REQUIRED",
        "reason": "not-paired",
        "requestId": request.request_id,
        "remediationHint": "Approve this node.",
        "deviceId": request.node_id,
        "requestedRole": "node",
        "requestedScopes": [],
        "approvedRoles": [],
        "approvedScopes": [],
    }
    return MethodError("pairing required: node is not approved yet", code="NOT_PAIRED", details=details)


def make_pairing_error(request_id: str, wish: PairingNeeded) -> MethodError:
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
    return MethodError(f"pairing required: {text}", code="NOT_PAIRED", details=details)
