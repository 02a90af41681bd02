"""Fakes of platforms that are HTTP in with a signature and HTTP out with a token."""
