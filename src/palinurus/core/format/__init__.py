"""A model's Markdown as each platform wants it. Pure; never invalid markup, whatever the input."""
