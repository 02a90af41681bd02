"""Where the agent works and for whom: workspace, documentation, sandbox, models, senders, time zone, memory, and the
last lines of the prompt: where this run runs, with which model, and whether its reasoning is shown.
"""

from __future__ import annotations

from palinurus.core.prompt.facts import PromptFacts, StableFacts, has_tool

_CITE = {
    "on": "Cite what you found: `Source: <path>#<line>`.",
    "off": "Do not mention paths or lines of memory files unless you are asked.",
    "auto": "In a direct chat cite what you found when it helps to check it (`Source: <path>#<line>`); in groups "
    "leave paths and lines out.",
}
_RECALL = {  # by the tools that are there: memory_search, memory_get
    (True, True): "run `memory_search` over MEMORY.md and memory/*.md, then read only the lines you need with "
    "`memory_get`",
    (True, False): "run `memory_search` over MEMORY.md and memory/*.md, and answer from the matches",
    (False, True): "read the lines you need from MEMORY.md or memory/*.md with `memory_get`",
}
_RUNTIME = ("agent", "host", "repo", "os", "python", "model", "default_model", "shell", "channel")


def write_runtime(facts: PromptFacts) -> str:
    """One line of facts, one about reasoning. What is not known is left out."""
    known = facts.capabilities is not None and facts.channel
    parts = {name: getattr(facts, name) for name in _RUNTIME}
    parts |= {"capabilities": ",".join(facts.capabilities or ()) or "none"} if known else {}
    parts["thinking"] = facts.level
    line = " | ".join([f"{name}={value}" for name, value in parts.items() if value])
    return (
        f"## Runtime\nRuntime: {line}\n"
        f"Reasoning: {facts.reasoning or 'off'} (hidden unless on or stream). /reasoning switches it; /status shows it "
        "when it is on."
    )


_INSIDE = {
    "look": "`pal` in your own commands (`exec`) is answered by the program you run in, and can only look: "
    "`pal status`, `pal doctor`, `pal sessions`, `pal usage`, `pal config explain PATH`, `pal config get PATH`. "
    "Changes are made with your tools, or by the person.",
    "all": "`pal` in your own commands (`exec`) acts on the very program you run in, as it does for the person: look "
    "freely, change only what you were asked to change.",
    "": "`pal` in your own commands (`exec`) cannot ask the program you run in; it says so instead of guessing.",
}


def write_inside(facts: PromptFacts) -> str:
    """What the agent's own `pal` knows. Below the boundary: it follows who asks."""
    return f"## Palinurus From Inside\n{_INSIDE[facts.inside]}" if has_tool(facts, "exec") else ""


def write_memory_recall(facts: StableFacts) -> str:
    how = _RECALL.get((has_tool(facts, "memory_search"), has_tool(facts, "memory_get")))
    talks = "`session_search` finds what was said in earlier conversations"
    if not has_tool(facts, "session_search"):
        talks = ""
    if how is None:
        return f"## Memory Recall\n{talks}: run it before you say that you do not remember." if talks else ""
    how += f"; {talks}" if talks else ""
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
    if has_tool(facts, "session_status"):
        return "When you need the current date, time or day of the week, call `session_status`."
    return "This prompt holds no clock: when the time matters, look it up instead of guessing."


def write_workspace(facts: StableFacts) -> str:
    if facts.folder:
        return (
            "## Workspace\n"
            f"Your working directory is: {facts.folder}\n"
            "It is a folder of the person's own: relative paths start there, commands run there, and what you change "
            "is theirs. Commit only if you are asked or it is the custom there; never push unasked.\n"
            f"Your own files (MEMORY.md, memory/, SOUL.md, skills/ …) stay in {facts.workspace}: name them by whole "
            "paths, write what you want to remember there with the file tools, and put none of them into this folder."
        )
    box = facts.sandbox
    where = box.workspace if box else facts.workspace
    if not where:
        return ""
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
    online = where.mirror or where.site
    field = "`gateway` action config.schema.lookup, or " if has_tool(facts, "gateway") else ""
    wider = f" For the wider picture: {', '.join(where.settings)}." if where.settings else ""
    lines = (
        (where.local, f"Palinurus docs on this machine: {where.local}"),
        (where.site and not where.local, f"Palinurus docs: {where.site}"),
        (where.local and online, f"The same docs online: {online}"),
        (where.mirror and not where.local, f"Mirror of the docs: {where.mirror}"),
        (where.source, f"Source: {where.source} (a checkout: read the code there when the docs fall short)"),
        (
            where.repository and not where.source,
            f"Source: {where.repository} (read it there when the docs are incomplete or out of date)",
        ),
        (where.community, f"Community: {where.community}"),
        (where.hub, f"Find skills: {where.hub}"),
        (
            where.local or online,
            "For how Palinurus behaves, its commands, settings or design, read the docs first.",
        ),
        (
            has_tool(facts, "exec"),
            "When something is wrong, run `pal status` yourself (`exec`); ask the person only if you lack access.",
        ),
        (True, f"For one setting with its meaning and limits: {field}`pal config explain PATH`.{wider}"),
    )
    return "\n".join(("## Documentation", *(line for there, line in lines if there)))


def write_sandbox(facts: StableFacts) -> str:
    box = facts.sandbox
    if box is None:
        return ""
    seen = f", seen at {box.mount}" if box.mount and box.access != "none" else ""
    browser = f"Browser of the sandbox: {box.browser}\n" if box.browser else ""
    stay = " Sub-agents you start stay in it." if has_tool(facts, "sessions_spawn") else ""
    elevated = (
        "Elevated exec is available: people switch it with /elevated on, off, ask or full. Use it only when asked "
        "or when the sandbox truly prevents the task."
        if box.elevated
        else "Elevated exec is not available: do not offer to leave the sandbox."
    )
    return (
        "## Sandbox\n"
        f"Tools run in a sandbox; some may be missing because of its policy.{stay}\n"
        f"Working directory inside: {box.workspace}\n"
        f"Agent workspace: access {box.access}{seen}\n{browser}{elevated}"
    )


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
