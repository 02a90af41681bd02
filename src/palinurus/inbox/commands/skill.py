"""/skill NAME [TEXT]: have the agent follow a skill; without a name, which skills there are."""

from __future__ import annotations

from palinurus.inbox.commands.desk import CommandAnswer, CommandCall
from palinurus.inbox.commands.follow import make_followup


async def run_skill(call: CommandCall) -> CommandAnswer:
    """The skill becomes a message of its own: read its instructions, then do what was asked with them."""
    found = {skill.name.lower(): skill for skill in call.desk.skills(call.key) if skill.user_invocable}
    name, _, text = call.args.strip().partition(" ")
    if not name:
        if not found:
            return CommandAnswer("There are no skills that can be used here. `pal skills list` tells why.")
        return CommandAnswer("\n".join(["Skills:", *(f"  {s.name} - {s.description}" for s in found.values())]))
    skill = found.get(name.lower())
    if skill is None:
        known = ", ".join(sorted(s.name for s in found.values())) or "none"
        return CommandAnswer(f'There is no skill "{name[:64]}" that can be used here. There are: {known}.')
    asked = text.strip() or "Do what it is for."
    told = f'Use the skill "{skill.name}": read {skill.path} and follow it.\n\n{asked}'
    return CommandAnswer(f"Using the skill {skill.name}.", follow=make_followup(call, told))
