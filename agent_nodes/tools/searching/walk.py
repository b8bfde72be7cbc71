"""The walk through a folder, in order of name, without what nobody looks for."""

from __future__ import annotations

import os
from collections.abc import Iterator

from agent_nodes.tools.searching.found import Found
from agent_nodes.tools.searching.ignore import NAME, Rules, is_ignored, rules_above, rules_of

# Searched only when asked for by path: the history of version control, compiled files, and what package managers
# install. The last are named in the response, because someone may be looking for just that.
HIDDEN = frozenset({".git", ".hg", ".svn", "__pycache__"})
INSTALLED = frozenset({"node_modules"})


def walk(root: str, found: Found, *, ignored: bool = False) -> Iterator[tuple[str, os.DirEntry[str], bool]]:
    """(path below ``root``, entry, is it a folder) of all that is there; links are named, never followed. Without
    ``ignored``, what the rules of ``.gitignore`` files name is left out, installed packages and virtual environments
    too."""
    folders = [("", root, () if ignored else rules_above(root))]
    while folders:
        below, folder, rules = folders.pop()
        try:
            with os.scandir(folder) as listing:
                entries = sorted(listing, key=lambda entry: entry.name)
        except OSError:
            found.unreadable += 1
            continue
        if not ignored:
            names = {entry.name for entry in entries}
            if below and "pyvenv.cfg" in names:
                found.leave_out(below[:-1])
                continue
            if NAME in names:
                rules = (*rules, *rules_of(f"{folder}/{NAME}", strip=len(below)))
        inner: list[tuple[str, str, tuple[Rules, ...]]] = []
        for entry in entries:
            path = below + entry.name
            is_folder = entry.is_dir(follow_symlinks=False)
            if is_folder and entry.name in HIDDEN:
                continue
            if not ignored and (
                (is_folder and entry.name in INSTALLED) or is_ignored(rules, path, entry.name, is_folder)
            ):
                if is_folder:
                    found.leave_out(path)
                else:
                    found.ignored_files += 1
                continue
            yield path, entry, is_folder
            if is_folder:
                inner.append((f"{path}/", entry.path, rules))
        folders.extend(reversed(inner))
