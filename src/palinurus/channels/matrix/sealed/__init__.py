"""End-to-end encryption of Matrix rooms, with vodozemac (the extra `matrix`). docs/channels/matrix.md."""
