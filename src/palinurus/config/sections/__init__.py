"""What each section of the configuration means: raw section in, frozen settings out."""
