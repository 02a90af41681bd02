"""`secrets.providers`: where references to secrets lead. A variable, a file of the owner's, or a program that knows.

What is not to be trusted is not asked: a file that others may read, a program that others may change. Nothing of a
secret, nor of what the program said, is in a reason.
"""

import os
import stat
import subprocess
from collections.abc import Mapping
from functools import lru_cache
from typing import Annotated, Any, ClassVar, Literal

import msgspec

from palinurus.config import paths
from palinurus.config.declare import Section, fill_section, option, same_form
from palinurus.config.findings import ConfigPlace
from palinurus.config.forms import Free, Millis, Names, Text, between
from palinurus.config.keypath import get_at

LARGEST = 1 << 20
KEYS = ("_API_KEY", "_TOKEN", "_BASE_URL")  # ends of the names that are taken from a shell
BEGIN = "palinurus-begins-here"


class SecretProvider(Section, frozen=True):
    """secrets.providers.<name>"""

    ABOUT: ClassVar = """
        args What the program is called with.
    """
    source: Literal["env", "file", "exec"] = option("env", "Where its secrets are: env, file or exec.")
    allowlist: Names | None = option(None, "The only variables that it gives.", closed=[])
    path: Text = option("", "The file; nobody else may read it.")
    mode: Literal["json", "singleValue"] = option(
        "json", "json: an id is a pointer (/a/b); singleValue: the whole file."
    )
    command: Text = option("", "The program, with its whole path; it gets the id on stdin and answers in JSON.")
    args: Names = ()
    pass_env: Names = option((), "Variables that the program gets; no other.")
    timeout: Millis = option(5.0, "How long it may take.", "timeoutMs")
    linked: bool = option(False, "The command may be a symbolic link.", "allowSymlinkCommand")
    json_only: bool = option(False, "true: an answer that is no JSON is none; false: it is the secret itself.")
    trusted_dirs: Names | None = option(None, "The only folders that the program may lie in.", closed=[])


class ShellEnvSection(Section, frozen=True):
    """env.shellEnv: keys of models from the owner's shell, where the environment has none."""

    enabled: bool = option(False, "true: variables that hold keys are taken from the login shell, once.", closed=False)
    timeout: Annotated[float, between(1, 600_000, scale=0.001)] = option(
        15.0, "How long the shell may take.", "timeoutMs"
    )

    LOOSE: ClassVar = True


def read_shell_variables(config: Any, environ: Mapping[str, str]) -> dict[str, str]:
    """What the owner's login shell knows of keys and the environment does not; {} where that is not asked for."""
    written = get_at(config, ("env", "shellEnv")) if isinstance(config, dict) else None
    if not isinstance(written, dict) or written.get("enabled") is not True:
        return {}
    rules = fill_section(ShellEnvSection, written, ConfigPlace("", environ, []))
    shell = environ.get("SHELL") or "/bin/sh"
    home = environ.get("HOME", "/")
    found = _ask_shell(shell, home, environ.get("PATH", ""), rules.timeout) if os.path.isabs(shell) else {}
    return {name: text for name, text in found.items() if name.endswith(KEYS) and not environ.get(name)}


@lru_cache(maxsize=4)
def _ask_shell(shell: str, home: str, path: str, timeout: float) -> dict[str, str]:
    """Once in a process. What a shell prints besides is passed over."""
    env = {"HOME": home, "PATH": path, "SHELL": shell, "TERM": "dumb"}
    try:
        done = subprocess.run(
            [shell, "-l", "-c", f"printf {BEGIN}; env -0"],
            env=env, stdin=subprocess.DEVNULL, capture_output=True, timeout=timeout, check=False,
        )  # fmt: skip
    except (OSError, subprocess.TimeoutExpired):
        return {}
    rows = done.stdout[:LARGEST].decode("utf-8", "replace").rpartition(BEGIN)[2].split("\0")
    return {name: text for row in rows for name, sign, text in (row.partition("="),) if sign and text}


class SecretsSection(Section, frozen=True):
    """secrets"""

    ABOUT: ClassVar = """
        resolution Taken as OpenClaw writes it; secrets are fetched when the config is loaded.
    """
    providers: dict[str, SecretProvider] = option({}, "By the name that a reference gives as provider.")
    defaults: dict[str, str] = option({}, "Which provider is meant by a reference that names none, by source.")

    KNOWN: ClassVar = same_form(Free, "resolution")


class SecretVaults:
    """Fetches what references name."""

    def __init__(self, written: Any, environ: Mapping[str, str], home: str) -> None:
        raw = written if isinstance(written, dict) else {}
        self._told = fill_section(SecretsSection, raw, ConfigPlace(home, environ, []))
        self._environ, self._home = environ, home

    def fetch(self, source: str, provider: str, ident: str) -> tuple[str, str]:
        """The secret, and why there is none."""
        name = self._told.defaults.get(source, provider) if provider == "default" else provider
        place = self._told.providers.get(name) or (SecretProvider() if (source, name) == ("env", "default") else None)
        if place is None or place.source != source:
            return "", f"secrets.providers has no {name!r} of source {source!r}"
        if source == "env":
            if place.allowlist is not None and ident not in place.allowlist:
                return "", f"secrets.providers.{name} does not allow {ident}"
            found = self._environ.get(ident, "")
            return found, "" if found else f"the environment variable {ident} is not set"
        path = paths.expand_path(place.path if source == "file" else place.command, self._environ, self._home)
        if why := _distrust(path, source, place.linked) or self._outside(path, place):
            return "", f"{path} {why}"
        env = tuple((key, self._environ[key]) for key in place.pass_env if key in self._environ)
        return _read(path, place, ident) if source == "file" else _ask(path, place, name, (ident, env))

    def _outside(self, path: str, place: SecretProvider) -> str:
        if place.source != "exec" or place.trusted_dirs is None:
            return ""
        folders = [os.path.realpath(paths.expand_path(one, self._environ, self._home)) for one in place.trusted_dirs]
        real = os.path.realpath(path)
        return "" if any(os.path.commonpath((one, real)) == one for one in folders) else "is in none of trustedDirs"


def _distrust(path: str, source: str, linked: bool) -> str:
    """Why the file is not used; "" if it is the owner's alone."""
    try:
        about = os.lstat(path)
        if stat.S_ISLNK(about.st_mode) and linked:
            about = os.stat(path)
    except OSError as error:
        return f"cannot be read: {error.strerror}"
    if not stat.S_ISREG(about.st_mode):
        return "is no regular file"
    others = 0o077 if source == "file" else 0o022
    if about.st_mode & others or about.st_uid not in (0, os.getuid()):
        return "is open to others (chmod 600)" if source == "file" else "can be changed by others"
    return ""


def _read(path: str, place: SecretProvider, ident: str) -> tuple[str, str]:
    try:
        with open(path, "rb") as file:
            text = file.read(LARGEST).decode()
        if place.mode == "singleValue":
            return text.strip(), "" if text.strip() else f"{path} is empty"
        parts = tuple(part.replace("~1", "/").replace("~0", "~") for part in ident.lstrip("/").split("/"))
        found = get_at(msgspec.json.decode(text), parts)
    except (OSError, ValueError, RecursionError):
        return "", f"{path} cannot be read as {place.mode}"
    return (found, "") if isinstance(found, str) and found else ("", f"{path} has no text at {ident[:80]}")


@lru_cache(maxsize=64)
def _ask(
    path: str, place: SecretProvider, name: str, asked: tuple[str, tuple[tuple[str, str], ...]]
) -> tuple[str, str]:
    """Once in a process: a program may take its time, or ask a person."""
    ident, env = asked
    request = msgspec.json.encode({"protocolVersion": 1, "provider": name, "ids": [ident]})
    try:
        done = subprocess.run(
            [path, *place.args], input=request, env=dict(env), capture_output=True, timeout=place.timeout, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return "", f"{path} did not answer ({type(error).__name__})"
    if done.returncode or len(done.stdout) > LARGEST:
        return "", f"{path} failed with exit code {done.returncode}"
    try:
        said = msgspec.json.decode(done.stdout)
    except (ValueError, RecursionError):
        said = "" if place.json_only else done.stdout.decode(errors="replace").strip()
    found = get_at(said, ("values", ident)) if isinstance(said, dict) else said
    return (found, "") if isinstance(found, str) and found else ("", f"{path} knows no {ident[:80]}")
