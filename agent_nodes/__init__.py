"""Agent turns over durable sessions: the runtime and its nodes."""
