"""Command-line parsing and start-up shared by the commands: usage errors become BadRequest (exit code 64)."""

from __future__ import annotations

import argparse
import os
from collections.abc import Mapping
from typing import NoReturn

from palinurus.config import paths
from palinurus.config.load import LoadedConfig, load_config
from palinurus.errors import BadRequest


class CommandParser(argparse.ArgumentParser):
    """argparse, but a wrong line raises instead of exiting with 2."""

    def __init__(self, command: str, description: str) -> None:
        super().__init__(f"pal {command}", description=description, allow_abbrev=False)

    def error(self, message: str) -> NoReturn:
        raise BadRequest(message, fix=f"`{self.prog} --help`")


def load_settings(environ: Mapping[str, str]) -> LoadedConfig:
    """The config in force. From here on, files we make are ours alone. Raises ConfigError."""
    os.umask(0o077)
    return load_config(paths.find_home(environ), environ)
