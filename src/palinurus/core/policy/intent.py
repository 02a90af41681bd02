"""Do the owner's words ask for what a tool does? By rules: words that people use, by kind of effect, and the words of
which tools make their names. Pure. What is not recognised is not asked for, and costs a question.
"""

from __future__ import annotations

from palinurus.core.types.tool import Tool
from palinurus.patterns import compile_late

_WORD = compile_late(r"[^\W\d_]+")
_SPLIT = compile_late(r"[^A-Za-z]+|(?<=[a-z])(?=[A-Z])")


def _read_verbs(rows: str) -> dict[str, frozenset[str]]:
    """By the first of each row's words."""
    return {row.partition("/")[0]: frozenset(row.split("/")) for row in rows.split()}


# What people say, by kind of effect. The first word of a row is its name; a tool's kinds are found in its own name.
_KINDS: tuple[frozenset[str], ...] = tuple(
    frozenset(row.split())
    for row in (
        "send message mail email reply forward notify tell write text dm ping share post say announce answer respond "
        "inform remind contact schicke sende schreibe antworte envoie envia",
        "create make add schedule book set new put plan organize arrange register save store write append start open "
        "setup draft generate note upload erstelle trage lege",
        "delete remove cancel erase drop clear unsubscribe uninvite lösche entferne",
        "pay transfer send refund buy purchase order reimburse settle donate money bill rent tip überweise bezahle "
        "invoice subscription transaction give return",
        "update change modify edit correct reschedule move adjust rename replace fix increase password address ändere",
        "reserve book reservation reserviere buche",
        "invite add join welcome introduce include lade",
        "share give grant access permission teile",
        "fetch open visit read browse look check summarize summarise summary download website page article link url "
        "lies öffne",
        "run execute do call trigger start stop restart",
        "remind reminder schedule every each daily hourly weekly monthly nightly morning evening tomorrow later cron "
        "job alarm timer wake recurring regularly erinnere täglich jeden jede morgen rappelle recuerda lembra",
    )
)  # fmt: skip
# Verbs in tools' names, and what people say for them. Opposites share no row: who has a door locked has none unlocked.
_VERBS = _read_verbs(
    "accept activate approve/genehmige assign close/schließe complete/finish confirm convert deactivate "
    "decline/reject deploy disable dismiss duplicate enable install merge move/shift/postpone/verschiebe mute "
    "pause postpone/move publish purchase/buy/order reject/decline rename reopen rerun/retry/again resolve/close "
    "restore resume retry/rerun snooze submit toggle/turn/switch translate/übersetze turn/switch/schalte unarchive "
    "unassign uninstall unlock unmute unpublish upgrade"
)
# Verbs that are things as well count as a name's first word before what they are done to: `order_refund` is no order.
_WEAK = _read_verbs(
    "archive/archiviere bookmark/save call/phone/ring comment copy/kopiere dim/turn flag label/tag like/react lock "
    "mark order/buy/bestelle pin play/spiele print/drucke rate release review scan sign star switch/turn/schalte "
    "tag/label"
)
_OBJECTS = frozenset(
    "album appointment article blinds branch bug card channel chat contact device document door email event feed file "
    "folder food groceries heater heating image invoice issue item items lamp letter light lights list mail message "
    "movie music note number page pdf person photo picture playlist post product pull recipe record repo repository "
    "request room shopping song task ticket track tv user video".split()
)
# Words of tools' names that say what kind they are of: what is done, and (where no such word is there) with what.
_NAMES: dict[str, tuple[int, ...]] = {
    "send": (0, 3), "post": (0,), "reply": (0,), "forward": (0,), "notify": (0,),
    "create": (1,), "add": (1, 6), "schedule": (1, 3), "append": (1, 4), "set": (1, 4), "save": (1,), "upload": (1,),
    "delete": (2,), "remove": (2,), "cancel": (2,), "pay": (3,), "transfer": (3,),
    "update": (4,), "edit": (4,), "change": (4,), "modify": (4,), "reschedule": (4,), "reserve": (5,), "book": (1, 5),
    "invite": (6,), "participants": (6, 0), "share": (7, 0), "get": (8,), "fetch": (8,), "open": (8,), "browse": (8,),
    "run": (9,), "start": (9,), "stop": (9,), "write": (0, 1, 4), "put": (1,),
    "cron": (10,),
}  # fmt: skip
_NOUNS: dict[str, tuple[int, ...]] = {
    "message": (0,), "email": (0,), "mail": (0,), "money": (3,), "transaction": (3,), "webpage": (8,),
}  # fmt: skip
# Things that are made or changed: a word for them must be among the owner's. Who books a hotel asked for no event.
_DATES = frozenset(
    "calendar event appointment meeting reminder agenda schedule invite invitation lunch dinner breakfast call "
    "kalender termin erinnerung rendezvous réunion cita reunión".split()
)
_THINGS: dict[str, frozenset[str]] = {
    "calendar": _DATES,
    "event": _DATES,
    "password": frozenset("password passwort passphrase contraseña login credentials".split()),
}
_PAGES = frozenset("article blog link page site url webpage website artikel seite seiten webseite lien página".split())


def asks_for_pages(text: str) -> bool:
    """Do they speak of pages to be read?"""
    return not _PAGES.isdisjoint(_list_spoken(text))


def asks_for(tool: Tool, text: str, *, named: bool = False) -> bool:
    """Do these words of the owner ask for what the tool does? A name that says nothing is not asked for. `named`: the
    owner called the very thing by its name, and need not say that it is an event."""
    spoken = _list_spoken(text)
    words = [word.lower() for word in _SPLIT.split(tool.name) if word]
    things = [] if named else [_THINGS[word] for word in words if word in _THINGS]
    return _is_done_asked_for(words, spoken) and all(spoken & thing for thing in things)


def _is_done_asked_for(words: list[str], spoken: set[str]) -> bool:
    """What is done counts before what it is done with: "reply to the mail" asks for no delete_mail."""
    if kinds := [kind for word in words for kind in _NAMES.get(word, ())]:
        return any(spoken & _KINDS[kind] for kind in kinds)
    verbs = [_VERBS[word] for word in words if word in _VERBS]
    if not verbs and words and words[0] in _WEAK and not _OBJECTS.isdisjoint(words[1:]):
        verbs = [_WEAK[words[0]]]
    if verbs:
        return all(spoken & verb for verb in verbs)
    return any(spoken & _KINDS[kind] for word in words for kind in _NOUNS.get(word, ()))


def _list_spoken(text: str) -> set[str]:
    spoken = set(_WORD.findall(text.casefold()))
    plain = {word[:-1] for word in spoken if word.endswith("s")}
    return spoken | plain | {word[:-3] for word in spoken if word.endswith("ing")}
