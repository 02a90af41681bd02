"""Palinurus: a personal AI agent that runs on your own machine and answers where you already chat."""

__version__ = "0.1.0"
