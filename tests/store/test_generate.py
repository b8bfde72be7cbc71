"""What is generated agrees with the tables, and a statement takes exactly its own parameters."""

import orjson
import pytest
from sqlalchemy import select, update

from agent_nodes.store import _empty, _sql, generate, statements
from agent_nodes.store.statement import Statement, decode, encode


def test_the_generated_sql_is_what_the_tables_and_statements_say() -> None:
    assert generate.SQL.read_text(encoding="utf-8") == generate.sql_module(), "run ./dev gen"


def test_the_prepared_database_is_what_the_tables_say() -> None:
    made = generate.empty_database(_sql.DDL)
    assert generate.contents(_empty.database()) == generate.contents(made), "run ./dev gen"


def test_a_new_session_has_one_main_target_and_small_pages_and_keeps_a_log() -> None:
    log, page_size, _, _, _, rows = generate.contents(_empty.database())
    assert log == b"\x02\x02"
    assert page_size == 2048
    assert len(rows["meta"]) == 1
    assert [(row[0], row[1]) for row in rows["target"]] == [(1, "main")]
    assert not any(found for name, found in rows.items() if name not in {"meta", "target"})


def test_the_check_reports_a_file_that_is_out_of_date(monkeypatch, tmp_path, capsys) -> None:
    stale = tmp_path / "_sql.py"
    stale.write_text("DDL = ''\n", encoding="utf-8")
    monkeypatch.setattr(generate, "SQL", stale)
    assert generate.main(["--check"]) == 1
    assert "_sql.py is out of date" in capsys.readouterr().out
    assert stale.read_text(encoding="utf-8") == "DDL = ''\n"
    assert generate.main([]) == 0
    assert generate.main(["--check"]) == 0


def test_integer_keys_are_row_ids_and_other_keys_have_no_hidden_index() -> None:
    script = generate.ddl()
    assert "BIGINT" not in script
    for line in script.splitlines():
        if "PRIMARY KEY (id)" not in line and "PRIMARY KEY (sid)" not in line and line.startswith("CREATE TABLE"):
            assert line.endswith("WITHOUT ROWID;"), line


def test_plain_values_become_text_and_named_ones_parameters() -> None:
    task = statements.task
    made = generate.compile_statement(
        "X", update(task).where(task.c.id == statements.param("id"), task.c.status != "terminal").values(phase="end")
    )
    assert made.text == "UPDATE task SET phase='end' WHERE task.id = ? AND task.status != 'terminal'"
    assert made.names == ("id",)


def test_a_parameter_of_unknown_type_is_refused_by_name() -> None:
    with pytest.raises(TypeError, match="SOMETHING: the type of parameter 'what'"):
        generate.compile_statement("SOMETHING", select(statements.param("what")))


def test_json_parameters_are_known_by_their_column() -> None:
    made = generate.compile_statement("X", statements.update_by(statements.task, "id", "status", "checkpoint"))
    assert made.json == ("checkpoint",)
    assert made.bind({"id": 1, "status": "running", "checkpoint": {"b": 1, "a": 2}}) == ("running", '{"b":1,"a":2}', 1)


def test_an_insert_fills_in_what_is_left_out() -> None:
    row = dict(zip(_sql.INSERT_TARGET.names, _sql.INSERT_TARGET.bind({"id": 7, "kind": "fork"}), strict=True))
    assert row["ancestry"] == "[]"
    assert row["model"] is None
    assert row["deleted"] == 0


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ({"id": 1}, "missing kind"),
        ({"id": 1, "kind": "main", "kid": 2}, "unknown kid"),
        ({"id": 1, "kid": 2}, "unknown kid and missing kind"),
    ],
)
def test_a_statement_names_parameters_it_does_not_have_or_misses(values, said) -> None:
    with pytest.raises(TypeError, match=said):
        _sql.INSERT_TARGET.bind(values)


def test_one_parameter_twice_is_given_once() -> None:
    assert Statement("SELECT ?, ?", ("a", "a")).bind({"a": 1}) == (1, 1)
    assert Statement("SELECT 1").bind({}) == ()


def test_json_keeps_order_and_takes_encoded_parts_as_they_are() -> None:
    text = encode({"z": 1, "a": orjson.Fragment(b'{"k":1.0}'), "n": float("nan"), "ko": "안녕"})
    assert text == '{"z":1,"a":{"k":1.0},"n":null,"ko":"안녕"}'
    assert decode(text)["ko"] == "안녕"
    with pytest.raises(TypeError):
        encode({"bad": "\ud800"})
