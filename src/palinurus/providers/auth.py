"""Which key goes to which provider. Keys live in `Secret` and are revealed in two places, `headers` and `signer`.

Knows config and environment as values it is given; reads neither by itself.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from palinurus.config.settings import ProviderSettings, Secret
from palinurus.core.types.model import ModelFailure
from palinurus.core.types.vendor import Vendor
from palinurus.providers.wire import SigningKeys

_REGION = re.compile(r"[a-z]{2}(-[a-z]+)+-\d")
_CREDENTIALS = ("authorization", "x-api-key", "api-key", "x-goog-api-key")


def find_key(
    provider: str, settings: ProviderSettings | None, vendor: Vendor | None, environ: Mapping[str, str], local: bool
) -> Secret | ModelFailure:
    """The key; an empty Secret where none is needed; or a Failure that says where to put one."""
    if settings is not None and settings.api_key:
        return settings.api_key
    for name in vendor.keys if vendor is not None else ():
        if value := environ.get(name, "").strip():
            return Secret(value)
    if local or (vendor is not None and vendor.keyless) or find_signer(vendor, environ) is not None:
        return Secret()
    if settings is not None and any(h.lower() in _CREDENTIALS for h in settings.headers):
        return Secret()
    where = f"models.providers.{provider}.apiKey in palinurus.json"
    if vendor is not None and vendor.keys:
        pair = f", {vendor.signing.access} and {vendor.signing.secret}," if vendor.signing else ""
        return ModelFailure("config", f"no API key for {vendor.name}: set {vendor.keys[0]}{pair} or {where}")
    return ModelFailure("config", f"no API key for {provider}: set {where}")


def find_key_source(settings: ProviderSettings | None, vendor: Vendor | None, environ: Mapping[str, str]) -> str:
    """Where the key comes from, for people: "config", the variable's name, or ""."""
    if settings is not None and settings.api_key:
        return "config"
    named = next((n for n in (vendor.keys if vendor else ()) if environ.get(n, "").strip()), "")
    if not named and vendor is not None and vendor.signing and find_signer(vendor, environ) is not None:
        return vendor.signing.access
    return named


def find_signer(vendor: Vendor | None, environ: Mapping[str, str]) -> SigningKeys | None:
    """The credentials to sign with, for a vendor that takes signatures; None when there are none."""
    names = vendor.signing if vendor is not None else None
    if names is None:
        return None
    access, secret, token = (environ.get(n, "").strip() for n in (names.access, names.secret, names.token))
    return SigningKeys(access, secret, token, find_region(vendor, environ)) if access and secret else None


def find_region(vendor: Vendor | None, environ: Mapping[str, str]) -> str:
    """The region the environment names, else the vendor's own; "" for vendors without regions."""
    names = vendor.signing if vendor is not None else None
    if names is None:
        return ""
    told = (environ.get(name, "").strip() for name in names.regions)
    return next((word for word in told if _REGION.fullmatch(word)), names.region)


def resolve_base_url(url: str, vendor: Vendor | None, environ: Mapping[str, str]) -> str:
    """Where a model is reached: the vendor's own address moves to the region of the environment, others stay."""
    if vendor is None or vendor.signing is None or url != vendor.base_url:
        return url
    return url.replace(vendor.signing.region, find_region(vendor, environ))


def build_key_headers(key: Secret, header: str) -> dict[str, str]:
    """The one header that carries the key."""
    if not key:
        return {}
    value = key.reveal().strip()
    return {header: f"Bearer {value}" if header.lower() == "authorization" else value}
