"""`store`: where the state is, and what this gateway is among several that share one."""

import os
import socket
from hashlib import blake2b
from typing import Annotated

from palinurus.config.declare import Section, option
from palinurus.config.forms import Names, OptionalSecret, Text, between
from palinurus.config.secrets import Secret


class StoreSettings(Section, frozen=True):
    """store. Times in seconds."""

    url: OptionalSecret = option(
        Secret(""), "A PostgreSQL that several gateways share (docs/fleet.md); empty: files of this machine."
    )
    node: Text = option("", "What this gateway is called among them; by default the machine's name and a few letters.")
    lease: Annotated[float, between(2, 600)] = option(
        15.0, "How long a gateway may be silent before the others take over its work.", "leaseSeconds"
    )
    serves: Names = option((), "The agents whose messages this gateway runs; by default all.")

    def name_node(self, home: str) -> str:
        """What this gateway is called."""
        mark = blake2b(os.path.realpath(home).encode(), digest_size=3).hexdigest()
        return self.node or f"{socket.gethostname()}-{mark}"

    def list_served(self) -> tuple[str, ...] | None:
        """Beginnings of the keys of sessions that run here; None: all."""
        return tuple(f"agent:{agent}:" for agent in self.serves) or None
