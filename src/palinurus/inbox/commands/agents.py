"""/agents: which agents there are."""

from __future__ import annotations

from palinurus.inbox.commands.desk import CommandAnswer, CommandCall


async def run_agents(call: CommandCall) -> CommandAnswer:
    """Id, name, model and workspace of each; the session's own is marked."""
    settings = call.desk.settings
    lines = ["Agents (* this session's):"]
    for ident, agent in settings.agents.items():
        name = f" ({agent.name})" if agent.name and agent.name != ident else ""
        default = ", default" if ident == settings.default_agent else ""
        model = call.desk.catalog.default(agent).ref
        lines.append(f"{'*' if ident == call.key.agent else ' '} {ident}{name}: {model}{default}")
    return CommandAnswer("\n".join(lines))
