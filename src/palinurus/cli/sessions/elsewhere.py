"""`pal sessions` where `gateway.mode` is remote: the conversations are the other gateway's, and it is asked. What needs
its files is done on its machine, and says so; what lies here is never shown in their place.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import Any

from palinurus.cli.args import read_session_key, to_json
from palinurus.cli.reach.elsewhere import refuse_elsewhere
from palinurus.cli.reach.gateway import call_gateway
from palinurus.cli.render import strip_controls
from palinurus.config.settings import Settings
from palinurus.sessions.entries import to_iso

Ask = Callable[[str, dict[str, Any]], Any]
MOST = 1000  # messages that are asked for at once


def run_elsewhere(settings: Settings, asked: argparse.Namespace) -> None:
    """Raises BadRequest for what cannot be done from here, Unauthorized, GatewayUnreachable."""
    run = _VERBS.get(asked.what)
    if run is None:
        raise refuse_elsewhere(settings, f"sessions {asked.what}", ", ".join(_VERBS))
    run(lambda method, params: call_gateway(settings, method, params), asked)


def _list(ask: Ask, asked: argparse.Namespace) -> None:
    params = {"includeDerivedTitles": True, **({"agentId": asked.agent} if asked.agent else {})}
    rows = ask("sessions.list", params)["sessions"]
    if asked.json:
        print(to_json(rows))
        return
    for row in rows:
        title = next((row[k] for k in ("label", "displayName", "derivedTitle") if row.get(k)), "")
        model = "/".join(str(row[k]) for k in ("modelProvider", "model") if row.get(k)) or "-"
        print(strip_controls(f"{to_iso(row.get('updatedAt') or 0)[:16]}  {row['key']}  {model}  {title}").rstrip())
    if not rows:
        print("no sessions yet")


def _show(ask: Ask, asked: argparse.Namespace) -> None:
    count = min(asked.limit, MOST) if asked.limit > 0 else MOST
    found = ask("sessions.get", {"key": str(read_session_key(asked.key)), "limit": count})["messages"]
    if asked.json:
        print(to_json(found))
        return
    for message in found:
        content = message.get("content") or ""
        texts = [content] if isinstance(content, str) else [str(one.get("text") or "") for one in content]
        print(strip_controls(f"\n[{message.get('role')}]\n{' '.join(filter(None, texts))}"))


def _search(ask: Ask, asked: argparse.Namespace) -> None:
    text = " ".join(f'"{word}"' if " " in word else word for word in asked.text)
    params = {"query": text, "limit": min(asked.limit, 100), **({"agentId": asked.agent} if asked.agent else {})}
    hits = ask("sessions.search", params)["hits"]
    if asked.json:
        print(to_json(hits))
        return
    for hit in hits:
        print(
            strip_controls(
                f"{to_iso(hit['at'])[:16]}  {hit['key']}  {hit['messageId']}  {hit['role']}\n    {hit['text']}"
            )
        )
    if not hits:
        print("nothing found")


def _reset(ask: Ask, asked: argparse.Namespace) -> None:
    key = str(read_session_key(asked.key))
    ask("sessions.reset", {"key": key})
    print(f"{key} starts anew")


def _delete(ask: Ask, asked: argparse.Namespace) -> None:
    key = str(read_session_key(asked.key))
    ask("sessions.delete", {"key": key})
    print(f"deleted {key}")


_VERBS: dict[str, Callable[[Ask, argparse.Namespace], None]] = {
    "list": _list,
    "show": _show,
    "search": _search,
    "reset": _reset,
    "delete": _delete,
}
