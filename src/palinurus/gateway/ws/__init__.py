"""The WebSocket face, protocol 4: frames, handshake, device identity, the clients that are connected. No methods."""
