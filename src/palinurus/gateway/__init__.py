"""The gateway's HTTP face: who may come in, what they may ask, how answers leave. Knows the App only as a port."""
