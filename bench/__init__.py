"""What a turn costs, as ratios against two floors held in the same run (`./dev bench`).

Floors, on the HTTP library that we use (`bench/floor.py`):

- *raw*: HTTP stream, JSON parse, one SQLite commit a turn (WAL, synchronous=NORMAL);
- *raw-step*: the same, but the user's text, each answer of the model and each tool result is
  committed with synchronous=FULL before anything follows from it.

Floors and ours talk to one fast loopback model (`bench/fake.py`, a process of its own) and send the
same prompt and tools. Each is a warm process of its own; they take turns in short batches, and each
round's ratio is formed within that round. A figure is the median of the rounds. Commits and
statements are not timed but counted, once (`bench/counts.py`).

Fifty sessions are one batch of a warm process: each is opened, led through four turns and closed, all
at the same time. Memory is measured in a new process that holds 200 sessions open
(`bench/memory.py`). Such a process has over a thousand files open: the soft limit of the system
(`ulimit -n`) is raised for it, a lower hard limit is refused before anything runs.
"""
