"""HTTPS: the certificate and key of `gateway.tls`, made by `openssl` at the first start where none are named.

A client of this home knows the certificate by its fingerprint (SHA-256), which the gateway leaves in gateway.json.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import ssl
import subprocess
import tempfile

import msgspec

from palinurus.config.settings import Settings
from palinurus.errors import ConfigError, Problem
from palinurus.files import read_plain_file

CERTIFICATE = os.path.join("gateway", "tls", "gateway-cert.pem")
KEY = os.path.join("gateway", "tls", "gateway-key.pem")
BYTES = 1 << 20
DAYS = 3650  # nobody renews it: who trusts it trusts this very fingerprint
_MAKE = (
    *("req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-sha256"),
    *("-days", str(DAYS), "-subj", "/CN=palinurus-gateway"),
    *("-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1,IP:::1"),
)


class ServedCertificate(msgspec.Struct, frozen=True):
    """What a server needs to speak TLS, and what its clients know it by."""

    context: ssl.SSLContext
    fingerprint: str  # hex


def load_certificate(settings: Settings) -> ServedCertificate:
    """The certificate to serve with, made first if that is asked for. Raises ConfigError."""
    tls = settings.gateway.tls
    cert, key = _locate(settings)
    own = not tls.cert_path
    if tls.auto_generate and not os.path.exists(cert) and (own or not os.path.exists(key)):
        _make(cert, key)
    text = _read(cert, "certPath")
    try:
        fingerprint = _digest(text)
    except (ValueError, ssl.SSLError):
        raise _bad(
            "certPath", f"{cert} holds no certificate", "it must be a PEM file, the server's own first"
        ) from None
    if b"PRIVATE KEY-----" not in _read(key, "keyPath"):
        raise _bad("keyPath", f"{key} holds no private key", "it must be a PEM file without a passphrase")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    try:
        context.load_cert_chain(cert, key, password=lambda: b"")  # never ask at a terminal
    except ssl.SSLError as exc:
        if exc.reason == "KEY_VALUES_MISMATCH":
            raise _bad(
                "keyPath", f"{key} belongs to another certificate than {cert}", "name the two that were made together"
            ) from None
        hint = "is one of the files damaged, or the key protected by a passphrase?"
        raise _bad("keyPath", f"{cert} and {key} cannot be used: {exc.reason or exc}", hint) from None
    return ServedCertificate(context, fingerprint)


def format_fingerprint(digest: str) -> str:
    """As browsers and `openssl x509 -fingerprint` show it."""
    return ":".join(digest[at : at + 2] for at in range(0, len(digest), 2)).upper()


def _locate(settings: Settings) -> tuple[str, str]:
    tls = settings.gateway.tls
    return tls.cert_path or os.path.join(settings.home, CERTIFICATE), tls.key_path or os.path.join(settings.home, KEY)


def _digest(text: bytes) -> str:
    """Of the first certificate. Raises ValueError and SSLError where there is none."""
    begin, end = b"-----BEGIN CERTIFICATE-----", b"-----END CERTIFICATE-----"
    first = begin + text.partition(begin)[2].partition(end)[0] + end + b"\n"
    found = ssl.PEM_cert_to_DER_cert(first.decode("ascii"))
    ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT).load_verify_locations(cadata=found)
    return hashlib.sha256(found).hexdigest()


def _read(path: str, key: str) -> bytes:
    try:
        return read_plain_file(os.path.realpath(path), BYTES)  # certbot names its newest by a link
    except OSError as exc:
        raise _bad(key, f"{path} cannot be read: {exc.strerror or exc}", "check the path and who may read it") from None


def _make(cert: str, key: str) -> None:
    """A key and its self-signed certificate. The certificate comes last: one that is there has its key beside it."""
    program = shutil.which("openssl")
    hint = "install openssl, or name a certificate and its key with gateway.tls.certPath and keyPath"
    if program is None:
        raise _bad("autoGenerate", "making a certificate needs the program openssl, which is not there", hint)
    try:
        for folder in (os.path.dirname(key), os.path.dirname(cert)):
            os.makedirs(folder, mode=0o700, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=os.path.dirname(key)) as place:
            made = os.path.join(place, "key"), os.path.join(place, "cert")
            command = [program, *_MAKE, "-keyout", made[0], "-out", made[1]]
            subprocess.run(command, check=True, capture_output=True, timeout=60, umask=0o077)
            os.replace(made[0], key)
            shutil.move(made[1], cert)
    except subprocess.SubprocessError as exc:
        said = (getattr(exc, "stderr", None) or b"").decode(errors="replace").strip().splitlines()
        raise _bad("autoGenerate", f"openssl made no certificate: {said[-1] if said else exc}", hint) from None
    except OSError as exc:
        raise _bad("autoGenerate", f"{exc.filename or cert} cannot be written: {exc.strerror}", hint) from None


def _bad(key: str, message: str, hint: str) -> ConfigError:
    return ConfigError((Problem(f"gateway.tls.{key}", message, hint=hint),))
