"""Names for running commands: two short words, eight characters at most, so that a short notice holds all of it."""

from __future__ import annotations

import secrets
from collections.abc import Container

_HOW = (
    "able bold blue busy calm cool cozy cute dark deep easy even fair fast fine firm fond free full glad gold good "
    "gray hale hazy icy keen kind late lazy long loud lush mild mint neat next nice oak odd open pale pink plum pure "
    "quick rapid rare rich ripe rosy safe shy slim slow snug soft sure swift tall tame tan tidy tiny true vast warm "
    "wavy wee wide wild wise zesty"
)
_WHAT = (
    "ant ape bat bay bee bow box bug cat cod cow cub dew doe dog eel elk elm emu fig fin fir fly fog fox gem gnu hen "
    "hut ivy jay kit koi lark leaf lynx mole moon moth newt oak orca owl pea pike pine pug ram ray reef sea seal sky "
    "sun tern tide toad wasp wave wolf wren yak"
)
NAME_LENGTH = 8


def make_command_name(taken: Container[str]) -> str:
    """A name nobody has; a number is added only when the words have run out."""
    how, what = _HOW.split(), _WHAT.split()
    for _ in range(50):
        name = f"{secrets.choice(how)}-{secrets.choice(what)}"
        if len(name) <= NAME_LENGTH and name not in taken:
            return name
    while True:
        name = f"{secrets.choice(what)}-{secrets.randbelow(10_000)}"
        if name not in taken:
            return name
