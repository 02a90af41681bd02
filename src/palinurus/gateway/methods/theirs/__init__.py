"""Methods under OpenClaw's names for what this program has under others."""
