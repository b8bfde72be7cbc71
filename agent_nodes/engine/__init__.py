"""The turn as tasks with checkpoints: scheduling, generation, tools, recovery."""
