"""Where the agent works and for whom: workspace, documentation, sandbox, models, senders, time zone, memory."""

from __future__ import annotations

from palinurus.core.prompt.capabilities import list_tool_names
from palinurus.core.prompt.facts import DocsFact, PromptFacts, StableFacts

# The last lines: where this run runs, with which model, and whether its reasoning is shown.


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


_CITE = {
    "on": "Cite what you found: `Source: <path>#<line>`.",
    "off": "Do not mention paths or lines of memory files unless you are asked.",
    "auto": "In a direct chat cite what you found when it helps to check it (`Source: <path>#<line>`); in groups "
    "leave paths and lines out.",
}


def write_memory_recall(facts: StableFacts) -> str:
    have = list_tool_names(facts) & {"memory_search", "memory_get"}
    if not have:
        return ""
    if "memory_search" not in have:
        how = "read the lines you need from MEMORY.md or memory/*.md with `memory_get`"
    elif "memory_get" not in have:
        how = "run `memory_search` over MEMORY.md and memory/*.md, and answer from the matches"
    else:
        how = "run `memory_search` over MEMORY.md and memory/*.md, then read only the lines you need with `memory_get`"
    return (
        "## Memory Recall\n"
        "Before you answer anything about earlier work, decisions, dates, people, preferences or open tasks: "
        f"{how}. If you are still unsure afterwards, say that you looked.\n"
        f"{_CITE[facts.knobs.citations]}"
    )


def write_model_aliases(facts: StableFacts) -> str:
    if not facts.knobs.aliases:
        return ""
    lines = [f"- {alias}: {ref}" for alias, ref in sorted(facts.knobs.aliases)]
    return "\n".join(
        ("## Model Aliases", "Prefer an alias where a model is to be named; provider/model is taken too.", *lines)
    )


def write_clock_hint(facts: StableFacts) -> str:
    """Where the time is to be had: the prompt holds none."""
    if not facts.timezone:
        return ""
    if "session_status" in list_tool_names(facts):
        return "When you need the current date, time or day of the week, call `session_status`."
    return "This prompt holds no clock: when the time matters, look it up instead of guessing."


def write_workspace(facts: StableFacts) -> str:
    where = facts.sandbox.workspace if facts.sandbox else facts.workspace
    if not where:
        return ""
    box = facts.sandbox
    paths = (
        f"Commands and file tools run in the sandbox and see it there; on the host it is {facts.workspace}, a path "
        "that means nothing to them."
        if box and facts.workspace and box.workspace != facts.workspace
        else "Relative paths start there."
    )
    return (
        "## Workspace\n"
        f"Your working directory is: {where}\n"
        f"{paths} Treat it as the only place for files unless you are told otherwise.\n"
        "Where it is a git repository, commit after larger changes if that is the custom there; never push unasked."
    )


def write_docs(facts: StableFacts) -> str:
    where = facts.docs
    lines = ["## Documentation"]
    if where.local:
        lines.append(f"Palinurus docs on this machine: {where.local}")
    elif where.site:
        lines.append(f"Palinurus docs: {where.site}")
    if where.local and (where.mirror or where.site):
        lines.append(f"The same docs online: {where.mirror or where.site}")
    elif where.mirror:
        lines.append(f"Mirror of the docs: {where.mirror}")
    if where.source:
        lines.append(f"Source: {where.source} (a checkout: read the code there when the docs fall short)")
    elif where.repository:
        lines.append(f"Source: {where.repository} (read it there when the docs are incomplete or out of date)")
    if where.community:
        lines.append(f"Community: {where.community}")
    if where.hub:
        lines.append(f"Find skills: {where.hub}")
    lines.append(
        "For how Palinurus behaves, its commands, settings or design, read the docs first. When something is wrong, "
        "run `pal status` yourself where you can; ask the person only if you lack access."
    )
    lines.append(_config(facts, where))
    return "\n".join(lines)


def _config(facts: StableFacts, where: DocsFact) -> str:
    """First the exact field, then the wider reading."""
    field = (
        "`gateway` action config.schema.lookup" if "gateway" in list_tool_names(facts) else "`pal config explain PATH`"
    )
    wider = f" For the wider picture: {', '.join(where.settings)}." if where.settings else ""
    return f"For one setting with its meaning and limits: {field}.{wider}"


def write_sandbox(facts: StableFacts) -> str:
    box = facts.sandbox
    if box is None:
        return ""
    seen = f", seen at {box.mount}" if box.mount and box.access != "none" else ""
    lines = [
        "## Sandbox",
        "Tools run in a container; some may be missing because of its policy. Sub-agents you start stay in it.",
        f"Working directory inside: {box.workspace}",
        f"Agent workspace: access {box.access}{seen}",
    ]
    if box.browser:
        lines.append(f"Browser of the sandbox: {box.browser}")
    if box.elevated:
        lines.append(
            "Elevated exec is available: people switch it with /elevated on, off, ask or full. Use it only when asked "
            "or when the sandbox truly prevents the task."
        )
    else:
        lines.append("Elevated exec is not available: do not offer to leave the sandbox.")
    return "\n".join(lines)


def write_authorized_senders(facts: StableFacts) -> str:
    if not facts.knobs.owners:
        return ""
    return (
        "## Authorized Senders\n"
        f"Allowlisted: {', '.join(facts.knobs.owners)}. They may give commands; being on the list does not by itself "
        "make somebody the owner."
    )


def write_time_zone(facts: StableFacts) -> str:
    return f"## Current Date & Time\nTime zone: {facts.timezone}" if facts.timezone else ""
