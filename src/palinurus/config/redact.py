"""The config for eyes that must not see its secrets, and the way back: what was shown stands for what is stored. Pure.

A client reads the config, changes something and sends the whole back. Wherever it sends exactly what it was shown in
place of a secret, the stored secret is meant.
"""

from __future__ import annotations

from typing import Any

from palinurus.config.keypath import Path, show_path
from palinurus.config.secrets import MASK, mask_secrets

MARKER = "__OPENCLAW_REDACTED__"  # what clients of this protocol know


class LostSecret(Exception):
    """A marker came back where no secret is stored; the text names the place."""


def redact_config(value: Any, path: Path = ()) -> Any:
    """`value` (which stands at `path`) with the marker for every secret."""
    return _marked(value, mask_secrets(value, path))


def _marked(value: Any, masked: Any) -> Any:
    if isinstance(value, dict):
        return {key: _marked(value[key], masked[key]) for key in value}
    if isinstance(value, list):
        return [_marked(one, other) for one, other in zip(value, masked, strict=True)]
    return MARKER if masked == MASK and value != MASK else masked


def restore_secrets(sent: Any, stored: Any, path: Path = ()) -> Any:
    """`sent` with the stored secrets where it has what `redacted` showed for them. Raises Lost."""
    if isinstance(sent, dict):
        old = stored if isinstance(stored, dict) else {}
        return {key: restore_secrets(value, old.get(key), (*path, key)) for key, value in sent.items()}
    if isinstance(sent, list):
        old_items = stored if isinstance(stored, list) else []
        return [restore_secrets(one, _twin(one, at, old_items, path), (*path, at)) for at, one in enumerate(sent)]
    if isinstance(stored, str | int | float) and sent == redact_config(stored, path):
        return stored
    if sent == MARKER:
        raise LostSecret(show_path(path))
    return sent


def _twin(sent: Any, at: int, stored: list[Any], path: Path) -> Any:
    """The stored item that an item of a list came from: the one in its place if it looks the same, else the one with
    its id, else one that looks the same, else the one in its place."""
    here = stored[at] if at < len(stored) else None
    if not isinstance(sent, dict) or redact_config(here, (*path, at)) == sent:
        return here
    if "id" in sent:
        return next((old for old in stored if isinstance(old, dict) and old.get("id") == sent["id"]), None)
    return next((old for place, old in enumerate(stored) if redact_config(old, (*path, place)) == sent), here)
