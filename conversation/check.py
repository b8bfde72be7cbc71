"""``agent-nodes structure``: what projects declare, or why that cannot be seen."""

from __future__ import annotations

import json
import sys
from argparse import Namespace

from conversation.problems import put
from conversation.structure import ProjectStructure, read_structure


def structure_command(given: Namespace) -> int:
    """1 where anything is found wrong."""
    projects = read_structure(given.path)
    for project in projects:
        if given.json:
            put(json.dumps(project.to_dict(), ensure_ascii=(sys.stdout.encoding or "").lower() != "utf-8"))
        elif project.problems:
            for problem in project.problems:
                put(str(problem))
        else:
            put(f"{project.file}: {_declared(project)}")
    return 1 if any(project.problems for project in projects) else 0


def _declared(project: ProjectStructure) -> str:
    tools, params = len(project.tools or ()), len(project.params or ())
    return f"{tools} tool{'s' * (tools != 1)}, {params} parameter{'s' * (params != 1)}"
