"""How Feishu seals an event, with a library: AES-256-CBC, the SHA-256 of the key, the initial vector in front."""

from __future__ import annotations

import base64
import hashlib

from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes


def seal_event(key: str, plain: bytes) -> str:
    start, count = b"0123456789abcdef", 16 - len(plain) % 16
    cipher = Cipher(algorithms.AES(hashlib.sha256(key.encode()).digest()), modes.CBC(start)).encryptor()
    return base64.b64encode(start + cipher.update(plain + bytes((count,)) * count) + cipher.finalize()).decode()
