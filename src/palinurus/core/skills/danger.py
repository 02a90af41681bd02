"""A skill's folder read by a sceptic: what in it runs, reaches the network, or talks to the model behind people's back.

Pure. A finding is a reason to look, not a verdict: many good skills have some. Nothing found proves nothing.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

import msgspec

from palinurus.core.hidden import is_hidden

SHOWN = 100  # characters of a line
MAX_FINDINGS = 40  # findings of one file
LINE = 4000  # characters of a line that are looked at
_BINARY: tuple[tuple[bytes, str], ...] = (
    (b"\x7fELF", "Linux program"),
    (b"MZ", "Windows program"),
    (b"\xcf\xfa\xed\xfe", "macOS program"),
    (b"\xca\xfe\xba\xbe", "macOS program"),
)


class SkillFinding(msgspec.Struct, frozen=True):
    kind: str
    file: str
    line: int  # 0: the file as a whole
    what: str

    def __str__(self) -> str:
        where = f"{self.file}:{self.line}" if self.line else self.file
        return f"{self.kind}: {where}: {self.what}"


class SkillFile(msgspec.Struct, frozen=True):
    """A file of the folder."""

    name: str
    data: bytes
    executable: bool = False


# What a line may show, by what it is called. All patterns are linear.
_SIGNS: dict[str, str] = {
    "suspicious instruction": (
        r"(?i)ignore (?:all |any |the )?(?:previous|prior|above|earlier) (?:instructions|rules|messages)"
        r"|disregard (?:all |any |the |your )?(?:previous|prior|safety|system|instructions|rules)"
        r"|(?:do not|don't|never) (?:tell|inform|mention|reveal|show)(?: this| it)? (?:to )?(?:the )?"
        r"(?:user|person|human|owner)"
        r"|without (?:telling|asking|informing|the knowledge of) (?:the )?(?:user|person|owner)"
        r"|you are now (?:in )?(?:developer|dan|unrestricted|jailbr)"
        r"|(?:reveal|print|send|upload|post)\b.{0,40}\b"
        r"(?:system prompt|api[ _-]?keys?|credentials|private key|password)"
    ),
    "secrets": (
        r"(?i)\.ssh/|id_rsa|id_ed25519|\.aws/credentials|\.netrc|\.gnupg|/etc/shadow|gateway\.token"
        r"|auth-profiles\.json|\bprintenv\b|keychain dump|login\.keychain"
    ),
    "runs what it downloads": (
        r"(?i)(?:curl|wget)\b[^\n|]{0,300}\|\s{0,4}(?:sudo )?(?:ba|z|da)?sh\b"
        r"|\b(?:iwr|irm)\b[^\n|]{0,200}\|\s{0,4}iex"
    ),
    "runs code": (
        r"\beval\s?\(|\bexec\s?\(|base64 (?:-d|--decode|-D)\b|\bsudo\b|rm -rf? [/~]|chmod \+x|os\.system\("
        r"|subprocess\.|child_process|\bnohup\b|crontab|launchctl load"
    ),
    "network": (
        r"\bcurl\b|\bwget\b|\bfetch\(|requests\.(?:get|post|put)|urllib\.request|http\.client|\bnc -|\bscp\b"
        r"|\brsync\b|\baiohttp\b|socket\.socket"
    ),
    "installs": r"\b(?:npm|pnpm|yarn|brew|pip3?|uv|go|cargo|apt|apt-get) (?:install|add|i -g)\b|\bnpx\b|\buvx\b",
}
_GRAVE = frozenset(("suspicious instruction", "hidden text", "runs what it downloads", "program", "secrets"))


def is_grave(finding: SkillFinding) -> bool:
    """Is it one that good skills seldom need?"""
    return finding.kind in _GRAVE


def find_dangers(parts: Iterable[SkillFile]) -> tuple[SkillFinding, ...]:
    """What there is to say, graver kinds first, then by file and line."""
    found = [one for part in parts for one in _part(part)]
    return tuple(sorted(found, key=lambda one: (not is_grave(one), one.kind, one.file, one.line)))


def _part(part: SkillFile) -> list[SkillFinding]:
    kind = next((what for magic, what in _BINARY if part.data.startswith(magic)), "")
    if kind:
        return [SkillFinding("program", part.name, 0, kind)]
    made = []
    if part.executable or part.data.startswith(b"#!"):
        made.append(SkillFinding("executable", part.name, 0, "a script that can be started"))
    if b"\x00" in part.data[:8192]:
        return made  # an image, a font …
    for number, line in enumerate(part.data.decode("utf-8", "replace").splitlines(), 1):
        made += _line(part.name, number, line[:LINE])
        if len(made) >= MAX_FINDINGS:
            more = SkillFinding("more", part.name, number, "the rest of this file is not listed")
            return [*made[:MAX_FINDINGS], more]
    return made


def _line(name: str, number: int, line: str) -> list[SkillFinding]:
    made = []
    if not line.isascii():
        unseen = sorted({f"U+{ord(c):04X}" for c in line.lstrip("\ufeff") if is_hidden(c)})
        if unseen:
            what = f"characters that are not seen: {', '.join(unseen[:6])}"
            made.append(SkillFinding("hidden text", name, number, what))
    shown = "".join(c for c in line.strip() if not is_hidden(c))[:SHOWN]
    return made + [SkillFinding(kind, name, number, shown) for kind, sign in _SIGNS.items() if re.search(sign, line)]
