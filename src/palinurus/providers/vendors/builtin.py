"""The model inside the program: scripted, offline, no key."""

from __future__ import annotations

from palinurus.core.types.model import TokenPrice
from palinurus.core.types.vendor import Vendor, VendorModel

BUILTIN = Vendor(
    id="builtin",
    name="Built in",
    api="builtin",
    base_url="",
    keyless=True,
    models=(VendorModel("demo", "Demo (scripted)", context_window=200_000, max_tokens=8192, price=TokenPrice()),),
)
