"""One turn: prepare a frozen plan, loop until the model has nothing more to do, settle."""
