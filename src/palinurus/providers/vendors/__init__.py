"""Facts of vendors, each a `Vendor`; families of models that many of them serve: `claude`, `efforts`. Pure."""
