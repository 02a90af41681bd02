"""Tools the model may call. `collect` lists them, `define` makes them of typed functions, `call` is the one way to run one."""
