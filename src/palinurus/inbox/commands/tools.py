"""/tools [why NAME]: which tools the next run of this session is offered, and what keeps one away."""

from __future__ import annotations

from functools import partial

from palinurus.agent.offer import ToolOffer, ToolOffers
from palinurus.config.policy import find_key_source
from palinurus.core.policy.words import explain_tool_verdict
from palinurus.inbox.commands.desk import CommandAnswer, CommandCall
from palinurus.inbox.commands.facts import find_session_model


async def run_tools(call: CommandCall) -> CommandAnswer:
    """The list, or the reason for one tool, as it is for whoever asks."""
    word, _, name = call.args.strip().partition(" ")
    if word and word.lower() != "why":
        return CommandAnswer("Use /tools, or /tools why NAME.")
    if word and not name.strip():
        return CommandAnswer("Say which: /tools why NAME.")
    offer = offer_tools(call)
    if word:
        # Only the owner is told where the files of this machine are.
        where = partial(find_key_source, call.desk.settings) if call.admin else lambda key: ""
        return CommandAnswer("\n".join(explain_tool_verdict(name, offer.verdict, where)))
    if not offer.tools:
        return CommandAnswer(f"No tools are offered ({len(offer.hidden)} kept away; /tools why NAME).")
    lines = [f"  {n}: {tool.description.split('. ')[0].rstrip('.')}" for n, tool in offer.tools.items()]
    lines += [f"  - {name}: {why}" for name, why in offer.hidden.items()]
    return CommandAnswer("\n".join([f"Tools ({len(offer.tools)} offered, {len(offer.hidden)} kept away):", *lines]))


def offer_tools(call: CommandCall) -> ToolOffer:
    """What the next run of the session would get if whoever calls asked for it."""
    desk = call.desk
    offers = ToolOffers(desk.settings, desk.catalog, desk.tools)
    model = find_session_model(desk.catalog, call.agent, call.record)
    return offers.offer(offers.question(call.key, call.inbound, model, call.record))
