"""Skills, the pure half: `frontmatter` and `flow` read a header, `skill` makes a `Skill` of it, `offer` says whether it
may be used, fits the list into the prompt and names the commands, `danger` reads a folder as a sceptic would.
"""
