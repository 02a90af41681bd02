"""One file of facts per vendor, each with a `VENDOR`. Pure."""
