"""The claude command line as a provider: it does whole runs (`agent/runtimes/claude.py`), with its own sign-in. The
level goes along as an argument."""

from __future__ import annotations

from palinurus.core.types.vendor import Vendor
from palinurus.providers.vendors import claude


def build_effort_arguments(level: str, model_id: str = "") -> tuple[str, ...]:
    """`--effort` and the word for a level that thinks; nothing for off. Its words are those of `output_config`."""
    if level in ("off", "none", ""):
        return ()
    return ("--effort", claude.choose_claude_effort(level, model_id or "claude-opus-4-8"))


CLAUDE_PROGRAM = Vendor(
    id="claude-cli",
    name="Claude Code (program)",
    api="runtime",
    base_url="",
    keyless=True,
    profile=claude.resolve_model_profile,
    reasons=claude.can_claude_reason,
)
