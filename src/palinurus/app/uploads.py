"""What clients of the gateway send along, put where files from channels are put too."""

from __future__ import annotations

import os

from palinurus.app.media import ChannelFiles
from palinurus.clock import Clock
from palinurus.config.settings import Settings
from palinurus.gateway.attach import ATTACHMENT_BYTES, INBOUND_FOLDER
from palinurus.inbox.commands.desk import KeepFile
from palinurus.tools.web.door import EgressGuard


def make_upload_saver(settings: Settings, door: EgressGuard, clock: Clock) -> KeepFile:
    """Puts a file on disk and names it, or says why not."""
    return ChannelFiles(os.path.join(settings.home, INBOUND_FOLDER), (), ATTACHMENT_BYTES, door, clock).save
