"""Who may speak: one decision for every kind of event (message, button, command, voice note, forward). Pure.

Identity is the id that the platform gives, compared exactly; names are never looked at. `inbox/access.py` puts
together who asks and which rules apply in the chat. A list that is empty lets nobody in.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal, NamedTuple, TypeAlias

Word: TypeAlias = Literal["in", "pair", "note", "out"]
Policy: TypeAlias = Literal["pairing", "allowlist", "open", "disabled"]
Bots: TypeAlias = Literal["off", "mentions", "on"]

EVERYBODY = "*"
CHANNEL_SHORTHANDS: dict[str, str] = {"tg": "telegram"}  # how people shorten a channel's name before an id


class AdmissionRequest(NamedTuple):
    """One event. `ids`: its actor, by every id the platform itself vouches for."""

    ids: tuple[str, ...]
    direct: bool = True
    bot: bool = False
    named: bool = False  # we were mentioned or answered, or a button of ours was pressed
    command: bool = False  # its text is a command of ours
    plain: bool = True  # somebody said something: fit to be context. Buttons and commands are not


class AdmissionRules(NamedTuple):
    """What applies in this chat. Lists hold bare ids (see `entries`); `*` is everybody."""

    policy: Policy
    listed: frozenset[str] = frozenset()  # who may speak here
    owners: frozenset[str] = frozenset()
    commands: frozenset[str] | None = None  # commands.allowFrom; None: whoever is listed
    paired: bool = False  # the owner let this person in (direct chats only)
    chat: bool = True  # the group is one of ours
    mention: bool = False  # the group wants us named
    overhear: bool = False  # what people say who may not speak is context all the same
    bots: Bots = "off"


class AdmissionVerdict(NamedTuple):
    """in: a turn; pair: nobody knows this person, offer a code; note: context only; out: nothing happens."""

    word: Word
    why: str = ""
    owner: bool = False
    allowed: bool = False  # commands and directives act


def decide_admission(asked: AdmissionRequest, rules: AdmissionRules) -> AdmissionVerdict:
    """The one decision."""
    who = frozenset(asked.ids) - {"", EVERYBODY}
    if not who:
        return AdmissionVerdict("out", "no sender id")
    if rules.policy == "disabled":
        return AdmissionVerdict("out", "switched off")
    if asked.bot and (rules.bots == "off" or (rules.bots == "mentions" and not asked.named)):
        return AdmissionVerdict("out", "a bot")
    return _direct(asked, rules, who) if asked.direct else _group(asked, rules, who)


def parse_allowlist(written: Iterable[str], channel: str) -> frozenset[str]:
    """A list from the config as bare ids of this channel: `telegram:123` is 123 on Telegram, and nobody elsewhere."""
    return frozenset(_bare(entry.strip(), channel) for entry in written) - {""}


def _bare(entry: str, channel: str) -> str:
    prefix, colon, rest = entry.partition(":")
    word = prefix.lower()
    return rest.strip() if colon and CHANNEL_SHORTHANDS.get(word, word) == channel else entry


def _direct(asked: AdmissionRequest, rules: AdmissionRules, who: frozenset[str]) -> AdmissionVerdict:
    owner = bool(who & rules.owners)
    if owner or who & rules.listed or (rules.paired and rules.policy == "pairing"):
        return _in(rules, who, owner, known=True)
    if rules.policy == "open" and EVERYBODY in rules.listed:
        return _in(rules, who, owner=False, known=False)
    if rules.policy == "pairing" and not asked.bot:
        return AdmissionVerdict("pair", "unknown")
    return AdmissionVerdict("out", "not on the list")


def _group(asked: AdmissionRequest, rules: AdmissionRules, who: frozenset[str]) -> AdmissionVerdict:
    if not rules.chat:
        return AdmissionVerdict("out", "not one of our groups")
    known = bool(who & rules.listed)
    if not known and rules.policy != "open" and EVERYBODY not in rules.listed:
        return AdmissionVerdict("note" if rules.overhear and asked.plain else "out", "not on the group's list")
    verdict = _in(rules, who, bool(who & rules.owners), known=known)
    if rules.mention and not asked.named and not (asked.command and (verdict.allowed or verdict.owner)):
        return AdmissionVerdict("note" if asked.plain else "out", "not named")
    return verdict


def _in(rules: AdmissionRules, who: frozenset[str], owner: bool, *, known: bool) -> AdmissionVerdict:
    """Being let in by `*`, or by being in the group, gives no right to command."""
    return AdmissionVerdict("in", "", owner, known if rules.commands is None else bool(who & rules.commands))
