"""Extras: what this installation can have besides, as its checkout or wheel says. No index has us; fetches nothing."""

from __future__ import annotations

import os
import re
import tomllib
from importlib import metadata

import msgspec

import palinurus
from palinurus.patterns import compile_late
from palinurus.plugins.checkout import CHECKOUT

_PACKAGE = os.path.dirname(os.path.abspath(palinurus.__file__))
_NEEDED = compile_late(r"""([^;]*[^;\s])\s*;\s*extra == ['"]([\w-]+)['"]""")  # a line of a wheel's metadata


class PackageNeed(msgspec.Struct, frozen=True):
    """A package that an extra needs, and the version that is here ("" for none). Another version is not tested."""

    name: str
    wanted: str
    here: str


def read_extras(checkout: str = CHECKOUT) -> dict[str, list[PackageNeed]]:
    """Every extra with what it needs: as the checkout says today, else as the wheel said when it was installed."""
    found: dict[str, list[str]] = {}
    if os.path.isfile(file := os.path.join(checkout, "pyproject.toml")):
        with open(file, "rb") as source:
            found = tomllib.load(source)["project"]["optional-dependencies"]
    else:
        for match in filter(None, map(_NEEDED.fullmatch, metadata.requires("palinurus") or ())):
            found.setdefault(match[2], []).append(match[1])
    return {name: [look_up_package(text) for text in found[name]] for name in sorted(found)}


def look_up_package(text: str) -> PackageNeed:
    """NAME==VERSION, and what of it is here."""
    name, _, version = text.strip().partition("==")
    try:
        return PackageNeed(name, version, metadata.version(name))
    except metadata.PackageNotFoundError:
        return PackageNeed(name, version, "")


def list_missing(needs: list[PackageNeed]) -> list[str]:
    """What pip is to be told."""
    return [f"{need.name}=={need.wanted}" for need in needs if need.here != need.wanted]


def read_tested_versions(wanted: list[str]) -> str:
    """constraints.txt for what comes along with `wanted`; what is installed stays as it is wherever it will do."""
    named = {_plain(text) for text in wanted}
    file = os.path.join(CHECKOUT, "constraints.txt")
    with open(file if os.path.isfile(file) else os.path.join(_PACKAGE, "constraints.txt"), encoding="utf-8") as source:
        return "".join(line for line in source if _plain(line) not in named and not look_up_package(line).here)


def _plain(text: str) -> str:
    return re.sub(r"[-_.]+", "-", text.partition("==")[0].strip()).lower()
