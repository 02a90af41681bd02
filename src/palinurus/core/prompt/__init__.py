"""The system prompt: facts in, text out.

`facts` is all a prompt is made from, `order` the table of sections with the cache boundary, `render` joins.
The words stand in `conduct`, `tooling`, `place`, `skills`, `context`, `chat` and `runtime`, one function a section.
"""
