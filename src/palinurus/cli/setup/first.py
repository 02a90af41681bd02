"""The questions of a first run: who answers, where the agent works, whether to begin. Each has an answer to press
Enter for. A key is tried with one tiny request before it is written down.
"""

from __future__ import annotations

import asyncio
import getpass
import textwrap
from collections.abc import Callable, Mapping
from typing import NamedTuple

from palinurus.cli.render import strip_controls
from palinurus.cli.setup.model import (
    DEFAULT,
    SetupCandidate,
    add_candidate_key,
    ask_server,
    list_keyed_providers,
    parse_candidate,
    try_candidate,
)
from palinurus.cli.status import find_model_in_use
from palinurus.config.load import load_config
from palinurus.config.patch import set_config_key
from palinurus.errors import PalinurusError

SHOWN = 6  # providers named in the question
WIDTH = 78


class SetupPerson(NamedTuple):
    """Somebody to ask. `hidden` does not show what is typed. All raise EOFError when nobody is there any more."""

    ask: Callable[[str], str]
    hidden: Callable[[str], str]
    say: Callable[[str], None]


def open_terminal_questions(home: str, environ: Mapping[str, str]) -> SetupQuestions:
    """The one at this terminal."""
    return SetupQuestions(home, environ, SetupPerson(input, getpass.getpass, print))


def _wrapped(text: str) -> str:
    return textwrap.fill(strip_controls(text), WIDTH, initial_indent="   ", subsequent_indent="   ")


class SetupQuestions:
    """Asks, and writes what was answered into the config."""

    def __init__(self, home: str, environ: Mapping[str, str], person: SetupPerson) -> None:
        self._home = home
        self._environ = environ
        self._person = person

    def model(self) -> list[str]:
        """Who answers. Asked only while it would be the demo; what was written, without values that are secret."""
        person, settings = self._person, load_config(self._home, self._environ).settings
        name, source = asyncio.run(find_model_in_use(settings, self._environ))
        if "/" in name and not name.startswith("builtin/"):
            person.say(f"model {strip_controls(name)}" + (f", key from {source}" if source else ""))
            return []
        found = list_keyed_providers(settings, self._environ)
        names = ", ".join(found[:SHOWN])
        person.say(
            f"1. Who shall answer? A provider that you have an API key for\n   ({names}, …),\n"
            "   `local` for a small one on this machine, the address of a model server\n"
            "   (http://…), or Enter for the demo for now."
        )
        kept: SetupCandidate | None = None
        while True:
            more = " (Enter: take it all the same)" if kept is not None else ""
            text = self._ask(f"   model{more}: ")
            if not text:
                return self._write(kept) if kept is not None else []
            made = self._made(text)
            if isinstance(made, str):
                person.say(_wrapped(made))
                continue
            person.say(f"   asking {made.ref} …")
            problem = asyncio.run(try_candidate(settings, self._environ, made))
            if not problem:
                person.say("   it answers")
                return self._write(made)
            person.say(_wrapped(f"no answer: {problem}"))
            kept = made

    def _made(self, text: str) -> SetupCandidate | str:
        settings = load_config(self._home, self._environ).settings
        if "://" in text:
            return asyncio.run(ask_server(text))
        found = parse_candidate(settings, self._environ, text)
        if isinstance(found, str) or found.ready:
            return found
        secret = self._ask(f"   API key for {found.provider} (not shown): ", self._person.hidden)
        return add_candidate_key(found, secret) if secret else "no key, no answer"

    def _write(self, made: SetupCandidate) -> list[str]:
        try:
            for key, value in made.written.items():
                set_config_key(self._home, self._environ, key, value)
        except PalinurusError as exc:
            self._person.say(f"   the config was not changed: {strip_controls(exc.message)}")
            return []
        return [*(key for key in made.written if key != DEFAULT), f"{DEFAULT} = {made.ref}"]

    def workspace(self, default: str) -> str:
        """Where the agent works; "" for where it would anyway."""
        return self._ask(f"2. Where shall the agent keep its files? [{default}]: ")

    def begin(self) -> bool:
        """Whether to chat now."""
        self._person.say("   Chat apps can be connected at any time: `pal channels add`.")
        return self._ask("3. Begin? [Y/n]: ").lower() in ("", "y", "yes")

    def _ask(self, text: str, how: Callable[[str], str] | None = None) -> str:
        try:
            return (how or self._person.ask)(text).strip()
        except EOFError:
            return ""
