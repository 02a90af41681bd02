"""The pure part: no I/O, no clock, no async. Facts in, values out."""
