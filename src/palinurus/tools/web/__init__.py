"""The web: one way to the network (`egress`), the tools that go through it (`fetch`, `search`, `media`), and child
processes that read what came (`reader` on our side; `page`, `pdf` and `serve` on theirs)."""
