"""A key for fakes that sign as Microsoft and Google do. It is in the open and proves nothing to anybody else."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from typing import Any

from palinurus.core.jwt import RsaPrivateKey, RsaPublicKey, sign_token

KEY_ID, EXPONENT = "test-key", 65537
_P = int(
    "df8ea647d53b6f0a22a236965fa263fd189bbf53959aa12df571d3fb874ab5e6a4c1663f4b14338e2f228b0a349569c10365"
    "3738f452307207f1bd33a2214f6f7f6e05e22a4cc4a660ee70178f2ede3b9035426f297679e582eb45d3c55e347158e03594"
    "f4db2652c07432eb5f2e652965ddf78dfa03d1b36f5267b79da0b007",
    16,
)
_Q = int(
    "d5c84d572ca7ce38b33a20acc900ac541b30720b35a56c04713fd6af13c984b1835d2cafa05457289fa6ce465fe2ae996258"
    "bc0a75b8cf517424ec21c2f4ae655424c3385450e46a6f3a83e2817ebb08c8f48fca8838ee87f318a54dad116138d60f4e48"
    "7f20055e5a00df22cd309723b44ad3654789fbb98d8f08f397dbba4b",
    16,
)
_PRIVATE = RsaPrivateKey(_P * _Q, pow(EXPONENT, -1, (_P - 1) * (_Q - 1)), (_P, _Q))


def read_test_key() -> RsaPublicKey:
    """Its public half."""
    return RsaPublicKey(_PRIVATE.modulus, EXPONENT)


def sign_with_test_key(claims: Mapping[str, Any], key_id: str = KEY_ID) -> str:
    """A token."""
    return sign_token(_PRIVATE, claims, key_id)


def show_test_keys(**more: Any) -> dict[str, Any]:
    """The key set that a provider would serve."""
    row = {"kty": "RSA", "use": "sig", "kid": KEY_ID, "n": _encode(_PRIVATE.modulus), "e": _encode(EXPONENT), **more}
    return {"keys": [{"kty": "EC"}, row]}


def write_test_pem() -> str:
    """Its private half as a service account has it (PKCS #8)."""
    n, d = _PRIVATE.modulus, _PRIVATE.secret
    numbers = (0, n, EXPONENT, d, _P, _Q, d % (_P - 1), d % (_Q - 1), pow(_Q, -1, _P))
    inner = _der(0x30, b"".join(_number(one) for one in numbers))
    algorithm = bytes.fromhex("300d06092a864886f70d0101010500")
    whole = base64.b64encode(_der(0x30, _number(0) + algorithm + _der(0x04, inner))).decode()
    word = "PRIVATE KEY"
    return "\n".join(
        (f"-----BEGIN {word}-----", *(whole[at : at + 64] for at in range(0, len(whole), 64)), f"-----END {word}-----")
    )


def _number(value: int) -> bytes:
    return _der(0x02, value.to_bytes(value.bit_length() // 8 + 1, "big"))


def _der(tag: int, body: bytes) -> bytes:
    size = len(body)
    if size < 0x80:
        return bytes((tag, size)) + body
    long = size.to_bytes((size.bit_length() + 7) // 8, "big")
    return bytes((tag, 0x80 | len(long))) + long + body


def _encode(value: int) -> str:
    data = value.to_bytes((value.bit_length() + 7) // 8, "big")
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()
