"""The gateway's own secret and its whereabouts, as two small files in the state directory (mode 0600).

`gateway.token` is made once and kept; `gateway.json` says where the running gateway listens, so that the
command line finds one that was started with --port. Knows no HTTP.
"""

from __future__ import annotations

import hmac
import os
import secrets
import stat

import msgspec

from palinurus.config.sections.gateway import GatewaySettings
from palinurus.errors import StateUnwritable
from palinurus.files import write_whole_file
from palinurus.store.records import RecordStore

TOKEN_FILE = "gateway.token"
LOCATION_FILE = "gateway.json"
PROVE_HEADER, PROOF_HEADER = "x-palinurus-prove", "x-palinurus-proof"
PROVE_AS_HEADER = "x-palinurus-prove-as"  # with what: node:ID, code:NAME or token; else the key of gateway.json
MIN_CHARS = 32  # a shorter file is damaged or hand-made; it is replaced


class GatewayLocation(msgspec.Struct, frozen=True):
    """Where a running gateway is."""

    host: str
    port: int
    pid: int
    started: int = 0
    fingerprint: str = ""  # of its certificate, SHA-256 in hex; "": plain HTTP
    proof: str = ""  # the key with which it proves that it is this gateway; made anew at each start
    chat: bool = False  # a chat in a terminal that serves the others while it lasts, no gateway of its own


def make_gateway_proof(key: str, nonce: str, address: object) -> str:
    """What the gateway answers to `nonce` at this address (host, port, …, as sockets tell it); "" without them. Good
    for that address alone: whoever listens at another one cannot pass it on as its own."""
    if not key or not isinstance(address, tuple) or not 16 <= len(nonce) <= 128:
        return ""
    host = str(address[0]).removeprefix("::ffff:")
    return hmac.new(key.encode(), f"gateway {nonce} {host} {address[1]}".encode(), "sha256").hexdigest()


def read_token(home: str) -> str:
    """The token, or "" if there is none that can be used. Raises StateUnwritable when others could read it."""
    path = os.path.join(home, TOKEN_FILE)
    try:
        with open(path, encoding="ascii", errors="replace") as file:
            mode = stat.S_IMODE(os.fstat(file.fileno()).st_mode)
            text = file.read(4096).strip()
    except FileNotFoundError:
        return ""
    except OSError as exc:
        raise StateUnwritable(f"cannot read {path}: {exc.strerror}", fix=f"check the owner of {home}") from None
    if mode & 0o077:
        raise StateUnwritable(
            f"{path} can be read by others (mode {mode:o})", fix="`pal doctor --fix`, or delete it: a new one is made"
        )
    return text if len(text) >= MIN_CHARS else ""


async def share_token(home: str, token: str, store: RecordStore) -> str:
    """The token of all gateways of a fleet: that of the first one, in each one's home from now on. Raises StateError
    kinds, StateUnwritable."""
    kept = await store.get_record("gateway", "token")
    if kept is None and await store.put_record("gateway", "token", token.encode(), expect=None):
        return token
    kept = kept or await store.get_record("gateway", "token")
    assert kept is not None  # nobody removes it
    shared = kept.data.decode()
    if shared != token:
        write_whole_file(os.path.join(home, TOKEN_FILE), kept.data + b"\n")
    return shared


def ensure_token(home: str) -> str:
    """The token; made (256 bit) and stored on first use. Two starts at once end up with the same one."""
    token = read_token(home)
    if token:
        return token
    path = os.path.join(home, TOKEN_FILE)
    fresh = secrets.token_urlsafe(32)
    temp = f"{path}.{os.getpid()}.{secrets.token_hex(4)}"
    try:
        os.makedirs(home, mode=0o700, exist_ok=True)
        write_whole_file(temp, fresh.encode() + b"\n")
        try:
            os.link(temp, path)  # fails if another start was faster; rename would replace its token
        except FileExistsError:
            other = read_token(home)
            if other:
                return other
            os.replace(temp, path)  # what is there cannot be a token
        return fresh
    except OSError as exc:
        fix = f"check the owner of {home} and the room on its disk"
        raise StateUnwritable(f"cannot write {path}: {exc.strerror}", fix=fix) from None
    finally:
        if os.path.exists(temp):
            os.unlink(temp)


def choose_secret(settings: GatewaySettings, home: str) -> str:
    """What opens a gateway of this home, as its own commands know it. Raises StateUnwritable."""
    return settings.token.reveal() or ensure_token(home)


def to_reachable_host(bind: str) -> str:
    """The address under which this machine reaches itself when a gateway listens on `bind`."""
    return {"0.0.0.0": "127.0.0.1", "::": "::1", "": "127.0.0.1"}.get(bind, bind)


def announce_location(home: str, place: GatewayLocation) -> None:
    """Write where we listen."""
    write_whole_file(os.path.join(home, LOCATION_FILE), msgspec.json.encode(place))


def withdraw_location(home: str, pid: int) -> None:
    """Forget it, if it is still ours."""
    place = find_location(home)
    if place is not None and place.pid == pid:
        try:
            os.unlink(os.path.join(home, LOCATION_FILE))
        except FileNotFoundError:
            pass


def find_location(home: str) -> GatewayLocation | None:
    """Where a gateway of this home said it listens. It may be gone: ask /healthz."""
    try:
        with open(os.path.join(home, LOCATION_FILE), "rb") as file:
            return msgspec.json.decode(file.read(4096), type=GatewayLocation)
    except (OSError, msgspec.DecodeError):
        return None
