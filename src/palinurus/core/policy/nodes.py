"""Which commands of a node may be called. Pure.

Three must agree: the node offers the command, a person approved it when they paired the node, and the gateway's policy
has it: what its kind of device usually may, plus `gateway.nodes.allowCommands`, without `denyCommands`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

import msgspec

from palinurus.core.types.node import NOTIFY, RUN, WHICH, NodeAnswer, NodeView
from palinurus.errors import BadRequest, NotFound

# Commands that start programs: a node with one of them is approved by an administrator only.
PROGRAMS = frozenset((RUN, WHICH, "system.run.prepare"))
LOOKS = ("camera.list", "location.get", "screen.snapshot")
DEVICE = ("device.info", "device.status")
PERSONAL = ("contacts.search", "calendar.events", "reminders.list", "photos.latest")
# What takes pictures or sound of people, or writes in their name, needs a word in the config. Not in any row below:
# camera.snap camera.clip screen.record sms.send sms.search contacts.add calendar.add reminders.add
USUAL: dict[str, tuple[str, ...]] = {
    "linux": (*sorted(PROGRAMS), NOTIFY, "location.get", "screen.snapshot", "camera.list"),
    "macos": (*sorted(PROGRAMS), NOTIFY, *LOOKS, *DEVICE, *PERSONAL),
    "windows": (*sorted(PROGRAMS), NOTIFY, *LOOKS, *DEVICE),
    "ios": (NOTIFY, "camera.list", "location.get", *DEVICE, *PERSONAL),
    "android": (NOTIFY, "camera.list", "location.get", "notifications.list", *DEVICE, *PERSONAL),
}
UNKNOWN = (NOTIFY, "camera.list", "location.get")  # of a platform nobody has heard of: nothing that starts programs
_FAMILIES = {"darwin": "macos", "mac": "macos", "win32": "windows", "iphone": "ios", "ipad": "ios", "ipados": "ios"}

# What an iPhone does only while its app is in front; it says so with one of these words.
_IN_FRONT = ("canvas.", "camera.", "screen.", "talk.")
_BACKGROUND = "BACKGROUND_UNAVAILABLE"

WRITE, ADMIN, PAIRING = "operator.write", "operator.admin", "operator.pairing"


class NodeRules(msgspec.Struct, frozen=True):
    """gateway.nodes"""

    allow: tuple[str, ...] = ()
    deny: tuple[str, ...] = ()


def classify_platform(platform: str) -> str:
    """A row of `USUAL`; "" for none."""
    word = platform.strip().lower().split(" ")[0]
    word = _FAMILIES.get(word, word)
    return word if word in USUAL else ""


def explain_refused_command(command: str, platform: str, rules: NodeRules) -> str:
    """Why the gateway's policy does not let it pass; "" if it does."""
    if command in rules.deny or "*" in rules.deny:
        return f'"{command}" is in gateway.nodes.denyCommands'
    kind = classify_platform(platform)
    if command in USUAL.get(kind, UNKNOWN) or command in rules.allow:
        return ""
    return f'"{command}" is not in the allowlist for platform "{kind or platform[:32]}"'


def waits_for_front(command: str, platform: str, answer: NodeAnswer) -> bool:
    """Did the node not do it because its app is in the background, and could it later?"""
    said = f"{answer.code} {answer.message}".upper()
    in_front = classify_platform(platform) == "ios" and command.startswith(_IN_FRONT)
    return not answer.ok and not answer.unknown and in_front and _BACKGROUND in said


def list_callable(offered: Iterable[str], approved: Collection[str], platform: str, rules: NodeRules) -> list[str]:
    """The commands of which all three say yes, in the node's order."""
    return [c for c in offered if c in approved and not explain_refused_command(c, platform, rules)]


def list_approver_scopes(commands: Iterable[str]) -> tuple[str, ...]:
    """What whoever approves a node with these commands must hold."""
    named = set(commands)
    if named & PROGRAMS:
        return PAIRING, ADMIN
    return (PAIRING, WRITE) if named else (PAIRING,)


def choose_node(nodes: Sequence[NodeView], wanted: str) -> NodeView:
    """The one that is meant. Raises NotFound, BadRequest where several could be."""
    word = wanted.strip()
    exact = [node for node in nodes if node.id == word or (word and node.name.lower() == word.lower())]
    found = exact or [node for node in nodes if len(word) >= 4 and node.id.startswith(word.lower())]
    if len(found) == 1:
        return found[0]
    if found:
        raise BadRequest(f"several nodes are called {word[:64]!r}", fix="use the id")
    known = ", ".join(node.label for node in nodes) or "none is paired"
    raise NotFound(f"there is no node {word[:64]!r}", fix=f"there is: {known}")


def choose_runner(nodes: Sequence[NodeView], wanted: str) -> NodeView:
    """The node for a command: the one that is named, else the only one that can. Raises NotFound, BadRequest."""
    if wanted:
        node = choose_node(nodes, wanted)
        if not node.connected:
            raise BadRequest(
                f"node {node.label} is not connected", fix="start it there with `pal node run`, or name another"
            )
        if RUN not in node.commands:
            raise BadRequest(f"node {node.label} runs no commands ({RUN} is not among what it may do)")
        return node
    able = [node for node in nodes if node.connected and RUN in node.commands]
    if len(able) == 1:
        return able[0]
    if able:
        raise BadRequest(f"several nodes can run commands: name one of {', '.join(node.label for node in able)}")
    raise NotFound(
        "no node that runs commands is connected",
        fix="`pal nodes` lists them; `pal node run` on the other machine connects one",
    )
