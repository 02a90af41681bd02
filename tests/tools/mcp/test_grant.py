"""What a program says where no person signs in."""

from __future__ import annotations

import jwt
import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa

from palinurus.config.secrets import Secret
from palinurus.config.sections.mcp import McpOAuthSettings
from palinurus.tools.mcp.grant import LIFE, SIGNED, make_grant


@pytest.mark.parametrize("kind", ["ES256", "RS256"])
def test_a_name_signed_with_a_key_of_either_kind(kind: str) -> None:
    key = ec.generate_private_key(ec.SECP256R1()) if kind == "ES256" else rsa.generate_private_key(65537, 2048)
    plain = serialization.NoEncryption()
    pem = key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, plain).decode()
    form = make_grant(McpOAuthSettings("robot", grant="client_credentials", key=Secret(pem)), "https://a.example", 1000)
    assert (form["grant_type"], form["client_assertion_type"]) == ("client_credentials", SIGNED)
    loose = {"verify_exp": False, "verify_iat": False}
    told = jwt.decode(
        form["client_assertion"], key.public_key(), algorithms=[kind], audience="https://a.example", options=loose
    )
    assert (told["iss"], told["sub"], told["exp"]) == ("robot", "robot", 1000 + LIFE) and told["jti"]


def test_a_secret_needs_no_signature() -> None:
    form = make_grant(McpOAuthSettings("robot", Secret("s"), grant="client_credentials"), "https://a.example", 0)
    assert form == {"grant_type": "client_credentials"}
