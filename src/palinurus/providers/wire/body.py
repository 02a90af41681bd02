"""From a request to the body that goes out: what the wire makes of it, and the vendor's last word. Pure.

The one way there, for live calls and for whoever wants to know what would be sent.
"""

from __future__ import annotations

from typing import Any

from palinurus.core.types.model import ModelRequest
from palinurus.core.types.vendor import Vendor
from palinurus.providers.wire import ModelWire


def compose_body(request: ModelRequest, wire: ModelWire, vendor: Vendor) -> dict[str, Any]:
    """The body as the vendor gets it. Raises ValueError, TypeError, LookupError for requests that cannot be written."""
    return vendor.shape(wire.encode(request), request)
