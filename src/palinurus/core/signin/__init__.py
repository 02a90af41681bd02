"""Signing in, without a network: machines that say what to ask next and are fed with what came. Pure."""
