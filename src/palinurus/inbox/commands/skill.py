"""/skill NAME [TEXT]: have the agent follow a skill; without a name, which skills there are."""

from __future__ import annotations

from palinurus.inbox.commands.desk import Answer, Call
from palinurus.inbox.commands.follow import follow


async def run(call: Call) -> Answer:
    """The skill becomes a message of its own: read its instructions, then do what was asked with them."""
    found = {skill.name.lower(): skill for skill in call.desk.skills(call.key) if skill.user_invocable}
    name, _, text = call.args.strip().partition(" ")
    if not name:
        if not found:
            return Answer("There are no skills that can be used here. `pal skills list` tells why.")
        return Answer("\n".join(["Skills:", *(f"  {s.name} - {s.description}" for s in found.values())]))
    skill = found.get(name.lower())
    if skill is None:
        known = ", ".join(sorted(s.name for s in found.values())) or "none"
        return Answer(f'There is no skill "{name[:64]}" that can be used here. There are: {known}.')
    asked = text.strip() or "Do what it is for."
    told = f'Use the skill "{skill.name}": read {skill.path} and follow it.\n\n{asked}'
    return Answer(f"Using the skill {skill.name}.", follow=follow(call, told))
