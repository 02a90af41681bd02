"""What the model sees again: pairing, limits, token counts. Pure."""
