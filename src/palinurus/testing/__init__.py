"""Fakes that ship with Palinurus: clock, scripted model, fake provider, fake channel, temporary home, checker.

Our own tests use nothing else, and plugin authors get the same. Import the modules by name; this file loads none.
"""
