"""Subjects by name; each imports what it needs when it is started."""

from bench.common import Subject


def start(name: str, url: str) -> Subject:
    if name == "ours":
        from bench.ours import Ours

        return Ours(url)
    from bench.floor import Floor

    return Floor(url, steps=name == "raw-step")
