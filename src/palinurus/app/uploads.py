"""What clients of the gateway send along, put where files from channels are put too."""

from __future__ import annotations

import os

from palinurus.app.media import Files
from palinurus.clock import Clock
from palinurus.config.settings import Settings
from palinurus.gateway.attach import FOLDER, MOST
from palinurus.inbox.commands.desk import KeepFile
from palinurus.tools.web.door import Door


def uploads(settings: Settings, door: Door, clock: Clock) -> KeepFile:
    """Puts a file on disk and names it, or says why not."""
    return Files(os.path.join(settings.home, FOLDER), (), MOST, door, clock).save
