"""/activation: whether the agent hears every message of a group, or only those that name it. For the owner."""

from __future__ import annotations

import msgspec

from palinurus.inbox.commands.desk import CommandAnswer, CommandCall

ACTIVATION_TEXTS: dict[str, str] = {
    "mention": "I answer here when I am named.",
    "always": "I read every message here, and answer when I have something to add.",
}


async def run_activation(call: CommandCall) -> CommandAnswer:
    """`/activation mention|always`; alone it tells which it is."""
    if call.inbound.kind == "direct":
        return CommandAnswer("/activation is for groups; here I read everything.")
    word = call.args.strip().lower()
    if not word:
        return CommandAnswer(
            ACTIVATION_TEXTS.get(call.record.groupActivation or "", "As the configuration says (requireMention).")
        )
    if word not in ACTIVATION_TEXTS:
        return CommandAnswer("Use /activation mention or /activation always.")
    return CommandAnswer(ACTIVATION_TEXTS[word], msgspec.structs.replace(call.record, groupActivation=word))
