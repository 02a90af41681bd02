"""The account's own keys (cross-signing), which vouch for our device: other people's clients show it as verified then,
and those that speak to verified devices only speak to it. Made by us where the account has none; where a person made
them (Element does), the account's recovery key opens the one that signs.
"""

from __future__ import annotations

import asyncio
import hmac
import secrets
from collections.abc import Awaitable, Callable, Mapping
from hashlib import sha256
from typing import Any

import aiohttp
from nacl.bindings import crypto_sign, crypto_sign_seed_keypair

from palinurus.channels.kit import ChannelKit, decode_object, read_secret
from palinurus.channels.matrix.api import MatrixApi, build_path
from palinurus.channels.matrix.sealed.files import apply_aes
from palinurus.channels.matrix.sealed.keyring import (
    OlmKeyring,
    decode_base64,
    encode_base64,
    is_signed_by,
    write_canonical,
)
from palinurus.core.types.channel import SendFailure

KINDS = ("master", "self_signing", "user_signing")
_DIGITS = "123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz"
_UNSIGNED = "people see this device as not verified: {why}"
_NO_RECOVERY = "the account has keys of its own that are not ours; set recoveryKey to its recovery key"


class SigningKey:
    """One of the account's own keys."""

    def __init__(self, seed: bytes) -> None:
        self._public, self._private = crypto_sign_seed_keypair(seed)
        self.name = encode_base64(self._public)

    def sign(self, value: Mapping[str, Any], user: str) -> dict[str, Any]:
        """With our signature beside those it has."""
        made = encode_base64(crypto_sign(write_canonical(value), self._private)[:64])
        there = {who: dict(rows) for who, rows in (value.get("signatures") or {}).items()}
        there.setdefault(user, {})[f"ed25519:{self.name}"] = made
        return {**value, "signatures": there}


async def sign_own_device(
    kit: ChannelKit, calls: MatrixApi, own: OlmKeyring, told: Mapping[str, Any], *, save: Callable[[], Awaitable[None]]
) -> str:
    """Have the account's keys vouch for our device. `told` is what the server says of us. Returns what is missing for
    that, for people; "" for nothing."""
    kept: dict[str, Any] = {kind: (told.get(f"{kind}_keys") or {}).get(own.me) or {} for kind in KINDS[:2]}
    if not kept["master"]:
        if not own.seeds:
            own.seeds = {kind: encode_base64(secrets.token_bytes(32)) for kind in KINDS}
            await save()  # before the server has them: a key that is lost could never be changed without a person
        if why := await _publish(kit, calls, own):
            return _UNSIGNED.format(why=why)
        signer = SigningKey(decode_base64(own.seeds["self_signing"]))
    else:
        there = next(iter((kept["self_signing"].get("keys") or {}).values()), "")
        device = (told.get("device_keys", {}).get(own.me) or {}).get(own.device) or {}
        if there and is_signed_by(device, own.me, there, there):
            return ""
        found = await _find_signer(kit, calls, own, there)
        if isinstance(found, str):
            return _UNSIGNED.format(why=found)
        signer = found
    given = {own.me: {own.device: signer.sign(own.describe_device(), own.me)}}
    done = await calls.call("POST", build_path("keys", "signatures", "upload"), given)
    return _UNSIGNED.format(why=done.reason) if isinstance(done, SendFailure) else ""


async def _find_signer(kit: ChannelKit, calls: MatrixApi, own: OlmKeyring, there: str) -> SigningKey | str:
    """The key that is called `there` on the server: one of ours, or one that the recovery key opens."""
    if own.seeds and (ours := SigningKey(decode_base64(own.seeds["self_signing"]))).name == there:
        return ours
    recovery = read_secret(kit.own.get("recoveryKey"))
    if not recovery:
        return _NO_RECOVERY
    try:
        seed = await _open_secret(calls, own.me, decode_recovery_key(recovery.reveal()))
        found = SigningKey(decode_base64(seed))
    except (ValueError, KeyError, TypeError):
        return "the recovery key does not open the account's keys"
    return found if found.name == there else "the recovery key is of older keys of the account"


async def _publish(kit: ChannelKit, calls: MatrixApi, own: OlmKeyring) -> str:
    keys = {kind: SigningKey(decode_base64(own.seeds[kind])) for kind in KINDS}
    given: dict[str, Any] = {}
    for kind, key in keys.items():
        row = {"user_id": own.me, "usage": [kind], "keys": {f"ed25519:{key.name}": key.name}}
        given[f"{kind}_key"] = row if kind == "master" else keys["master"].sign(row, own.me)
    status, told = await _post(calls, build_path("keys", "device_signing", "upload"), given)
    password = read_secret(kit.own.get("password"))
    if status == 401 and password:
        who = {"type": "m.id.user", "user": own.me}
        auth = {"type": "m.login.password", "identifier": who, "password": password.reveal()}
        given["auth"] = {**auth, "session": told.get("session")}
        status, told = await _post(calls, build_path("keys", "device_signing", "upload"), given)
    if status < 300:
        return ""
    return "the server wants the account's password for its first keys" if status == 401 else f"answer {status}"


async def _post(calls: MatrixApi, path: str, given: Mapping[str, Any]) -> tuple[int, dict[str, Any]]:
    """Also what comes with a refusal: it says how to sign in."""
    try:
        async with calls.open("POST", path, write_canonical(given)) as answer:
            return answer.status, decode_object(await answer.read())
    except (aiohttp.ClientError, TimeoutError, OSError):
        return 503, {}


def decode_recovery_key(text: str) -> bytes:
    """Raises ValueError."""
    number = 0
    for letter in "".join(text.split()):
        number = number * 58 + _DIGITS.index(letter)
    data = number.to_bytes(35, "big") if number < 1 << 280 else b""
    parity = 0
    for byte in data:
        parity ^= byte
    if data[:2] != b"\x8b\x01" or parity:
        raise ValueError("no recovery key")
    return data[2:34]


async def _open_secret(calls: MatrixApi, me: str, key: bytes) -> str:
    """The seed of the key that signs devices. Raises ValueError, KeyError."""
    rows = []
    for name in ("m.secret_storage.default_key", "m.cross_signing.self_signing"):
        told = await calls.call("GET", build_path("user", me, "account_data", name))
        if isinstance(told, SendFailure):
            raise ValueError(told.reason)
        rows.append(told)
    sealed = rows[1]["encrypted"][rows[0]["key"]]
    return await asyncio.to_thread(open_stored_secret, key, "m.cross_signing.self_signing", sealed)


def open_stored_secret(key: bytes, name: str, sealed: Mapping[str, str]) -> str:
    """m.secret_storage.v1.aes-hmac-sha2. Raises ValueError where the key does not fit."""
    first = hmac.digest(hmac.digest(bytes(32), key, sha256), name.encode() + b"\x01", sha256)  # HKDF, two blocks
    second = hmac.digest(hmac.digest(bytes(32), key, sha256), first + name.encode() + b"\x02", sha256)
    text = decode_base64(sealed["ciphertext"])
    if not hmac.compare_digest(hmac.digest(second, text, sha256), decode_base64(sealed["mac"])):
        raise ValueError("another key")
    return apply_aes(first, decode_base64(sealed["iv"]), text).decode()
