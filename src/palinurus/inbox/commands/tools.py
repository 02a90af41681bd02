"""/tools [why NAME]: which tools runs are offered, and what keeps one away."""

from __future__ import annotations

from palinurus.core.policy.offer import offered
from palinurus.inbox.commands.desk import Answer, Call


async def run(call: Call) -> Answer:
    """The list, or the reason for one tool."""
    word, _, name = call.args.strip().partition(" ")
    settings = call.desk.settings.tools
    names = offered(call.desk.tools, settings.allow, settings.deny)
    if word.lower() == "why":
        return Answer(_why(call, name.strip().lower(), names))
    if word:
        return Answer("Use /tools, or /tools why NAME.")
    if not names:
        return Answer("No tools are offered.")
    lines = [f"  {n}: {call.desk.tools[n].description.split('. ')[0].rstrip('.')}" for n in names]
    kept = len(call.desk.tools) - len(names)
    return Answer("\n".join([f"Tools ({len(names)} offered, {kept} kept away):", *lines]))


def _why(call: Call, name: str, names: list[str]) -> str:
    settings = call.desk.settings.tools
    if not name:
        return "Say which: /tools why NAME."
    if name not in call.desk.tools:
        return f"There is no tool {name[:64]}."
    if name in names:
        return f"{name} is offered: " + ("tools.allow names it." if settings.allow else "nothing keeps it away.")
    if not offered([name], None, settings.deny):
        return f"{name} is not offered: tools.deny names it ({', '.join(settings.deny)})."
    return f"{name} is not offered: tools.allow does not name it ({', '.join(settings.allow or ())})."
