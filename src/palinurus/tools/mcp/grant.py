"""What a program says to get a token where no person signs in. A signed name needs PyJWT, which the SDK brings."""

from __future__ import annotations

import secrets

import jwt
from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey
from cryptography.hazmat.primitives.serialization import load_pem_private_key

from palinurus.config.sections.mcp import McpOAuthSettings

BEARER = "urn:ietf:params:oauth:grant-type:jwt-bearer"
SIGNED = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"
LIFE = 120  # seconds that a signed name is good for


def make_grant(oauth: McpOAuthSettings, issuer: str, now: int) -> dict[str, str]:
    """The form, but for what is the same for all. Raises ValueError: a key that is none."""
    if oauth.grant == "jwt-bearer":
        return {"grant_type": BEARER, "assertion": oauth.assertion.reveal()}
    if not oauth.key:
        return {"grant_type": "client_credentials"}
    key = load_pem_private_key(oauth.key.reveal().encode(), None)
    claims = {"iss": oauth.client_id, "sub": oauth.client_id, "aud": issuer, "jti": secrets.token_hex(16)}
    words = "ES256" if isinstance(key, EllipticCurvePrivateKey) else "RS256"
    signed = jwt.encode({**claims, "iat": now, "exp": now + LIFE}, oauth.key.reveal(), algorithm=words)
    return {"grant_type": "client_credentials", "client_assertion_type": SIGNED, "client_assertion": signed}
