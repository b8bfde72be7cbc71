"""Writes ``_sql.py`` and the prepared empty database from the tables and statements: ``./dev gen``.

With ``--check`` nothing is written and the exit status is 1 where a file is out of date.
"""

import argparse
import base64
import sqlite3
import sys
import tempfile
import zlib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, cast

from sqlalchemy import BindParameter, ClauseElement, Table, insert
from sqlalchemy.dialects import sqlite
from sqlalchemy.dialects.sqlite.base import SQLiteCompiler
from sqlalchemy.schema import CreateIndex, CreateTable
from sqlalchemy.sql.base import Executable
from sqlalchemy.sql.compiler import SQLCompiler
from sqlalchemy.types import NullType
from sqlmodel import SQLModel

from agent_nodes.store import schema, statements, tables
from agent_nodes.store.statement import Statement

FOLDER = Path(__file__).parent
SQL = FOLDER / "_sql.py"
EMPTY = FOLDER / "_empty.py"


class _Compiler(SQLiteCompiler):
    """Writes every plain value into the text; only what was named by ``bindparam`` stays a parameter."""

    def visit_bindparam(self, bindparam: BindParameter[Any], *args: Any, **options: Any) -> str:
        from_values = getattr(bindparam, "_is_crud", False) and not bindparam.required
        if from_values or bindparam.unique:
            options["literal_binds"] = True
        return cast("str", super().visit_bindparam(bindparam, *args, **options))  # pyright: ignore[reportUnknownMemberType]


def _dialect() -> Any:
    dialect: Any = sqlite.dialect(paramstyle="qmark")
    dialect.statement_compiler = _Compiler
    return dialect


_DIALECT = _dialect()


def compile_statement(name: str, source: ClauseElement, columns: list[str] | None = None) -> Statement:
    """Raises ``TypeError`` for a parameter without a type: whether it is JSON could not be told."""
    compiled = cast("SQLCompiler", source.compile(dialect=_DIALECT, column_keys=columns))
    names = tuple(compiled.positiontup or ())
    json: list[str] = []
    defaults: dict[str, Any] = {}
    for key in dict.fromkeys(names):
        bind = compiled.binds[key]
        if isinstance(bind.type, NullType):
            raise TypeError(
                f"{name}: the type of parameter {key!r} is unknown; name its column: param({key!r}, of=...)"
            )
        if isinstance(bind.type, tables.CanonicalJson):
            json.append(key)
        if bind.value is not None:
            defaults[key] = bind.value
    return Statement(str(compiled).replace(" \n", " ").replace("\n", " "), names, tuple(json), defaults)


def _insert(table: Table) -> Statement:
    columns = [column.name for column in table.columns]
    plain = compile_statement(f"INSERT_{table.name.upper()}", insert(table), columns)
    return Statement(plain.text, plain.names, plain.json, dict(_defaults(table)))


def _defaults(table: Table) -> Iterator[tuple[str, Any]]:
    for column in table.columns:
        default: Any = column.default
        if default is not None and default.is_scalar:
            yield column.name, default.arg
        elif column.nullable:
            yield column.name, None


def _tables() -> Iterable[Table]:
    return SQLModel.metadata.tables.values()


def inserts() -> dict[str, Statement]:
    """``INSERT_<TABLE>`` for every table; all columns, absent ones take their default."""
    return {f"INSERT_{table.name.upper()}": _insert(table) for table in _tables()}


def named() -> dict[str, Statement]:
    """What ``statements.py`` declares, by name."""
    found = {
        name: value
        for name, value in vars(statements).items()
        if name.isupper() and isinstance(value, Executable) and isinstance(value, ClauseElement)
    }
    return {name: compile_statement(name, value) for name, value in found.items()}


def ddl() -> str:
    """One script that makes all tables and indices."""
    lines: list[str] = []
    for table in _tables():
        lines.append(str(CreateTable(table).compile(dialect=_DIALECT)))
        lines.extend(
            str(CreateIndex(index).compile(dialect=_DIALECT))
            for index in sorted(table.indexes, key=lambda index: str(index.name))
        )
    return "".join(" ".join(line.split()) + ";\n" for line in lines)


def first_rows() -> str:
    """What a new session holds: its one ``meta`` row and its main target."""
    made = inserts()
    rows = [
        ("INSERT_META", {"schema_version": schema.SCHEMA_VERSION, "next_id": 2, "main_target": 1}),
        ("INSERT_TARGET", {"id": 1, "kind": "main"}),
    ]
    return "".join(_filled(made[name], values) + ";\n" for name, values in rows)


def _filled(statement: Statement, values: dict[str, Any]) -> str:
    head, _, _ = statement.text.partition(" VALUES ")
    return f"{head} VALUES ({', '.join(_literal(value) for value in statement.bind(values))})"


def _literal(value: Any) -> str:
    if value is None:
        return "NULL"
    if isinstance(value, str):
        return "'" + value.replace("'", "''") + "'"
    return str(int(value)) if isinstance(value, bool) else repr(value)


def sql_module() -> str:
    parts = [
        '"""Generated from tables.py and statements.py by `./dev gen`; changes here are lost."""\n',
        "from agent_nodes.store.statement import Statement\n",
        f'DDL = """\\\n{ddl()}{first_rows()}"""\n',
    ]
    for name, statement in [*inserts().items(), *named().items()]:
        arguments = [repr(statement.text), repr(statement.names), repr(statement.json), repr(statement.defaults)]
        while len(arguments) > 1 and arguments[-1] in {"()", "{}"}:
            arguments.pop()
        parts.append(f"{name} = Statement(\n" + "".join(f"    {argument},\n" for argument in arguments) + ")")
    return "\n".join(parts) + "\n"


def empty_database(script: str) -> bytes:
    """The bytes of a database in which ``script`` has run, in WAL mode, with nothing in its log."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "empty.sqlite"
        connection = sqlite3.connect(path, isolation_level=None)
        try:
            connection.execute(f"PRAGMA page_size={schema.PAGE_SIZE}")
            schema.create(connection, script)
            connection.execute("PRAGMA journal_mode=WAL")
            connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        finally:
            connection.close()
        return path.read_bytes()


def empty_module(script: str) -> str:
    text = base64.b64encode(zlib.compress(empty_database(script), 9)).decode()
    lines = "\n".join(text[at : at + 116] for at in range(0, len(text), 116))
    return (
        '"""A new session\'s database, compressed. Generated by `./dev gen`; changes here are lost."""\n\n'
        "import base64\nimport zlib\nfrom functools import cache\n\n\n"
        "@cache\n"
        "def database() -> bytes:\n"
        "    return zlib.decompress(base64.b64decode(_TEXT))\n\n\n"
        f'_TEXT = """\n{lines}\n"""\n'
    )


def contents(database: bytes) -> tuple[Any, ...]:
    """What two prepared databases must have in common. Not their bytes: SQLite writes its own version into them."""
    connection = sqlite3.connect(":memory:", isolation_level=None)
    try:
        # A database in memory has no log; bytes 18 and 19 say that this one has.
        connection.deserialize(database[:18] + b"\x01\x01" + database[20:])
        (version,) = connection.execute("PRAGMA user_version").fetchone()
        (application,) = connection.execute("PRAGMA application_id").fetchone()
        master = connection.execute("SELECT type, name, tbl_name, sql FROM sqlite_master ORDER BY name").fetchall()
        names = [name for kind, name, _, _ in master if kind == "table"]
        rows = {name: connection.execute(f'SELECT * FROM "{name}"').fetchall() for name in names}
    finally:
        connection.close()
    return database[18:20], int.from_bytes(database[16:18], "big"), version, application, master, rows


def _written_database() -> bytes | None:
    try:
        from agent_nodes.store import _empty
    except ImportError:
        return None
    return _empty.database()


def out_of_date() -> dict[Path, str]:
    """The files that differ from what the tables say, with the text each should have."""
    stale: dict[Path, str] = {}
    text = sql_module()
    if not SQL.exists() or SQL.read_text(encoding="utf-8") != text:
        stale[SQL] = text
    script = ddl() + first_rows()
    written = _written_database()
    if written is None or contents(written) != contents(empty_database(script)):
        stale[EMPTY] = empty_module(script)
    return stale


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m agent_nodes.store.generate", description=__doc__)
    parser.add_argument("--check", action="store_true", help="write nothing; fail where a file is out of date")
    check = parser.parse_args(arguments).check
    stale = out_of_date()
    for path, text in stale.items():
        print(f"{path.name} is out of date; run ./dev gen" if check else f"wrote {path.name}")
        if not check:
            path.write_text(text, encoding="utf-8")
    return 1 if check and stale else 0


if __name__ == "__main__":
    sys.exit(main())
