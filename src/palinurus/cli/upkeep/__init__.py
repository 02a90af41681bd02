"""Commands that look after the installation itself: update, uninstall, reset, completion, profiles."""
