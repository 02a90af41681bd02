"""Which key goes to which provider. Keys live in `Secret` and are revealed in one place, `headers`.

Knows config and environment as values it is given; reads neither by itself.
"""

from __future__ import annotations

from collections.abc import Mapping

from palinurus.config.settings import ProviderSettings, Secret
from palinurus.core.types.model import Failure
from palinurus.core.types.vendor import Vendor

_CREDENTIALS = ("authorization", "x-api-key", "api-key", "x-goog-api-key")


def find_key(
    provider: str, settings: ProviderSettings | None, vendor: Vendor | None, environ: Mapping[str, str], local: bool
) -> Secret | Failure:
    """The key; an empty Secret where none is needed; or a Failure that says where to put one."""
    if settings is not None and settings.api_key:
        return settings.api_key
    for name in vendor.keys if vendor is not None else ():
        if value := environ.get(name, "").strip():
            return Secret(value)
    if local or (vendor is not None and vendor.keyless):
        return Secret()
    if settings is not None and any(h.lower() in _CREDENTIALS for h in settings.headers):
        return Secret()
    where = f"models.providers.{provider}.apiKey in palinurus.json"
    if vendor is not None and vendor.keys:
        return Failure("config", f"no API key for {vendor.name}: set {vendor.keys[0]} or {where}")
    return Failure("config", f"no API key for {provider}: set {where}")


def source(settings: ProviderSettings | None, vendor: Vendor | None, environ: Mapping[str, str]) -> str:
    """Where the key comes from, for people: "config", the variable's name, or ""."""
    if settings is not None and settings.api_key:
        return "config"
    return next((n for n in (vendor.keys if vendor else ()) if environ.get(n, "").strip()), "")


def headers(key: Secret, header: str) -> dict[str, str]:
    """The one header that carries the key."""
    if not key:
        return {}
    value = key.reveal().strip()
    return {header: f"Bearer {value}" if header.lower() == "authorization" else value}
