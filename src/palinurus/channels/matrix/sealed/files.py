"""Files in encrypted rooms: AES-256 in counter mode, with a key of their own that the message brings."""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from hashlib import sha256
from typing import Any

from palinurus.channels.matrix.sealed.keyring import decode_base64, encode_base64
from palinurus.late import load_part


def apply_aes(key: bytes, start: bytes, data: bytes) -> bytes:
    """Both ways are the same. Takes a while for a large file."""
    ciphers = load_part("ciphers")  # 7 MB, for who gets or sends a file
    made = ciphers.Cipher(ciphers.algorithms.AES(key), ciphers.modes.CTR(start)).encryptor()
    return bytes(made.update(data) + made.finalize())


def seal_file(data: bytes) -> tuple[bytes, dict[str, Any]]:
    """What is uploaded, and what the message says of it (`file`, without its address)."""
    key, start = secrets.token_bytes(32), secrets.token_bytes(8) + bytes(8)
    sealed = apply_aes(key, start, data)
    named = encode_base64(key).replace("+", "-").replace("/", "_")
    told = {
        "v": "v2",
        "key": {"kty": "oct", "key_ops": ["encrypt", "decrypt"], "alg": "A256CTR", "k": named, "ext": True},
        "iv": encode_base64(start),
        "hashes": {"sha256": encode_base64(sha256(sealed).digest())},
    }
    return sealed, told


def open_file(sealed: bytes, told: Mapping[str, Any]) -> bytes:
    """Raises ValueError for one that was changed on the way, KeyError or TypeError for a key that is none."""
    wanted = str(told["hashes"]["sha256"]).rstrip("=")
    if encode_base64(sha256(sealed).digest()) != wanted:
        raise ValueError("it was changed on the way")
    return apply_aes(decode_base64(str(told["key"]["k"])), decode_base64(str(told["iv"]).rstrip("=")), sealed)
