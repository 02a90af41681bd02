"""Keys by name: what a keyboard sends for them. Pure."""

from __future__ import annotations

from typing import NamedTuple

from palinurus.core.types.tool import ToolFailure

MODIFIERS = {"Alt": 1, "Control": 2, "Meta": 4, "Shift": 8}
_ALIASES = {
    "esc": "Escape", "return": "Enter", "del": "Delete", "ctrl": "Control", "cmd": "Meta", "command": "Meta",
    "option": "Alt", "space": " ", "up": "ArrowUp", "down": "ArrowDown", "left": "ArrowLeft", "right": "ArrowRight",
    "pgup": "PageUp", "pgdn": "PageDown", "ins": "Insert",
}  # fmt: skip
# Name -> code on the keyboard, virtual key, text.
_NAMED: dict[str, tuple[str, int, str]] = {
    "Enter": ("Enter", 13, "\r"), "Tab": ("Tab", 9, ""), "Escape": ("Escape", 27, ""), "Delete": ("Delete", 46, ""),
    "Backspace": ("Backspace", 8, ""), "Insert": ("Insert", 45, ""), "Home": ("Home", 36, ""), "End": ("End", 35, ""),
    "PageUp": ("PageUp", 33, ""), "PageDown": ("PageDown", 34, ""), "ArrowLeft": ("ArrowLeft", 37, ""),
    "ArrowUp": ("ArrowUp", 38, ""), "ArrowRight": ("ArrowRight", 39, ""), "ArrowDown": ("ArrowDown", 40, ""),
    " ": ("Space", 32, " "), "Alt": ("AltLeft", 18, ""), "Control": ("ControlLeft", 17, ""),
    "Meta": ("MetaLeft", 91, ""), "Shift": ("ShiftLeft", 16, ""),
    **{f"F{n}": (f"F{n}", 111 + n, "") for n in range(1, 13)},
}  # fmt: skip
# Editing that browsers leave to the system, which a headless one does not have.
_COMMANDS = {"a": "selectAll", "c": "copy", "x": "cut", "v": "paste", "z": "undo"}


class KeyStroke(NamedTuple):
    """One key as the browser takes it."""

    key: str
    code: str
    number: int
    text: str
    modifiers: int = 0
    commands: tuple[str, ...] = ()


def parse_keys(combination: str) -> KeyStroke:
    """`Enter`, `Control+Shift+T`, `a`. Raises ToolFailure."""
    *held, last = combination.split("+") if combination not in ("+", "") else [combination]
    if not last and held:  # Control++
        last, held = "+", held[:-1]
    modifiers = 0
    for name in held:
        found = _ALIASES.get(name.strip().lower(), name.strip().capitalize())
        if found not in MODIFIERS:
            raise ToolFailure(f"{name!r} is no key to hold; there are {', '.join(MODIFIERS)}")
        modifiers |= MODIFIERS[found]
    return press_key(last, modifiers)


def press_key(name: str, modifiers: int = 0) -> KeyStroke:
    """One key, with modifiers held. Raises ToolFailure."""
    bare = name if name == " " else name.strip()
    known = _ALIASES.get(bare.lower(), bare)
    named = _NAMED.get(known) or _NAMED.get(known[:1].upper() + known[1:])
    if named is not None:
        code, number, text = named
        key = known if known in _NAMED else known[:1].upper() + known[1:]
        return KeyStroke(key, code, number, "" if modifiers & ~8 else text, modifiers=modifiers)
    if len(bare) != 1:
        raise ToolFailure(f"there is no key {name[:40]!r}; such as Enter, Tab, ArrowDown, Control+A, x")
    upper = bare.upper()
    code = f"Key{upper}" if "A" <= upper <= "Z" else f"Digit{upper}" if upper.isdigit() else ""
    number = ord(upper) if upper.isascii() and upper.isalnum() else 0
    command = _COMMANDS.get(bare.lower()) if modifiers & 6 else None
    return KeyStroke(
        bare, code, number, "" if modifiers & 7 else bare, modifiers=modifiers, commands=(command,) if command else ()
    )
