"""What a program says where no person signs in."""

from __future__ import annotations

import base64
import hashlib

import jwt
import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa

from palinurus.config.secrets import Secret
from palinurus.config.sections.mcp import McpOAuthSettings
from palinurus.tools.mcp.grant import LIFE, SIGNED, make_grant, make_proof_key, sign_proof


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


def test_a_proof_is_bound_to_request_token_and_key() -> None:
    key = make_proof_key()
    proof = sign_proof(key, "POST", "https://a.example/mcp?x=1#y", 1000, token="t", nonce="n")
    head = jwt.get_unverified_header(proof)
    assert (head["typ"], head["alg"], sorted(head["jwk"])) == ("dpop+jwt", "ES256", ["crv", "kty", "x", "y"])
    loose = {"verify_iat": False}
    told = jwt.decode(proof, jwt.PyJWK(head["jwk"], "ES256"), algorithms=["ES256"], options=loose)
    digest = base64.urlsafe_b64encode(hashlib.sha256(b"t").digest()).decode().rstrip("=")
    right = {"htm": "POST", "htu": "https://a.example/mcp", "iat": 1000, "ath": digest, "nonce": "n"}
    assert told.pop("jti") and told == right
    again = jwt.get_unverified_header(sign_proof(key, "POST", "https://a.example/mcp", 1000))
    assert again["jwk"] == head["jwk"] != jwt.get_unverified_header(sign_proof(make_proof_key(), "GET", "x", 0))["jwk"]


def test_a_secret_needs_no_signature() -> None:
    form = make_grant(McpOAuthSettings("robot", Secret("s"), grant="client_credentials"), "https://a.example", 0)
    assert form == {"grant_type": "client_credentials"}
