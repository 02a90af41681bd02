"""Anthropic: the Claude models at their maker's, and inside the claude command line."""

from __future__ import annotations

from typing import Any

from palinurus.core.types.model import ModelRequest
from palinurus.core.types.signin import SignInRow
from palinurus.core.types.vendor import Vendor, make_thinking_model
from palinurus.providers import tiers
from palinurus.providers.vendors import claude

_HOSTS = ("api.anthropic.com",)
_TIERS = ("auto", "standard_only")


def shape_anthropic_body(body: dict[str, Any], request: ModelRequest) -> dict[str, Any]:
    """Thinking, and the service tier: fast is auto, not fast is standard_only; only at the maker's own address."""
    shaped = claude.shape_claude_body(body, request)
    official = tiers.is_official_host(request, _HOSTS)
    return tiers.add_service_tier(shaped, request, _TIERS, "auto", off="standard_only") if official else shaped


VENDOR = Vendor(
    id="anthropic",
    name="Anthropic",
    api="anthropic-messages",
    base_url="https://api.anthropic.com",
    keys=("ANTHROPIC_API_KEY",),
    auth_header="x-api-key",
    models=(
        make_thinking_model("claude-sonnet-4-6", "Claude Sonnet 4.6", 1_000_000),
        make_thinking_model("claude-opus-4-8", "Claude Opus 4.8", 1_000_000, 128_000),
        make_thinking_model("claude-opus-4-7", "Claude Opus 4.7", 1_000_000, 128_000),
        make_thinking_model("claude-opus-4-6", "Claude Opus 4.6", 1_000_000, 128_000),
        make_thinking_model("claude-fable-5", "Claude Fable 5", 1_000_000, 128_000),
        make_thinking_model("claude-haiku-4-5", "Claude Haiku 4.5"),
        make_thinking_model("claude-sonnet-4-5", "Claude Sonnet 4.5"),
        make_thinking_model("claude-opus-4-5", "Claude Opus 4.5"),
        make_thinking_model("claude-opus-4-1", "Claude Opus 4.1", 200_000, 32_000),
    ),
    profile=claude.resolve_model_profile,
    shape=shape_anthropic_body,
    reasons=claude.can_claude_reason,
    signin=SignInRow(
        closed="Anthropic's terms do not let other programs use a Claude subscription: use an API key"
        " (`pal models add anthropic`), or the `claude` program as runtime, which signs in itself (docs/runtimes.md)"
    ),
)


# --- the claude command line: it does whole runs (`agent/runtimes/claude.py`), with its own sign-in -----------


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
