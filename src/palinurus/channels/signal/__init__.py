"""Signal, through a signal-cli daemon that the owner runs."""
