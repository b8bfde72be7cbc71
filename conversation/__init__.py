"""Conversations on top of the runtime: the host that drives turns and the command line."""
