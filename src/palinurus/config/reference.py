"""docs/config.md: every key with how it is written, its default, what it means, and whether it acts.

`python -m palinurus.config.reference docs/config.md` writes it; a test keeps it true.
"""

from __future__ import annotations

import sys

from palinurus.config.check import walk_keys
from palinurus.config.declare import show_default
from palinurus.config.inert import list_inert
from palinurus.config.keypath import Path
from palinurus.config.kinds import KeyNote, Kind, NumberKind
from palinurus.config.secrets import is_secret
from palinurus.config.sections.agents import ENTRY_ONLY

INTRO = """# Every key of the config

`~/.palinurus/palinurus.json` is JSON5. A key that is left out, or null, has its default. `pal config explain KEY` says
what a key is set to, and where. Made from the declarations in `src/palinurus/config/sections` by
`python -m palinurus.config.reference docs/config.md`; do not edit.

`*` stands for any name, `[]` for the items of a list. *at once*: a change takes effect at once. *restart*: when the
gateway is started again. Every other change is followed by itself (the gateway begins anew when no turn runs), unless
`gateway.reload.mode` says otherwise. Keys that OpenClaw has and that do nothing here are at the end, with the reason.

`{ $include: "other.json5" }` stands for what another file says: one in the folder of the config (or in one that the
variable PALINURUS_INCLUDE_ROOTS lists), or several, of which the later ones lie over the earlier; keys beside it lie
over all of them, and lists are joined. One that cannot be read costs the object that it stands in.
"""
INERT = """These keys load, and do nothing; neither does anything below them. The log at the start, `pal doctor`,
`pal config validate` and `pal config explain` say so, with the line. `agents.*` is `agents.defaults` and every agent.
"""


def render_reference() -> str:
    """The whole document."""
    rows: dict[str, list[str]] = {}
    seen: set[tuple[Path, str]] = set()
    for path, kind, note in walk_keys():
        row = _row(path, kind, note)
        if not _repeats(path) and (path, row) not in seen:
            seen.add((path, row))
            rows.setdefault(str(path[0]), []).append(row)
    head = "| key | written as | default | what it does |\n|---|---|---|---|\n"
    made = "".join(f"\n## {top}\n\n{head}" + "".join(found) for top, found in rows.items())
    inert = "".join(f"| `{key}` | {reason} |\n" for key, reason in sorted(list_inert().items()))
    return f"{INTRO}{made}\n## Known and not acted on\n\n{INERT}\n| key | why |\n|---|---|\n{inert}"


def _repeats(path: Path) -> bool:
    """agents.entries is agents.list by name; what agents.defaults can say is listed there, and so is a reference to a
    secret in docs/security.md."""
    own = path[:2] != ("agents", "list") or len(path) < 4 or path[3] in ENTRY_ONLY
    reference = path[-1] in ("source", "id", "provider") and is_secret(path[:-1])
    return path[:2] == ("agents", "entries") or not own or reference


def _row(path: Path, kind: Kind, note: KeyNote) -> str:
    key = ".".join(str(part) for part in path).replace(".[]", "[]")
    words = " or ".join(dict.fromkeys(word for one in kind.options for word in one.list_words())) or "anything"
    bounds = next((one for one in kind.options if isinstance(one, NumberKind)), None)
    if bounds is not None and bounds.low is not None:
        words += f" ({bounds.low:g} to {bounds.high:g})" if bounds.high is not None else f" ({bounds.low:g} or more)"
    default = show_default(kind, note)
    shown = "" if default in (None, "", []) else f"`{str(default).lower() if isinstance(default, bool) else default}`"
    fate = [note.about] if note.about else []
    fate += ["*restart*"] if note.restart else ["*at once*"] if note.live else []
    return f"| `{key}` | {words} | {shown} | {' '.join(fate)} |\n".replace("|  |", "| |")


if __name__ == "__main__":
    with open(sys.argv[1], "w", encoding="utf-8") as file:
        file.write(render_reference())
