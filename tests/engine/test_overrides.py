"""What one run asks for in place of the agent's options: it holds to the end of that turn, whoever goes on with it."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from agent_nodes.errors import InputValidationError, RuntimeFailure
from agent_nodes.messages import SystemMessage
from tests.fakes import FakeServer, call, drop_after, reply, text, thinking, tools
from tests.support import model_of, online, scripted, take

ANTHROPIC = "anthropic-messages"


def systems(agent: Any) -> list[SystemMessage]:
    return [m for m in agent.harness.engine.context(1).messages if isinstance(m, SystemMessage)]


@pytest.mark.feature("A07", "B04")
async def test_a_run_has_its_own_prompt_and_the_next_the_agents_again():
    async with scripted("text: a\n---\ntext: b\n---\ntext: c", system_prompt="Agent's own.") as agent:
        await take(agent.run({"prompt": "1", "system_prompt": "Of this run."}))
        await take(agent.run("2"))
        await take(agent.run({"prompt": "3", "system_prompt": ""}))
        said = [request.system.sections[0] for request in model_of(agent).requests]
        assert said[:2] == ["Of this run.", "Agent's own."]
        assert not said[2].startswith("Agent's own.")


@pytest.mark.feature("A06")
async def test_the_communication_skill_is_in_every_prompt_behind_any_persona():
    async with scripted("text: a\n---\ntext: b\n---\ntext: c", system_prompt="You are a pirate.") as agent:
        await take(agent.run("1"))
        await take(agent.run({"prompt": "2", "system_prompt": "You are a poet."}))
        await take(agent.run({"prompt": "3", "host_input": {"system": "Rhyme."}}))
        for request in model_of(agent).requests:
            assert "i-have-adhd" in request.system.sections[-1]
            assert "normal mode" in request.system.sections[-1]
            assert request.system.sections[0].startswith("You are a p")


@pytest.mark.feature("A07", "B04")
async def test_a_run_has_its_own_folders(tmp_path):
    for name in ("one", "two", "two/sub", "other"):
        (tmp_path / name).mkdir()
    (tmp_path / "two" / "here.txt").write_text("found it")
    (tmp_path / "other" / "there.txt").write_text("also here")
    script = """
        call: read {"path": "here.txt"}
        call: read {"path": "../other/there.txt"}
        ---
        text: x
    """
    async with scripted(script, workdir=tmp_path / "one") as agent:
        given = {"prompt": "1", "workdir": str(tmp_path / "two"), "allowed_directories": ["../other"]}
        outcome = await take(agent.run(given))
        read = {event.result.strip() for event in outcome.of("tool") if event.phase == "end"}
        assert read == {"found it", "also here"}


@pytest.mark.feature("B04")
async def test_another_workdir_leaves_the_agents_further_folders_behind(tmp_path):
    for name in ("one", "extra", "two"):
        (tmp_path / name).mkdir()
    (tmp_path / "extra" / "k.txt").write_text("secret")
    script = f"""
        call: read {{"path": "{tmp_path}/extra/k.txt"}}
        ---
        text: x
    """
    options = {"workdir": tmp_path / "one", "allowed_directories": [tmp_path / "extra"]}
    async with scripted(script, script, **options) as agent:
        allowed = await take(agent.run("1"))
        refused = await take(agent.run({"prompt": "2", "workdir": str(tmp_path / "two")}))
        assert "secret" in allowed.of("tool")[-1].result
        assert refused.of("tool")[-1].is_error


@pytest.mark.feature("B04")
async def test_a_run_has_its_own_policy_and_loses_its_tools_with_it(tmp_path):
    script = 'call: write {"path": "a.txt", "content": "x"}\n---\ntext: x'
    async with scripted(script, script, workdir=tmp_path) as agent:
        refused = await take(agent.run({"prompt": "1", "permission_policy": "read-only"}))
        assert refused.of("tool")[-1].is_error
        assert not (tmp_path / "a.txt").exists()
        await take(agent.run("2"))
        assert (tmp_path / "a.txt").read_text() == "x"
        offered = [[spec.name for spec in request.system.tools] for request in model_of(agent).requests]
        assert "write" not in offered[0]
        assert "write" in offered[2]


@pytest.mark.feature("B04", "C04")
async def test_a_run_has_its_own_effort_limit_and_window():
    async with scripted("text: a\n---\ntext: b", effort="low", max_tokens=10) as agent:
        first = await take(agent.run({"prompt": "1", "effort": "max", "max_tokens": 77, "context_window": 5000}))
        second = await take(agent.run("2"))
        asked = [(request.effort, request.max_tokens) for request in model_of(agent).requests]
        assert asked == [("max", 77), ("low", 10)]
        assert first.of("context_usage")[-1].total == 5000
        assert second.of("context_usage")[-1].total == 1000


@pytest.mark.feature("C04")
async def test_an_empty_effort_is_a_choice_and_an_absent_one_is_none():
    async with scripted("text: a\n---\ntext: b", effort="high") as agent:
        await take(agent.run({"prompt": "1", "effort": ""}))
        await take(agent.run({"prompt": "2", "effort": None}))
        assert [request.effort for request in model_of(agent).requests] == ["", "high"]


WRONG = [
    ({"effort": "hihg"}, "effort"),
    ({"permission_policy": "root"}, "permission_policy"),
    ({"workdir": "/no/such/folder"}, "workdir"),
    ({"allowed_directories": ["nowhere"]}, "allowed_directories"),
    ({"allowed_directories": "nowhere"}, "allowed_directories"),
    ({"max_tokens": 0}, "max_tokens"),
    ({"context_window": "many"}, "context_window"),
    ({"api_kind": "soap"}, "api_kind"),
    ({"model": 5}, "model"),
    ({"model_attributes": {"contextWindwo": 5}}, "model_attributes.contextWindwo"),
    ({"model_attributes": '{"context_window": true}'}, "model_attributes.context_window"),
]


@pytest.mark.feature("B04", "C02")
@pytest.mark.parametrize(("given", "field"), WRONG)
async def test_a_wrong_override_is_named_and_leaves_no_turn(given, field):
    async with scripted("text: a") as agent:
        with pytest.raises(InputValidationError) as caught:
            outcome = await take(agent.run({"prompt": "1", "request_id": "r", **given}))
            raise outcome.error or AssertionError("accepted")
        assert caught.value.field == field
        assert model_of(agent).requests == []
        assert agent.unfinished() == []
        assert (await take(agent.run({"prompt": "1", "request_id": "r"}))).text == "a"


@pytest.mark.feature("B04")
async def test_hi_06_a_run_of_another_model_gets_no_signature_of_the_first():
    async with FakeServer() as fake, online(fake, ANTHROPIC) as agent:
        fake.script(reply(thinking("hm", signature="sig-a"), "one"), text("two"), text("three"))
        await take(agent.run("1"))
        await take(agent.run({"prompt": "2", "model": "m-b"}))
        await take(agent.run("3"))
        fake.assert_accepted()
        assert [request.json["model"] for request in fake.requests] == ["m-a", "m-b", "m-a"]
        assert "sig-a" not in fake.requests[1].raw.decode()
        assert "one" in fake.requests[1].raw.decode()


@pytest.mark.feature("B04")
@pytest.mark.parametrize("then", [ANTHROPIC, "openai-completions"])
async def test_hi_08_a_run_may_go_to_another_service_and_its_ids_fit_there(then, tmp_path):
    (tmp_path / "a.txt").write_text("text of a")
    async with FakeServer() as fake, online(fake, "openai-responses", workdir=tmp_path) as agent:
        fake.script(tools(call("read", {"path": "a.txt"}, id="call_7|fc_93_")), text("read"), text("again"))
        await take(agent.run("1"))
        url = fake.url if then == ANTHROPIC else fake.v1
        other = {"provider": "other", "model": "m-b", "base_url": url, "api_kind": then}
        outcome = await take(agent.run({"prompt": "2", **other}))
        assert outcome.text == "again"
        fake.assert_accepted()
        assert "text of a" in fake.requests[2].raw.decode()


@pytest.mark.feature("B04")
async def test_a_key_goes_only_where_it_was_given_for(monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "env-secret-1")
    async with FakeServer() as fake, FakeServer() as elsewhere, online(fake, ANTHROPIC) as agent:
        for server in (fake, elsewhere):
            server.respond(lambda _: text("x"))
        there = {"base_url": elsewhere.v1, "model": "m", "api_kind": "openai-completions"}
        await take(agent.run({"prompt": "0", "model": "m-b"}))
        await take(agent.run({"prompt": "1", "provider": "own", **there}))
        refused = await take(agent.run({"prompt": "2", "provider": "openai", **there}))
        assert "k-secret-1" in str(fake.requests[0].headers)
        assert "k-secret-1" not in str(elsewhere.requests[0].headers)
        assert isinstance(refused.error, InputValidationError)
        assert len(elsewhere.requests) == 1
        assert "secret" not in str(refused.error)


async def cut_off(agent: Any, given: dict[str, Any]) -> None:
    """Run until the first text, then shut down."""
    shown = asyncio.Event()

    async def consume() -> None:
        async for event in agent.run(given):
            if event.type == "text_delta":
                shown.set()

    task = asyncio.ensure_future(consume())
    await shown.wait()
    task.cancel()
    await asyncio.wait([task])


@pytest.mark.feature("B04")
async def test_a_turn_that_was_cut_off_goes_on_with_what_it_asked_for(tmp_path):
    path = tmp_path / "s.sqlite"
    async with FakeServer() as fake:
        async with online(fake, ANTHROPIC, database_path=path, system_prompt="Plain.") as agent:
            fake.script(drop_after("half ", end="silence"))
            asked = {"model": "m-b", "system_prompt": "Special.", "max_tokens": 99}
            await cut_off(agent, {"prompt": "go", "request_id": "r", **asked})
        fake.script(text("done"), text("other"))
        async with online(fake, ANTHROPIC, database_path=path, system_prompt="Plain.") as agent:
            assert [turn.request_id for turn in agent.unfinished()] == ["r"]
            outcome = await take(agent.run({"request_id": "r"}))
            assert outcome.text == "half done"
            await take(agent.run("next"))
        assert [request.json["model"] for request in fake.requests] == ["m-b", "m-b", "m-a"]
        assert fake.requests[1].json["max_tokens"] == 99
        assert fake.requests[1].json["system"][0]["text"] == "Special."
        assert fake.requests[2].json["system"][0]["text"] == "Plain."
        fake.assert_accepted()


@pytest.mark.feature("B04")
async def test_a_cut_off_turn_whose_folder_is_gone_waits_for_it_but_holds_up_nobody(tmp_path):
    folder, path = tmp_path / "w", tmp_path / "s.sqlite"
    folder.mkdir()
    async with FakeServer() as fake:
        async with online(fake, ANTHROPIC, database_path=path) as agent:
            fake.script(drop_after("half ", end="silence"))
            await cut_off(agent, {"prompt": "go", "request_id": "r", "workdir": str(folder)})
        folder.rmdir()
        async with online(fake, ANTHROPIC, database_path=path) as agent:
            refused = await take(agent.run({"request_id": "r"}))
            assert isinstance(refused.error, InputValidationError)
            assert refused.error.field == "workdir"
            assert [turn.request_id for turn in agent.unfinished()] == ["r"]
            assert len(fake.requests) == 1
            fake.script(text("new"))
            later = await take(agent.run("something new"))
            assert (later.text, later.run.finished_before) == ("new", ("r",))
            ended = await take(agent.run({"request_id": "r"}))
            assert isinstance(ended.error, RuntimeFailure)
            assert str(folder) in str(ended.error)
            assert ended.text == "half "
        folder.mkdir()
        async with online(fake, ANTHROPIC, database_path=path) as agent:
            fake.script(text("done"))
            again = await take(agent.run({"request_id": "r", "reopen": True}))
            assert again.text.endswith("done")


@pytest.mark.feature("B04")
async def test_a_reopened_turn_keeps_what_it_asked_for_save_what_is_asked_anew():
    async with scripted("stop: refusal\n---\ntext: b", system_prompt="Plain.") as agent:
        given = {"prompt": "1", "request_id": "r", "system_prompt": "Special.", "effort": "low"}
        failed = await take(agent.run(given))
        assert failed.error is not None
        await take(agent.run({"request_id": "r", "reopen": True, "effort": "max"}))
        asked = [(request.system.sections[0], request.effort) for request in model_of(agent).requests]
        assert asked == [("Special.", "low"), ("Special.", "max")]


@pytest.mark.feature("B04", "E05")
async def test_usage_names_the_provider_that_was_asked_then_and_when_told_again(tmp_path):
    reports: list[Any] = []
    async with FakeServer() as fake, online(fake, ANTHROPIC, database_path=tmp_path / "s.sqlite") as agent:
        fake.script(text("x"))
        other = {"provider": "other", "model": "m-b", "base_url": fake.v1, "api_kind": "openai-completions"}
        for given in ({"prompt": "1", "request_id": "r", **other}, {"request_id": "r"}):
            await take(agent.run(given, {"report_usage": reports.append}))
    assert [(report.provider, report.model) for report in reports] == [("other", "m-b")] * 2


@pytest.mark.feature("A07", "A08")
@pytest.mark.parametrize("field", ["max_tokens", "context_window", "model", "provider", "base_url", "system_prompt"])
async def test_a_value_that_no_store_holds_is_named(field):
    value = 10**30 if field in ("max_tokens", "context_window") else "\ud800"
    async with scripted("text: x") as agent:
        with pytest.raises(InputValidationError, match=field):
            agent.run({"prompt": "go", field: value})
        assert (await take(agent.run("go"))).text == "x"


@pytest.mark.feature("A07", "A02")
async def test_the_window_of_a_runs_own_model_is_not_the_agents():
    own = {"context_window": 1000}
    async with FakeServer() as fake, online(fake, ANTHROPIC, model_attributes=own) as agent:
        fake.script(text("a"), text("b"), text("c"))
        for model, total in ((None, 1000), ("m-b", None), (None, 1000)):
            outcome = await take(agent.run({"prompt": "go", "model": model}))
            usage = agent.get_context_usage()
            assert (usage.total if usage else None) == total
            assert [event.total for event in outcome.of("context_usage")] == ([total] if total else [])
