"""The eight layers, in their order: which lists of the policy a question is judged by.

Values in, gates out. A gate is one pair of lists with the place it stands in the config; a tool must pass every
gate. What passing means is `decide`'s.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Literal, NamedTuple, TypeAlias, TypeVar

import msgspec

from palinurus.core.policy import groups
from palinurus.core.types.approval import PermissionMode
from palinurus.patterns import compile_late

T = TypeVar("T")
SubagentRole: TypeAlias = Literal["main", "orchestrator", "leaf"]

# Every sub-agent: it serves one task of its parent, and neither steers the program nor speaks for it.
SUBAGENT_DENY: tuple[str, ...] = (
    *("gateway", "agents_list", "cron", "memory_search", "memory_get", "sessions_send"),
    "session_search",  # ours: what was said elsewhere is the owner's memory, too
)
# One that may not start others has nobody to look after. `subagents` stays, for looking only.
LEAF_DENY: tuple[str, ...] = ("sessions_list", "sessions_history", "sessions_spawn")

LAYERS: tuple[str, ...] = (
    "profile", "provider profile", "global lists", "global lists for the provider", "agent lists",
    "agent lists for the provider", "group and sender", "sandbox and sub-agents",
)  # fmt: skip

# What sandboxed sessions get unless the config says otherwise.
SANDBOX_ALLOW: tuple[str, ...] = (
    *groups.BASE_TOOLS, "image", "sessions_list", "sessions_history", "sessions_send", "sessions_spawn",
    "sessions_yield", "subagents", "session_status",
)  # fmt: skip
SANDBOX_DENY: tuple[str, ...] = ("browser", "canvas", "nodes", "cron", "gateway")
_DIGITS = compile_late(r"\+?[\d\s().-]{5,}")


class ToolAsker(msgspec.Struct, frozen=True):
    """Who is served, as far as policy asks."""

    id: str = ""
    name: str = ""
    owner: bool = False
    roles: tuple[str, ...] = ()


class SenderRuleKeys(msgspec.Struct, frozen=True):
    """The keys of the rules that apply: `sure` by id or role or `*`, `named` by a name."""

    sure: str | None = None
    named: str | None = None


def find_sender_rules(rules: Mapping[str, T], asker: ToolAsker) -> SenderRuleKeys:
    """Which rule of a `toolsBySender` table is the sender's: the first key that fits, in this order. Ids and roles come
    from the platform and can be trusted. Names are chosen by their bearers: a rule found by name never gives more than
    there is without it."""
    roles = (f"role:{role}" for role in asker.roles)
    sure = [f"id:{asker.id}", f"e164:{normalize_phone(asker.id)}", *roles, asker.id, "*"]
    named = [f"username:{asker.name.removeprefix('@')}", f"username:@{asker.name}", f"name:{asker.name}"]
    folded = {_folded(key): key for key in rules}
    return SenderRuleKeys(
        next((folded[_folded(k)] for k in sure if k[-1:] not in ("", ":") and _folded(k) in folded), None),
        next((folded[_folded(k)] for k in named if asker.name and _folded(k) in folded), None),
    )


def normalize_phone(text: str) -> str:
    """+4915112345678 for whatever looks like a phone number, else ""."""
    head = text.split("@")[0].removeprefix("tel:")
    return "+" + re.sub(r"\D", "", head) if _DIGITS.fullmatch(head) else ""


def _folded(key: str) -> str:
    kind, colon, rest = key.strip().lower().partition(":")
    return f"e164:{normalize_phone(rest)}" if colon and kind == "e164" else key.strip().lower()


def find_subagent_role(depth: int, deepest: int) -> SubagentRole:
    """A session at the greatest depth starts no others."""
    if depth <= 0:
        return "main"
    return "leaf" if depth >= deepest else "orchestrator"


def list_denied_tools(depth: int, deepest: int) -> tuple[str, ...]:
    """The tools that a session of this depth does not get unless the config names them."""
    return {"main": (), "orchestrator": SUBAGENT_DENY, "leaf": (*SUBAGENT_DENY, *LEAF_DENY)}[
        find_subagent_role(depth, deepest)
    ]


class ToolLists(msgspec.Struct, frozen=True):
    """One place of the config that allows and denies. `key` is its key path."""

    key: str
    allow: tuple[str, ...] | None = None  # None: all; (): none
    also: tuple[str, ...] = ()
    deny: tuple[str, ...] = ()
    profile: str = ""


class ToolScope(msgspec.Struct, frozen=True):
    """`tools`, or one agent's `tools`."""

    own: ToolLists
    providers: dict[str, ToolLists] = {}  # by provider/model or provider, as written
    senders: dict[str, ToolLists] = {}
    sandbox: ToolLists | None = None


class ChatToolRules(msgspec.Struct, frozen=True):
    """The rules of one chat, or of all chats around it."""

    own: ToolLists | None = None
    senders: dict[str, ToolLists] = {}


class ChatPlace(NamedTuple):
    """Where a chat is; "" = not said, `*` as chat = every chat there."""

    channel: str
    account: str = ""
    guild: str = ""
    chat: str = "*"
    direct: bool = False


class PatchToolRules(msgspec.Struct, frozen=True):
    """tools.exec.applyPatch"""

    enabled: bool = True
    models: tuple[str, ...] | None = None  # None: those of OpenAI
    key: str = "tools.exec.applyPatch"


class ToolRules(msgspec.Struct, frozen=True):
    """All that the config says about who may use which tool."""

    shared: ToolScope = ToolScope(ToolLists("tools"))
    agents: dict[str, ToolScope] = {}
    chats: dict[ChatPlace, ChatToolRules] = {}
    subagents: ToolLists = ToolLists("tools.subagents.tools")
    patch: PatchToolRules = PatchToolRules()
    patches: dict[str, PatchToolRules] = {}  # by agent, where it says something of its own
    deepest: dict[str, int] = {}  # agent -> how deep its sub-agents may go
    narrowed: dict[str, str] = {}  # provider/model -> the key that gives it only some tools


class ToolQuestion(msgspec.Struct, frozen=True):
    """One occasion: who asks whom, where, with which model. Hashable, so that answers can be kept."""

    agent: str
    providers: tuple[str, ...] = ()  # the model's provider, then other spellings of it
    model: str = ""
    depth: int = 0
    asker: ToolAsker = ToolAsker()
    place: ChatPlace = ChatPlace("")
    sandboxed: bool = False
    callable: bool = True  # can the model call tools at all
    narrow: tuple[str, ...] | None = None  # the only tools the model is given (compat.toolNames)
    exec_denied: bool = False  # /exec security=deny in this session
    inherited: ToolLists | None = None  # what the session that started this one may use
    shared: bool = False  # others than the owner see what comes of it
    mode: PermissionMode = "default"  # how much is asked about
    outsider: str = ""  # who asks, as channel:id, if it is nobody whom the owner lets use the machine


class ToolGate(msgspec.Struct, frozen=True):
    """Lists to pass. A name is let in by writing it to `entry`, or (`entry` a profile's) by a larger profile."""

    layer: int  # counted from 1
    key: str
    allow: tuple[str, ...] | None
    deny: tuple[str, ...] = ()
    default_deny: tuple[str, ...] = ()  # not from the config; an explicit name opens it
    entry: str = ""  # the key of the list to write a name to
    written: tuple[str, ...] = ()  # what stands there
    words: str = ""  # what the allow list is, for people
    deny_key: str = ""  # where `deny` stands; "" = below `key`
    behind: tuple[str, ...] = ()  # what is denied if `deny` is emptied, and where that stands
    behind_key: str = ""
    fixed: bool = False  # only unknown names in `allow` let nothing through (elsewhere such a list is ignored)


def list_tool_gates(rules: ToolRules, question: ToolQuestion) -> Iterator[ToolGate]:
    """The gates of this question, in the order of the layers."""
    shared, agent = rules.shared, rules.agents.get(question.agent, ToolScope(ToolLists("agents")))
    here, own = _provided(shared, question), _provided(agent, question)
    if agent.own.profile:
        yield _profile(1, agent.own)
    elif shared.own.profile:
        yield _profile(1, shared.own, agent.own.also)
    if own is not None and own.profile:
        yield _profile(2, own)
    elif here is not None and here.profile:
        yield _profile(2, here, own.also if own else ())
    for layer, lists in ((3, shared.own), (4, here), (5, agent.own), (6, own)):
        if lists is not None:
            yield from _plain(layer, lists)
    for lists in _chosen(rules, agent, question):
        yield from _plain(7, lists)
    if question.sandboxed:
        yield _sandbox(shared.sandbox, agent.sandbox)
    if question.depth:
        deny = list_denied_tools(question.depth, rules.deepest.get(question.agent, 1))
        yield _guarded(rules.subagents, rules.subagents.allow, deny, "what sub-agents get")
    if question.inherited is not None:
        yield ToolGate(8, question.inherited.key, question.inherited.allow, question.inherited.deny, fixed=True)


def _entry(lists: ToolLists) -> tuple[str, tuple[str, ...]]:
    """Where a name is written to let a tool in: an allow list and alsoAllow cannot stand side by side."""
    if lists.allow:
        return f"{lists.key}.allow", lists.allow
    return f"{lists.key}.alsoAllow", lists.also


def _profile(layer: int, lists: ToolLists, more: tuple[str, ...] = ()) -> ToolGate:
    words = (*groups.TOOL_PROFILES[lists.profile], *lists.also, *more)
    entry, written = _entry(lists)
    if lists.allow:  # the profile itself must change
        entry, written = f"{lists.key}.profile", ()
    key = f"{lists.key}.profile"
    return ToolGate(layer, key, words, entry=entry, written=written, words=f"profile {lists.profile}", fixed=True)


def _plain(layer: int, lists: ToolLists) -> Iterator[ToolGate]:
    allow = None if lists.allow is None else (*lists.allow, *lists.also)
    if allow is not None or lists.deny:
        entry, written = _entry(lists)
        yield ToolGate(layer, lists.key, allow, lists.deny, entry=entry, written=written)


def _guarded(lists: ToolLists, allow: tuple[str, ...] | None, deny: tuple[str, ...], words: str) -> ToolGate:
    """A gate with denials of its own, which names in the config open."""
    entry, written = _entry(lists)
    named = [word for word in (*(lists.allow or ()), *lists.also) if groups.is_explicit(word)]
    left = tuple(name for name in deny if not groups.allows_tool(named, name, ""))
    full = None if allow is None else (*allow, *lists.also)
    return ToolGate(
        8, lists.key, full, lists.deny, default_deny=left, entry=entry, written=written, words=words, fixed=True
    )


def _sandbox(shared: ToolLists | None, agent: ToolLists | None) -> ToolGate:
    """The agent's lists where it has some, else the shared ones; alsoAllow adds up. `allow: []` is all."""
    base = shared or ToolLists("tools.sandbox.tools")
    own = agent or base
    allow = own.allow if own.allow is not None else base.allow
    also = dict.fromkeys((*base.also, *own.also))
    deny = own.deny or base.deny
    given = SANDBOX_ALLOW if allow is None else (*allow, "image") if allow else None
    gate = _guarded(ToolLists(own.key, allow, tuple(also), deny), given, SANDBOX_DENY, "what sandboxed sessions get")
    entry, written = _entry(own)
    gate = msgspec.structs.replace(gate, entry=entry, written=written, deny_key=f"{base.key}.deny")
    if not own.deny or own is base:
        return gate
    return msgspec.structs.replace(gate, deny_key=f"{own.key}.deny", behind=base.deny, behind_key=f"{base.key}.deny")


def _provided(scope: ToolScope, question: ToolQuestion) -> ToolLists | None:
    """The entry of the model, else that of its provider."""
    if not scope.providers:
        return None
    keys = {_spelling(key): lists for key, lists in scope.providers.items()}
    wanted = [*(f"{p}/{question.model}" for p in question.providers), *question.providers]
    return next((keys[_spelling(key)] for key in wanted if _spelling(key) in keys), None)


def _spelling(key: str) -> str:
    """Dots, dashes and case of a provider's id mean nothing; of a model's id only case means nothing."""
    provider, slash, model = key.strip().lower().partition("/")
    return re.sub(r"[^a-z0-9]", "", provider) + slash + model.strip()


def _chosen(rules: ToolRules, agent: ToolScope, question: ToolQuestion) -> Iterator[ToolLists]:
    """Sender rules of the agent and of all agents, and the most particular rule of the chat."""
    for scope in (rules.shared, agent):
        yield from _sender(scope.senders, None, question.asker)
    for place in list_chat_places(question.place):
        chat = rules.chats.get(place)
        if chat is None:
            continue
        found = list(_sender(chat.senders, chat.own, question.asker))
        if found:
            yield from found
            return


def is_opened(rules: ToolRules, question: ToolQuestion, name: str) -> bool:
    """Does the config name this tool for the very chat, person or sandbox? Names that people choose open nothing."""
    agent = rules.agents.get(question.agent, ToolScope(ToolLists("agents")))
    known = msgspec.structs.replace(question, asker=msgspec.structs.replace(question.asker, name=""))
    lists = [*_chosen(rules, agent, known)]
    if question.sandboxed:
        lists += [one for one in (rules.shared.sandbox, agent.sandbox) if one is not None]
    words = (word for one in lists for word in (*(one.allow or ()), *one.also))
    return groups.allows_tool(filter(groups.is_explicit, words), name, "")


def _sender(rules: Mapping[str, ToolLists], other: ToolLists | None, asker: ToolAsker) -> Iterator[ToolLists]:
    """The sender's rule, else `other`. A rule that only a name points to comes on top."""
    found = find_sender_rules(rules, asker)
    base = other if found.sure is None else rules[found.sure]
    if base is not None:
        yield base
    if found.named is not None:
        yield rules[found.named]


def list_chat_places(place: ChatPlace) -> Iterator[ChatPlace]:
    """Where the rules of a chat may stand, the most particular place first."""
    if not place.channel or place.chat in ("", "*"):
        return
    for account in dict.fromkeys((place.account, "")):
        for guild, chat in dict.fromkeys(((place.guild, place.chat), ("", place.chat), (place.guild, "*"), ("", "*"))):
            yield ChatPlace(place.channel, account, guild, chat, direct=place.direct)
