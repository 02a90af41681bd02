"""What is signed to get a token, and to use one: a program's name where no person signs in, and proofs that a token is
used by who it was made for (DPoP, RFC 9449). Needs PyJWT and `cryptography`, which the SDK brings."""

from __future__ import annotations

import base64
import hashlib
import json
import secrets

import jwt
from cryptography.hazmat.primitives.asymmetric.ec import SECP256R1, EllipticCurvePrivateKey, generate_private_key
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, load_pem_private_key
from jwt.algorithms import ECAlgorithm

from palinurus.config.sections.mcp import McpOAuthSettings

BEARER = "urn:ietf:params:oauth:grant-type:jwt-bearer"
SIGNED = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"
LIFE = 120  # seconds that a signed name is good for


def make_grant(oauth: McpOAuthSettings, issuer: str, now: int) -> dict[str, str]:
    """The form, but for what is the same for all. Raises ValueError: a key that is none."""
    if oauth.grant in ("jwt-bearer", "enterprise"):
        return {"grant_type": BEARER, "assertion": oauth.assertion.reveal()}
    if not oauth.key:
        return {"grant_type": "client_credentials"}
    key = load_pem_private_key(oauth.key.reveal().encode(), None)
    claims = {"iss": oauth.client_id, "sub": oauth.client_id, "aud": issuer, "jti": secrets.token_hex(16)}
    words = "ES256" if isinstance(key, EllipticCurvePrivateKey) else "RS256"
    signed = jwt.encode({**claims, "iat": now, "exp": now + LIFE}, oauth.key.reveal(), algorithm=words)
    return {"grant_type": "client_credentials", "client_assertion_type": SIGNED, "client_assertion": signed}


def make_proof_key() -> str:
    """A new one, PEM."""
    made = generate_private_key(SECP256R1())
    return made.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode()


def sign_proof(key: str, method: str, url: str, now: int, *, token: str = "", nonce: str = "") -> str:
    """For one request, with the token that it carries and the nonce that its server last gave. `now` in seconds."""
    private = load_pem_private_key(key.encode(), None)
    assert isinstance(private, EllipticCurvePrivateKey)
    public = json.loads(ECAlgorithm.to_jwk(private.public_key()))
    public = {name: public[name] for name in ("kty", "crv", "x", "y")}
    said = {"jti": secrets.token_hex(16), "htm": method, "htu": url.partition("#")[0].partition("?")[0], "iat": now}
    if token:
        said["ath"] = base64.urlsafe_b64encode(hashlib.sha256(token.encode()).digest()).decode().rstrip("=")
    said |= {"nonce": nonce} if nonce else {}
    return jwt.encode(said, private, algorithm="ES256", headers={"typ": "dpop+jwt", "jwk": public})
