"""Child processes are killed at every commit, request and tool of a run; what is left must go on to the same end.

One *case* is a scene (:mod:`tests.crash.scenes`) whose processes are killed at given points: the killed run, the run
that takes over, and a third process that asks for the result again, goes on with the session and checks the file. Cases
are played by :mod:`tests.crash.parent`, a process of its own that has imported everything, runs no loop and no thread,
and forks a child for every run. Points are never listed by hand: a run without a kill writes down those it passes.
"""
