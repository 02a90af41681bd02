"""The web: one way to the network (`egress`), the tools that go through it (`fetch`, `search`, `media`), and child
processes that read what came (`reader` and `shrink` on our side; `page`, `pdf`, `scale` and `serve` on theirs)."""
