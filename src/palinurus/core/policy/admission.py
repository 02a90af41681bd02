"""Who may speak: one decision for every kind of event (message, button, command, voice note, forward). Pure.

Identity is the id that the platform gives, compared exactly; names are never looked at. `inbox/access.py` puts
together who asks and which rules apply in the chat. A list that is empty lets nobody in. Also when one sender is too
much, and whether a text names us.
"""

from __future__ import annotations

import re
from collections import OrderedDict, deque
from collections.abc import Iterable
from typing import Literal, TypeAlias

import msgspec

from palinurus.patterns import compile_late

Word: TypeAlias = Literal["in", "pair", "note", "out"]
Policy: TypeAlias = Literal["pairing", "allowlist", "open", "disabled"]
Bots: TypeAlias = Literal["off", "mentions", "on"]
EVERYBODY = "*"
CHANNEL_SHORTHANDS: dict[str, str] = {"tg": "telegram"}  # how people shorten a channel's name before an id
FloodStep: TypeAlias = Literal["fine", "first", "more"]  # first: the one that was too much
MAX_SENDERS = 4096
MAX_MENTION_TEXT = 2_000  # characters of a message that are looked at
MAX_PATTERN = 200  # characters of a pattern
_ESCAPED = compile_late(r"\\.", re.DOTALL)
_CLASS = compile_late(r"\[\^?\]?[^\]]*(?:\]|\Z)")
_BACK = compile_late(r"\\[1-9]|\(\?P=|\(\?\(")
_AGAIN = compile_late(r"\)\s*(?:[*+]|\{)")  # a group that repeats
_ENDLESS = compile_late(r"[*+]|\{\d*,\}")


class AdmissionRequest(msgspec.Struct, frozen=True):
    """One event. `ids`: its actor, by every id the platform itself vouches for."""

    ids: tuple[str, ...]
    direct: bool = True
    bot: bool = False
    named: bool = False  # we were mentioned or answered, or a button of ours was pressed
    command: bool = False  # its text is a command of ours
    plain: bool = True  # somebody said something: fit to be context. Buttons and commands are not


class AdmissionRules(msgspec.Struct, frozen=True):
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


class AdmissionVerdict(msgspec.Struct, frozen=True):
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


# --- too much of one sender ----------------------------------------------------------------------------------------


class _Count:
    def __init__(self) -> None:
        self.times: deque[float] = deque()
        self.until = 0.0


class FloodGuard:
    """`most` in `window` seconds, by key; then nothing for `rest` seconds. Senders are strangers and choose their ids,
    so only so many are remembered; the longest silent goes first."""

    def __init__(self, known: int = MAX_SENDERS) -> None:
        self._known = known
        self._counts: OrderedDict[str, _Count] = OrderedDict()

    def step(self, key: str, now: float, most: int, window: float = 60.0, rest: float = 60.0) -> FloodStep:
        """Count one. `first` once for each overflow, so that somebody can be told."""
        count = self._counts.setdefault(key, _Count())
        self._counts.move_to_end(key)
        if len(self._counts) > self._known:
            self._counts.popitem(last=False)
        if now < count.until:
            return "more"
        while count.times and count.times[0] <= now - window:
            count.times.popleft()
        if len(count.times) >= most:
            count.times.clear()
            count.until = now + rest
            return "first"
        count.times.append(now)
        return "fine"

    def full(self, key: str, now: float, most: int, window: float = 60.0) -> bool:
        """Would one more be too much? Counts nothing."""
        count = self._counts.get(key)
        if count is None:
            return most <= 0
        return now < count.until or sum(one > now - window for one in count.times) >= most

    def forget(self, prefix: str) -> None:
        """Begin anew for every key that starts like this."""
        for key in [key for key in self._counts if key.startswith(prefix)]:
            del self._counts[key]


# --- being named in words ------------------------------------------------------------------------------------------


def find_pattern_problem(pattern: str) -> str:
    """Why a pattern of messages.groupChat.mentionPatterns cannot be used; "" if it can. Patterns come from the owner,
    the texts from anybody: one that could take for ever on some text is not used."""
    if len(pattern) > MAX_PATTERN:
        return f"is longer than {MAX_PATTERN} characters"
    try:
        found = re.compile(pattern, re.IGNORECASE)
    except (re.error, RecursionError, OverflowError) as exc:
        return f"is not a regular expression: {exc}"
    if found.match(""):
        return "fits every message"
    if _BACK.search(pattern):
        return "refers back to a group, which can take for ever"
    bare = _CLASS.sub("c", _ESCAPED.sub("e", pattern))
    if _AGAIN.search(bare) or len(_ENDLESS.findall(bare)) > 1:
        return "repeats in a way that can take for ever"
    return ""


def is_mentioned(text: str, patterns: tuple[str, ...]) -> bool:
    """Does the text name us? Patterns that have a `problem` name nobody."""
    return any(
        not find_pattern_problem(one) and re.search(one, text[:MAX_MENTION_TEXT], re.IGNORECASE) for one in patterns
    )


def make_name_patterns(name: str) -> tuple[str, ...]:
    """The patterns of an agent that has only a name."""
    name = name.strip()
    return (rf"(?<!\w)@?{re.escape(name)}(?!\w)",) if name else ()
