"""The search itself. It runs in a process of its own (search_worker.py) and uses the standard library alone."""
