"""Configuration: one JSON5 file in, one frozen `Settings` out."""
