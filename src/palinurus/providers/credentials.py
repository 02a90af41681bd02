"""Which keys a provider has: from auth.profiles, its own apiKey, auth-profiles.json, and the environment.

Knows where keys come from and what they are called, not which is used when (`rotation`). Config and environment are
values it is given. Keys live in `Secret` and are revealed in two places, `build_key_headers` and `find_signer`.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping
from typing import Any, Literal, TypeAlias

import msgspec

from palinurus.config.sections.models import ProviderSettings
from palinurus.config.settings import Secret, Settings
from palinurus.core.types.model import ModelFailure
from palinurus.core.types.vendor import Vendor
from palinurus.patterns import compile_late
from palinurus.providers.wire import SigningKeys

Mode: TypeAlias = Literal["oauth", "token", "api_key"]
MODES: tuple[Mode, ...] = ("oauth", "token", "api_key")  # which goes first when nobody has said
LARGEST = 1_000_000  # bytes of auth-profiles.json

_SPLIT = compile_late(r"[,;\s]+")
_NUMBER = compile_late(r"_(\d{1,3})$", re.ASCII)
_REGION = compile_late(r"[a-z]{2}(-[a-z]+)+-\d")
_CREDENTIALS = ("authorization", "x-api-key", "api-key", "x-goog-api-key")


def find_key(
    provider: str, settings: ProviderSettings | None, vendor: Vendor | None, environ: Mapping[str, str], local: bool
) -> Secret | ModelFailure:
    """The key; an empty Secret where none is needed; or a ModelFailure that says where to put one."""
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
        way = f", or `pal models login {vendor.id}`" if vendor.signin is not None and not vendor.signin.closed else ""
        return ModelFailure("config", f"no API key for {vendor.name}: set {vendor.keys[0]}{pair} or {where}{way}")
    return ModelFailure("config", f"no API key for {provider}: set {where}")


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


class KeyProfile(msgspec.Struct, frozen=True):
    """One key. `source` says where it comes from, in words for people."""

    id: str
    provider: str
    secret: Secret
    mode: Mode = "api_key"
    expires: int = 0  # wall clock in ms; 0: never
    renewal: Secret = Secret()  # what a new one is fetched with
    source: str = ""
    headers: Mapping[str, str] = {}  # of every call that uses it
    base_url: str = ""  # where it is used, if not at the vendor's usual address
    since: int = 0  # when it came: of two under one name the later counts


class KeyLease(msgspec.Struct, frozen=True):
    """A key that was handed out for one call. An empty `profile` needs no key and is not watched."""

    secret: Secret = Secret()
    profile: str = ""
    model: str = ""
    at: int = 0
    others: tuple[str, ...] = ()  # what else the provider has
    bearer: bool = False  # a token of a sign-in, which goes where those go whatever the vendor's keys do
    headers: Mapping[str, str] = {}
    base_url: str = ""


def gather_profiles(
    provider: str,
    settings: Settings,
    vendor: Vendor | None,
    environ: Mapping[str, str],
    stored: Iterable[KeyProfile] = (),
) -> tuple[KeyProfile, ...]:
    """All keys of a provider: in auth.order's order if it names some; else configured, own, stored, environment."""
    found: dict[str, KeyProfile] = {}
    kept = {p.id: p for p in stored if p.provider == provider}
    for body in settings.auth.profiles.values():
        if body.provider != provider:
            continue
        if body.key:
            mode: Mode = body.mode if body.mode in MODES else "api_key"
            found[body.id] = KeyProfile(body.id, provider, body.key, mode, source=f"auth.profiles.{body.id}")
        elif body.id in kept:
            found[body.id] = kept[body.id]
    own = settings.providers.get(provider)
    if own is not None and own.api_key:
        ident = f"{provider}:config"
        found[ident] = KeyProfile(ident, provider, own.api_key, source="config")
    for ident, profile in kept.items():
        found.setdefault(ident, profile)
    order = settings.auth.order.get(provider, ())
    if not found or any(ident not in found for ident in order):
        for profile in read_variables(provider, vendor, environ):
            found.setdefault(profile.id, profile)
    ordered = [found[ident] for ident in order if ident in found]
    return _distinct(ordered or list(found.values()))


def read_variables(provider: str, vendor: Vendor | None, environ: Mapping[str, str]) -> list[KeyProfile]:
    """Keys of the first variable that has any: NAMES and NAME may hold several, NAME_1, NAME_2 … one each."""
    for name in vendor.keys if vendor is not None else ():
        numbered = sorted(
            (int(m[1]), other) for other in environ if other.startswith(f"{name}_") and (m := _NUMBER.search(other))
        )
        exact = [other for _, other in numbered if _NUMBER.sub("", other) == name]
        found = [
            KeyProfile(
                f"{provider}:{variable}" + (f"#{at}" if at > 1 else ""), provider, Secret(value), source=variable
            )
            for variable in (f"{name}S", name, *exact)
            for at, value in enumerate(_values(environ.get(variable, "")), 1)
        ]
        if found:
            return found
    return []


def _values(text: str) -> list[str]:
    return [value for value in _SPLIT.split(text) if value]


def _distinct(profiles: Iterable[KeyProfile]) -> tuple[KeyProfile, ...]:
    """The same key under two names is one key."""
    seen: dict[str, KeyProfile] = {}
    for profile in profiles:
        seen.setdefault(profile.secret.reveal(), profile)
    return tuple(seen.values())


# --- auth-profiles.json ---------------------------------------------------------------------------------------


def load_stored(home: str, agent: str) -> tuple[KeyProfile, ...]:
    """The keys OpenClaw's file of that name holds; () when there is none or it cannot be read. Read-only."""
    path = os.path.join(home, "agents", agent, "agent", "auth-profiles.json")
    try:
        with open(path, "rb") as handle:
            raw = msgspec.json.decode(handle.read(LARGEST))
    except (OSError, msgspec.DecodeError, RecursionError):
        return ()
    listed = raw.get("profiles") if isinstance(raw, dict) else None
    if not isinstance(listed, dict):
        return ()
    made = (_entry(ident, body) for ident, body in listed.items() if isinstance(body, dict))
    return tuple(profile for profile in made if profile is not None)


def _entry(ident: str, body: dict[str, Any]) -> KeyProfile | None:
    mode = body.get("type", body.get("mode"))
    provider = body.get("provider")
    secret = next((body[k] for k in ("access", "token", "key") if isinstance(body.get(k), str) and body[k]), None)
    if not isinstance(provider, str) or not isinstance(secret, str) or mode not in MODES:
        return None
    expires = body.get("expires")
    renewal = body.get("refresh")
    return KeyProfile(
        ident,
        provider.strip().lower(),
        Secret(secret),
        mode,
        expires=expires if isinstance(expires, int) and not isinstance(expires, bool) else 0,
        renewal=Secret(renewal if isinstance(renewal, str) else ""),
        source="auth-profiles.json",
    )
