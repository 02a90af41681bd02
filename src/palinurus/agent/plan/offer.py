"""Which tools a run gets: the question its message puts to the policy, and the answers, kept.

The same question gives the same objects again, so that prompt and schemas stay byte-equal from turn to turn.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from palinurus.agent.plan.levels import find_mode
from palinurus.agent.plan.runplan import ModelCandidate
from palinurus.agent.plan.sandbox import is_sandboxed
from palinurus.config.settings import Settings
from palinurus.core.policy.admission import EVERYBODY, parse_allowlist
from palinurus.core.policy.audience import is_outsider, is_shared
from palinurus.core.policy.layers import ChatPlace, ToolAsker, ToolLists, ToolQuestion
from palinurus.core.types.caller import ADMIN
from palinurus.core.types.inbound import ClientTool, Inbound, TurnOptions
from palinurus.core.types.keys import SessionKey
from palinurus.core.types.model import ModelSpec
from palinurus.core.types.tool import Tool, ToolContext, ToolOutput, ToolSpec, list_specs, make_output
from palinurus.late import load_part
from palinurus.providers.catalog import Catalog
from palinurus.sessions.record import SessionRecord

if TYPE_CHECKING:  # loaded with the first question
    from palinurus.core.policy.decide import ToolVerdict

# Tools that belong to the caller of an HTTP interface: offered to the model beside ours, run by nobody here.
#
# A call of one ends the run; the caller runs it and comes back with what it returned. Comes with the message
# (`options.clientTools`), so a run that is taken up after a crash has them too.

ASKED = "Handed to the caller, who runs it. Stop here: what it returns comes with the next message."


def add_client_tools(offer: ToolOffer, wanted: Sequence[ClientTool]) -> ToolOffer:
    """The offer with the caller's tools in it; where names are the same, the caller's is meant."""
    if not wanted:
        return offer
    tools = {**offer.tools, **{each.name: _tool(each) for each in wanted}}
    return msgspec.structs.replace(offer, tools=tools, specs=list_specs(tools.values()))


def _tool(described: ClientTool) -> Tool:
    parameters = described.parameters or {"type": "object", "properties": {}}
    return Tool(described.name, described.description, parameters, _ask, effect="pure", origin="client")


async def _ask(ctx: ToolContext, **arguments: Any) -> ToolOutput:
    return msgspec.structs.replace(make_output(ASKED, {"handed": True}), terminate=True)


def restrict_tools(offer: ToolOffer, options: TurnOptions) -> ToolOffer:
    """With the tools that a job or a caller names and no others; it gets none that it would not have had."""
    bounds = options.bounds
    only = options.tools_allow if options.trigger and options.tools_allow else bounds.allow
    if only is None and not bounds.deny:
        return offer
    left = (name for name in offer.tools if (only is None or name in only) and name not in bounds.deny)
    tools = {name: offer.tools[name] for name in left}
    if only is not None:  # who names tools wants them told, however many a server has
        hidden = {name: tool for name, tool in tools.items() if tool.deferred}
        tools |= {name: msgspec.structs.replace(tool, deferred=False) for name, tool in hidden.items()}
    return msgspec.structs.replace(offer, tools=tools, specs=list_specs(tools.values()))


def list_insiders(settings: Settings) -> frozenset[str]:
    """Who counts as the owner where memory is concerned, as channel:id: those the owner named, and whoever is the only
    one on a channel's list."""
    return settings.people.memory | list_sole_people(settings)


def list_trusted(settings: Settings) -> frozenset[str]:
    """Who uses the machine as the owner does: those the owner named, and whoever is the only one on a list."""
    return settings.people.trusted | list_sole_people(settings)


def list_sole_people(settings: Settings) -> frozenset[str]:
    """Whoever is the only one on a channel's list: inbox/access.py takes them for the one the assistant belongs to."""
    accounts = (account for named in settings.accounts.values() for account in named.values())
    lists = ((account.channel, parse_allowlist(account.allow_from, account.channel)) for account in accounts)
    alone = (f"{channel}:{next(iter(listed))}" for channel, listed in lists if len(listed) == 1)
    return frozenset(one for one in alone if not one.endswith(f":{EVERYBODY}"))


KEPT = 512  # answers; senders of a busy group may each have a question of their own


class ToolOffer(msgspec.Struct, frozen=True):
    """What a question came to. Many have the same answer, which is there once; reasons: `ToolOffers.judge`."""

    tools: dict[str, Tool]
    specs: tuple[ToolSpec, ...]
    hidden: dict[str, str]  # the other tools, each with who keeps it away


class ToolOffers:
    """One per configuration."""

    def __init__(self, settings: Settings, catalog: Catalog, tools: Mapping[str, Tool]) -> None:
        self._settings = settings
        self._catalog = catalog
        self._tools = tools
        self.insiders = list_insiders(settings)
        self.trusted = list_trusted(settings)
        self._kept: dict[ToolQuestion, ToolOffer] = {}
        self._made: dict[object, ToolOffer] = {}  # by what they hold

    def offer(self, question: ToolQuestion) -> ToolOffer:
        """The tools of a run."""
        found = self._kept.get(question)
        if found is None:
            if len(self._kept) >= KEPT:
                self.forget()
            found = self._kept[question] = self._make(self.judge(question))
        return found

    def judge(self, question: ToolQuestion) -> ToolVerdict:
        """The tools of a run with every reason, which takes ten times the room of the tools: nobody keeps it."""
        judged: ToolVerdict = load_part("tool-policy")(self._settings.policy, question, self._tools)
        return judged

    def forget(self) -> None:
        """The tools have changed: every question is judged anew."""
        self._kept.clear()
        self._made.clear()

    def _make(self, verdict: ToolVerdict) -> ToolOffer:
        same = verdict.offered, tuple(verdict.hidden.items())
        if same not in self._made:
            tools = {name: self._tools[name] for name in verdict.offered}
            self._made[same] = ToolOffer(tools, list_specs(tools.values()), verdict.hidden)
        return self._made[same]

    def question(self, key: SessionKey, inbound: Inbound, model: ModelSpec, session: SessionRecord) -> ToolQuestion:
        """What the policy is asked for this message, answered by this model."""
        sender = inbound.sender
        vendor = self._catalog.vendor(model.ref.provider)
        names = model.compat.get("toolNames")
        return ToolQuestion(
            key.agent,
            (model.ref.provider, *(vendor.aliases if vendor else ())),
            model.ref.model,
            max(key.depth, session.spawnDepth or 0),
            asker=ToolAsker(sender.id, sender.name, sender.may(ADMIN), inbound.roles),
            place=_place(key, inbound),
            sandboxed=is_sandboxed(self._settings.agents[key.agent], key),
            callable=model.tools,
            narrow=tuple(names) if isinstance(names, list) else None,
            exec_denied=session.extra.get("execSecurity") == "deny",
            inherited=_inherited(session),
            mode=find_mode(self._settings, key.agent, session, inbound),
            shared=is_shared(inbound, key, session.extra, (), insiders=self.insiders),
            outsider=f"{inbound.target.channel}:{sender.id}" if is_outsider(inbound, self.trusted) else "",
        )

    def fit_choices(
        self, choices: tuple[ModelCandidate, ...], key: SessionKey, inbound: Inbound, session: SessionRecord
    ) -> tuple[ToolOffer, tuple[ModelCandidate, ...]]:
        """The tools of the first choice, and the choices, each with those of them that it must not get."""
        first = self.offer(self.question(key, inbound, choices[0].model, session))
        fitted = [choices[0]]
        for choice in choices[1:]:
            own = self.offer(self.question(key, inbound, choice.model, session)).tools
            barred = frozenset(name for name in first.tools if name not in own)
            fitted.append(msgspec.structs.replace(choice, barred=barred) if barred else choice)
        options = inbound.options
        return restrict_tools(add_client_tools(first, options.client_tools), options), tuple(fitted)


def _place(key: SessionKey, inbound: Inbound) -> ChatPlace:
    """Where the message comes from. Whoever speaks into a group's session from elsewhere is under its rules too."""
    target = inbound.target
    if inbound.kind != "direct":
        return ChatPlace(target.channel, target.account, inbound.guild or inbound.team, target.to.lower())
    segments = key.rest.split(":")
    if key.kind == "group":
        return ChatPlace(segments[0], target.account, chat=segments[2].lower())
    return ChatPlace(target.channel, target.account, chat=inbound.sender.id.lower(), direct=True)


def _inherited(session: SessionRecord) -> ToolLists | None:
    """What was written down when another session started this one."""
    allow, deny = session.extra.get("inheritedToolAllow"), session.extra.get("inheritedToolDeny")
    if not isinstance(allow, list) and not isinstance(deny, list):
        return None
    names = tuple(str(word) for word in allow) if isinstance(allow, list) else None
    return ToolLists("the parent's", names, deny=tuple(str(word) for word in deny or ()))
