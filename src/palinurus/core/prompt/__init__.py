"""The system prompt: facts in, text out. `facts` is all a prompt is made from; `render` holds the table of sections
with the cache boundary and joins them. The words stand in `conduct`, `capabilities`, `environment`, `bootstrap` and
`chat`.
"""
