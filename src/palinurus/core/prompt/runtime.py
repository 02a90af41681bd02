"""The last lines: where this run runs, with which model, and whether its reasoning is shown."""

from __future__ import annotations

from palinurus.core.prompt.facts import PromptFacts


def write_runtime(facts: PromptFacts) -> str:
    """One line of facts, one about reasoning. What is not known is left out."""
    caps = None if facts.capabilities is None else ",".join(facts.capabilities) or "none"
    parts = {
        "agent": facts.agent,
        "host": facts.host,
        "repo": facts.repo,
        "os": facts.os,
        "python": facts.python,
        "model": facts.model,
        "default_model": facts.default_model,
        "shell": facts.shell,
        "channel": facts.channel,
        "capabilities": caps if facts.channel else None,
        "thinking": facts.level,
    }
    line = " | ".join(f"{name}={value}" for name, value in parts.items() if value)
    return (
        f"## Runtime\nRuntime: {line}\n"
        f"Reasoning: {facts.reasoning or 'off'} (hidden unless on or stream). /reasoning switches it; /status shows it "
        "when it is on."
    )
