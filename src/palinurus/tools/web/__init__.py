"""The web: one door to the network (`door`), the tools that go through it (`fetch`, `search`), and child processes that
read what came (`reader` on our side; `page`, `paper` and `serve` on theirs)."""
