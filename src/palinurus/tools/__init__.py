"""Tools the model may call. `collect` lists them, `define` makes them of functions, `call` runs them."""
