"""Plugins on disk, for tests."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from palinurus.config.load import load_config
from palinurus.config.settings import Settings

EVERY = ["tools", "hooks", "commands", "vendors", "channels", "skills"]


def plugin(folder: Path, code: str = "", **manifest: Any) -> Path:
    """A plugin folder; `code` is the body of `register(api)`."""
    folder.mkdir(parents=True)
    told = {"id": folder.name, "capabilities": EVERY, **manifest}
    (folder / "palinurus.plugin.json").write_text(
        json.dumps({k: v for k, v in told.items() if v is not None}, indent=1)
    )
    body = "".join(f"    {line}\n" for line in (code or "pass").splitlines())
    (folder / "plugin.py").write_text(f"def register(api):\n{body}")
    return folder


def settings(home: Path, *ids: str, **config: Any) -> Settings:
    """A home in which these plugins are enabled."""
    home.mkdir(exist_ok=True)
    written = {"plugins": {"entries": {ident: {"enabled": True} for ident in ids}}, **config}
    (home / "palinurus.json").write_text(json.dumps(written, indent=1))
    return load_config(str(home), {}).settings
