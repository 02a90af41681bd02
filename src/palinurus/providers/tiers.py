"""Service tiers and fast mode: when one is sent. The words and hosts come from each vendor's file.

A tier is a price, so it goes only to the vendor's own hosts.
"""

from __future__ import annotations

from typing import Any

from palinurus.core.types.model import ModelRequest
from palinurus.providers.address import parse_host


def is_official_host(request: ModelRequest, hosts: tuple[str, ...]) -> bool:
    """Does the request go to one of these hosts? A leading dot matches any subdomain; no URL means the vendor's."""
    name = parse_host(request.model.base_url)
    if not request.model.base_url:
        return True
    return any(name.endswith(h) if h.startswith(".") else name == h for h in hosts)


def find_explicit_tier(request: ModelRequest, valid: tuple[str, ...]) -> str | None:
    """params.serviceTier or params.service_tier if it is a tier this vendor knows; others are ignored."""
    for key in ("serviceTier", "service_tier"):
        value = request.model.params.get(key)
        if isinstance(value, str) and value in valid:
            return value
    return None


def add_service_tier(
    body: dict[str, Any], request: ModelRequest, valid: tuple[str, ...], on: str, off: str | None = None
) -> dict[str, Any]:
    """Add service_tier: what the body has stays; an explicit one beats fast mode; never set means none."""
    if "service_tier" in body:
        return body
    word = find_explicit_tier(request, valid)
    if word is None:
        word = {True: on, False: off}.get(request.fast) if request.fast is not None else None
    return {**body, "service_tier": word} if word else body
