"""Who reads along: is a turn between the owner and the agent alone? Pure.

The owner's memory (MEMORY.md, USER.md, memory/, what was configured besides) is for such turns only. Decided once for
each turn, by the session and by who writes; `Inbound.shared` carries it to the prompt, the tools, the sandbox, replies
and whatever the turn starts. The reasons are in docs/decisions/0015.

Also who may use the machine: people who are not the owner get answers, not commands and files, unless the owner says so
(docs/decisions/0037). `Inbound.outsider` carries that.
"""

from __future__ import annotations

from collections.abc import Iterable

from palinurus.core.policy.taint import PEOPLE, get_source_kind
from palinurus.core.types.caller import ADMIN
from palinurus.core.types.inbound import Inbound
from palinurus.core.types.keys import SessionKey

KEY = "memory.allowFrom"  # people (telegram:123) and groups (telegram:group:-100) who may know what the owner noted
TRUST = "tools.trustFrom"  # people, groups and channels (telegram:*) whose turns work as the owner's do
OUTSIDER_DENY = ("exec", "process", "write", "edit", "apply_patch")  # what the turns of others do not get
MEMORY_TOOLS = ("memory_search", "memory_get", "session_search")
MEMORY_FILES = frozenset(("memory.md", "user.md"))  # in lower case, as prompts know them
MEMORY_PATHS = ("MEMORY.md", "USER.md", "memory", ".git")  # of a workspace; the last may hold their old versions
OTHERS = PEOPLE - {"client"}  # whose words make a conversation shared
# In a session's record: the owner wrote here from the chat itself; its turns belong to a session that others read.
OWNER_CHAT, SHARED = "ownerChat", "shared"


def is_shared(
    inbound: Inbound, key: SessionKey, marks: dict[str, object], said: Iterable[str], insiders: frozenset[str]
) -> bool:
    """May somebody other than the owner (and the people the owner named: `insiders`, as channel:id) see the answer?

    `marks` is the session record's `extra`, `said` the sources of what was said in it.
    """
    if inbound.shared or marks.get(SHARED) or key.kind == "hook":
        return True
    if key.kind == "group" or inbound.kind != "direct":
        return not insiders & {name_group(key), f"{inbound.target.channel}:{inbound.kind}:{inbound.target.to}"}
    if not inbound.system and not is_insider(inbound, insiders):
        return True
    if key.kind == "direct" and not (marks.get(OWNER_CHAT) or is_own_chat(inbound, insiders)):
        return True
    known = {entry.partition(":")[2] for entry in insiders}
    words = (part for one in said for part in one.split(", "))
    return any(get_source_kind(part) in OTHERS and part.partition(" ")[2] not in known for part in words)


def is_owners_turn(inbound: Inbound) -> bool:
    """Is it the owner's own turn, or the program's for the owner? `shared` has been decided."""
    sender = inbound.sender
    return not inbound.shared and (inbound.system or sender.may(ADMIN))


def is_outsider(inbound: Inbound, trusted: frozenset[str]) -> bool:
    """Does somebody ask who is neither the owner, nor a client of the gateway, nor named by the owner (`trusted`, as
    channel:id, channel:group:id or channel:*)? What such a turn starts is an outsider's, too."""
    sender, channel = inbound.sender, inbound.target.channel
    if inbound.outsider or inbound.system or sender.owner or sender.scopes:
        return inbound.outsider
    names = {f"{channel}:{ident}" for ident in (sender.id, *sender.also, "*") if ident}
    groups = {f"{channel}:{kind}:{inbound.target.to}" for kind in ("group", inbound.kind)}
    return not trusted & (names if inbound.kind == "direct" else names | groups)


def is_insider(inbound: Inbound, insiders: frozenset[str]) -> bool:
    """Is the writer the owner, or somebody the owner named?"""
    sender = inbound.sender
    names = {f"{inbound.target.channel}:{ident}" for ident in (sender.id, *sender.also) if ident}
    return sender.may(ADMIN) or bool(names & insiders)


def is_own_chat(inbound: Inbound, insiders: frozenset[str]) -> bool:
    """Does it come from the chat its session is made for? A client that names a session is somewhere else."""
    named = not inbound.sender.owner and is_insider(inbound, insiders)  # such people's sessions are named by the door
    return not inbound.system and not inbound.sender.scopes and (not inbound.session or named)


def name_group(key: SessionKey) -> str:
    """A group's session as the config names the group: without threads."""
    return ":".join(key.rest.split(":")[:3])
