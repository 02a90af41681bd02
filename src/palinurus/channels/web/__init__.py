"""What platforms have in common that are HTTP in with a signature and HTTP out with a token. No channel by itself."""
