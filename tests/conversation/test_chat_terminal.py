"""`agent-nodes chat` at a terminal: what is typed, what stands there in the end, and how it is left."""

import base64
import re
import signal
import stat
import termios
import time
from collections.abc import Callable

import pytest

from conversation.text import width
from tests.conversation.shell import Ask, Shell
from tests.conversation.terminal import (
    ALT_ENTER,
    CTRL_C,
    CTRL_D,
    CTRL_J,
    CTRL_R,
    ENTER,
    TAB,
    UP,
    Seat,
)
from tests.conversation.test_signals import DEAF, gone, wait_pid
from tests.fakes import FakeServer, Request, call, drop_after, error, gate, reply, text, thinking, tools
from tests.support import png

pytestmark = pytest.mark.feature("O01")

Sit = Callable[..., Seat]


def prompts(fake: FakeServer) -> list[str]:
    """What the model was asked last, request by request."""
    return [_last_user(request) for request in fake.requests]


def _last_user(request: Request) -> str:
    content = request.json["messages"][-1]["content"]
    return content if isinstance(content, str) else "".join(part["text"] for part in content)


def idle(lines: list[str]) -> bool:
    """Nothing runs: the last line is the one to type on, and nothing stands on it."""
    return bool(lines) and lines[-1] == "›"


def below(lines: list[str], line: str) -> list[str]:
    return lines[lines.index(line) + 1 :]


# -- turns -------------------------------------------------------------------------------------------------------------


def test_a_conversation_turn_by_turn(seat: Sit, fake: FakeServer, shell: Shell) -> None:
    fake.script(text("Beans."), text("Along the fence."))
    chat = seat(columns=200)
    chat.until("›")
    chat.type("What grows?" + ENTER)
    chat.until("1 model call")
    chat.type("Where?" + ENTER)
    lines = chat.until(lambda lines: sum("1 model call" in line for line in lines) == 2)
    chat.type(CTRL_D)
    assert chat.end() == 0
    lines = chat.display.lines
    first = below(lines, "› What grows?")
    assert first[:4] == ["", "Beans.", "", "1 model call · 10 tokens in, 5 out"]
    assert below(lines, "› Where?")[:2] == ["", "Along the fence."]
    assert lines[-1].startswith("come back with: agent-nodes chat --session s")
    assert [turn["text"] for turn in shell.turns("s")] == ["Beans.", "Along the fence."]
    assert len(fake.requests[1].json["messages"]) == len(fake.requests[0].json["messages"]) + 2


def test_text_appears_as_it_comes_and_stands_there_once(seat: Sit, fake: FakeServer) -> None:
    held, held_again = gate(), gate()
    fake.script(
        text("# Beds\n\nThe **south** bed", " is for beans.\n\n- one\n- two\n\n", "End.")
        .hold(held, before=1)
        .hold(held_again, before=2)
    )
    chat = seat()
    chat.until("›")
    chat.type("Tell me." + ENTER)
    lines = chat.until(lambda lines: "The south bed" in lines and "Ctrl-C stops" in lines[-2])
    assert "Beds" in lines
    held.open()
    lines = chat.until("• two")
    assert "The south bed is for beans." in lines
    held_again.open()
    chat.until("1 model call")
    chat.type(CTRL_D)
    chat.end()
    lines = below(chat.display.lines, "› Tell me.")
    assert lines[: lines.index("1 model call · 10 tokens in, 5 out")] == [
        *["", "Beds", "", "The south bed is for beans.", "", "• one", "• two", "", "End.", ""]
    ]


def test_a_long_answer_scrolls_away_whole(seat: Sit, fake: FakeServer) -> None:
    words = [f"line{n}" for n in range(120)]
    fake.script(text(*[f"{word}\n\n" if n % 3 else f"{word}\n" for n, word in enumerate(words)]))
    chat = seat(rows=12)
    chat.until("›")
    chat.type("Count." + ENTER)
    chat.until("1 model call")
    chat.type(CTRL_D)
    chat.end()
    lines = chat.display.lines
    assert [line for line in lines if re.fullmatch(r"line\d+", line)] == words
    assert sum("Ctrl-C stops" in line for line in lines) == 0


def test_tools_are_a_line_each_and_open_on_demand(seat: Sit, fake: FakeServer, shell: Shell) -> None:
    (shell.folder / "a.txt").write_text("beans\n")
    fake.script(
        reply("Let me see.", call("read", {"path": "a.txt"}), call("bash", {"command": "echo one; exit 3"})),
        text("Fine."),
    )
    chat = seat()
    chat.until("›")
    chat.type("Look." + ENTER)
    lines = chat.until("model calls")
    read, bash = [line for line in lines if re.match(r"· \d ", line)]
    assert re.fullmatch(r"· 1 read a\.txt  \d+ B  \d+\.\ds", read)
    assert re.fullmatch(r"· 2 bash echo one; exit 3  failed: .*  \d+\.\ds", bash)
    chat.type("/show 1" + ENTER)
    lines = below(chat.until("beans"), "› /show 1")
    assert lines[1].startswith("1  read  0.")
    assert "path: a.txt" in lines
    chat.type("/show" + ENTER)
    chat.until("command: echo one; exit 3")
    chat.type("/show 7" + ENTER)
    chat.until("there is no call '7'; give a number from 1 to 2, or none.")


def test_what_is_waited_for_is_told_with_its_seconds(seat: Sit, fake: FakeServer, shell: Shell) -> None:
    held = gate()
    fake.script(
        tools(call("bash", {"command": "echo digging; until [ -e go ]; do sleep 0.1; done"})),
        text("a").hold(held, before=0),
    )
    chat = seat()
    chat.until("›")
    chat.type("Dig." + ENTER)
    chat.until("· bash echo digging")
    chat.until(lambda lines: any(line == "  digging" for line in lines))
    chat.until(lambda lines: any("  1s  Ctrl-C stops" in line for line in lines))
    (shell.folder / "go").touch()
    chat.until("· waiting for m  ")
    held.open()
    chat.until("model calls")
    assert not any("Ctrl-C stops" in line or line == "  digging" for line in chat.display.lines)


def test_reasoning_is_shown_on_demand(seat: Sit, fake: FakeServer) -> None:
    fake.script(
        reply(thinking("Beans like ", "sun.\nSo: south."), "South."), reply(thinking("And basil."), "South too.")
    )
    chat = seat()
    chat.until("›")
    chat.type("Where?" + ENTER)
    lines = chat.until("1 model call")
    assert not any("Beans like sun." in line for line in lines)
    chat.type("/thinking" + ENTER)
    chat.until("Beans like sun.")
    chat.type("/thinking on" + ENTER)
    chat.until("reasoning is shown from now on")
    chat.type("And basil?" + ENTER)
    lines = below(chat.until("South too."), "› And basil?")
    assert lines[:4] == ["", "And basil.", "", "South too."]


def test_retries_are_told_and_break_no_block(seat: Sit, fake: FakeServer) -> None:
    fake.script(error(529), drop_after("- a\n"), text("- b"))
    chat = seat()
    chat.until("›")
    chat.type("List." + ENTER)
    lines = chat.until("model call")
    assert any("trying again" in line or "connection lost" in line for line in lines)
    at = lines.index("• a")
    assert lines[at + 1] == "• b"


# -- what is typed -----------------------------------------------------------------------------------------------------


def test_lines_are_begun_without_sending(seat: Sit, fake: FakeServer) -> None:
    fake.script(text("Thanks."))
    chat = seat()
    chat.until("›")
    chat.type("one" + ALT_ENTER + "two" + CTRL_J + "three\\" + ENTER + "four" + ENTER)
    lines = chat.until("1 model call")
    assert prompts(fake) == ["one\ntwo\nthree\nfour"]
    assert below(lines, "› one")[:3] == ["  two", "  three", "  four"]


def test_what_is_pasted_is_one_prompt(seat: Sit, fake: FakeServer) -> None:
    fake.script(text("Thanks."))
    pasted = "\n".join(f"line {n}: 한글" for n in range(60))
    chat = seat()
    chat.until("›")
    chat.paste(pasted.replace("\n", "\r"))
    chat.until("line 59")
    assert not fake.requests
    chat.type(ENTER)
    lines = chat.until("1 model call")
    assert prompts(fake) == [pasted]
    assert "  (45 more lines)" in lines


def test_earlier_prompts_are_found_again_by_their_user_alone(seat: Sit, fake: FakeServer, shell: Shell) -> None:
    fake.respond(lambda request: text("Yes."))
    chat = seat()
    chat.until("›")
    chat.type("first one\\" + ENTER + "in two lines" + ENTER)
    chat.until("1 model call")
    chat.type("second" + ENTER)
    chat.until(lambda lines: sum("1 model call" in line for line in lines) == 2)
    chat.type(CTRL_D)
    chat.end()
    kept = shell.home / "chat-history"
    assert stat.S_IMODE(kept.stat().st_mode) == 0o600
    chat = seat(session=())
    chat.until("›")
    chat.type(UP + UP)
    chat.until("› first one")
    chat.type(CTRL_C)
    chat.until(idle)
    chat.type(CTRL_R + "sec")
    chat.until("› second")
    chat.type(ENTER + ENTER)
    chat.until("1 model call")
    assert prompts(fake)[-1] == "second"


def test_commands_and_what_stands_behind_them_are_completed(seat: Sit, fake: FakeServer) -> None:
    chat = seat()
    chat.until("›")
    chat.type("/us")
    chat.until("tokens and cost")
    chat.type(TAB)
    chat.until("› /usage")
    chat.type(ENTER)
    chat.until("session    0 turns")
    chat.type("/thinking o")
    chat.until("off")
    chat.type(TAB)
    chat.until("› /thinking on")


def test_a_command_that_there_is_none_of_is_told_what_there_is(seat: Sit, fake: FakeServer) -> None:
    fake.script(text("Yes."))
    chat = seat(columns=200)
    chat.until("›")
    chat.type("/usgae" + ENTER)
    chat.until("There is no command /usgae; did you mean /usage? There are /help, /model,")
    chat.type("/compact" + ENTER)
    chat.until("There is no command /compact")
    chat.type("/help" + ENTER)
    chat.until("Ctrl-C stops the turn, twice it leaves; Ctrl-D leaves.")
    chat.type("//etc is a folder" + ENTER)
    chat.until("1 model call")
    assert prompts(fake) == ["/etc is a folder"]


def test_what_is_typed_meanwhile_is_sent_when_the_turn_has_ended(seat: Sit, fake: FakeServer) -> None:
    held = gate()
    fake.script(text("One.").hold(held), text("Two."), text("Three."))
    chat = seat()
    chat.until("›")
    chat.type("1" + ENTER)
    chat.until("One.")
    chat.type("2" + ENTER + "3" + ENTER + "not sent yet")
    lines = chat.until("queued: 3")
    assert lines[lines.index("queued: 3") - 1] == "queued: 2"
    assert len(fake.requests) == 1
    held.open()
    lines = chat.until(
        lambda lines: sum("1 model call" in line for line in lines) == 3 and lines[-1] == "› not sent yet"
    )
    assert prompts(fake) == ["1", "2", "3"]
    asked = [line for line in lines if line.startswith("› ")]
    assert asked == ["› 1", "› 2", "› 3", "› not sent yet"]


def test_waiting_prompts_can_be_taken_back(seat: Sit, fake: FakeServer) -> None:
    held = gate()
    fake.script(text("One.").hold(held), text("Three."))
    chat = seat()
    chat.until("›")
    chat.type("1" + ENTER)
    chat.until("One.")
    chat.type("2" + ENTER + "3" + ENTER + "/queue" + ENTER)
    chat.until("/queue drop N takes one back")
    chat.type("/queue drop 1" + ENTER)
    chat.until("taken back: 2")
    held.open()
    chat.until(lambda lines: sum("1 model call" in line for line in lines) == 2)
    assert prompts(fake) == ["1", "3"]


def test_a_second_ctrl_c_takes_back_what_waits_before_one_leaves(seat: Sit, fake: FakeServer) -> None:
    held = gate()
    fake.script(text("One.", " More.").hold(held, before=1), text("Three."))
    chat = seat()
    chat.until("›")
    chat.type("1" + ENTER)
    chat.until("One.")
    chat.type("2" + ENTER)
    chat.until("queued: 2")
    chat.type(CTRL_C)
    lines = chat.until("not sent; Enter sends, Ctrl-C takes back")
    assert not any("or Ctrl-D, leaves" in line for line in lines)
    chat.type(CTRL_C)
    chat.until("taken back; Up finds it again")
    chat.type("3" + ENTER)
    chat.until("Three.")
    assert prompts(fake) == ["1", "3"]


def test_nothing_typed_is_lost_when_a_turn_fails(seat: Sit, fake: FakeServer) -> None:
    held = gate()
    fake.script(error(400, "no such thing").hold(held, before=0), text("Two."))
    chat = seat()
    chat.until("›")
    chat.type("1" + ENTER)
    chat.until("Ctrl-C stops")
    chat.type("2" + ENTER + "half of a")
    chat.until("queued: 2")
    held.open()
    chat.until("not sent; Enter sends, Ctrl-C takes back")
    chat.until("queued: 2")
    assert len(fake.requests) == 1
    chat.until("› half of a")
    chat.type(" prompt" + ENTER)
    fake.script(text("Three."))
    chat.until(lambda lines: sum("1 model call" in line for line in lines) == 2)
    assert prompts(fake)[-2:] == ["2", "half of a prompt"]


# -- ends --------------------------------------------------------------------------------------------------------------


def streaming(seat: Sit, fake: FakeServer, **more: object) -> Seat:
    """A turn of which the first words are there and the rest never comes."""
    fake.script(text("one ", "two ", "three").hold(gate(), before=2))
    chat = seat(**more)
    chat.until("›")
    chat.type("count" + ENTER)
    chat.until("one two")
    return chat


def test_cl_03_ctrl_c_stops_the_turn_and_retry_goes_on_with_it(seat: Sit, fake: FakeServer, shell: Shell) -> None:
    chat = streaming(seat, fake)
    chat.type(CTRL_C)
    lines = chat.until("/retry goes on with this turn")
    assert "stopped" in lines
    assert shell.turns("s")[0]["status"] == "aborted"
    fake.script(text("three"))
    chat.type("/retry" + ENTER)
    lines = chat.until("tokens in")
    assert "one two three" in lines
    (turn,) = shell.turns("s")
    assert (turn["status"], turn["text"]) == ("answered", "one two three")
    fake.assert_accepted()


@pytest.mark.parametrize(("by", "pause"), [("key", 0.0), ("key", 0.2), ("signal", 0.1)])
def test_cl_03_ctrl_c_twice_leaves_nothing_behind(
    seat: Sit, fake: FakeServer, shell: Shell, by: str, pause: float
) -> None:
    fake.script(tools(call("bash", {"command": DEAF})))
    chat = seat()
    chat.until("›")
    chat.type("work" + ENTER)
    pid = wait_pid(shell.folder / "pid")
    for _ in range(2):
        chat.type(CTRL_C) if by == "key" else chat.signal(signal.SIGINT)
        time.sleep(pause)
    assert chat.end() == 130
    assert gone(pid)
    assert termios.tcgetattr(chat.theirs) == chat.settings
    assert chat.display.modes["25"] and not chat.display.modes["2004"]
    fake.script(text("Yes."))
    again = seat()
    again.until("work")
    again.type("/retry" + ENTER)
    again.until("Yes.")
    fake.assert_accepted()


def test_ctrl_c_where_nothing_runs_warns_first(seat: Sit) -> None:
    chat = seat()
    chat.until("›")
    chat.type("half a prompt" + CTRL_C)
    chat.until(idle)
    chat.type(CTRL_C)
    chat.until("Ctrl-C again, or Ctrl-D, leaves")
    chat.type(CTRL_C)
    assert chat.end() == 130
    assert termios.tcgetattr(chat.theirs) == chat.settings


def test_a_stopped_turn_keeps_the_queue_for_later(seat: Sit, fake: FakeServer) -> None:
    chat = streaming(seat, fake)
    chat.type("two" + ENTER)
    chat.until("queued: two")
    chat.type(CTRL_C)
    chat.until("not sent; Enter sends, Ctrl-C takes back")
    chat.until("queued: two")
    fake.script(text("Two."))
    chat.type(ENTER)
    chat.until("Two.")
    assert prompts(fake)[-1] == "two"


def test_retry_means_the_turn_that_failed_and_no_prompt_that_waits(seat: Sit, fake: FakeServer, shell: Shell) -> None:
    chat = streaming(seat, fake)
    chat.type("/retry" + ENTER)
    chat.until("/retry: a turn runs")
    chat.type("two" + ENTER)
    chat.until("queued: two")
    chat.type(CTRL_C)
    chat.until("not sent; Enter sends")
    fake.script(text("three"), text("Two."))
    chat.type("/retry" + ENTER)
    chat.until("Two.")
    assert [(turn["prompt"], turn["status"]) for turn in shell.turns("s")] == [
        ("count", "answered"),
        ("two", "answered"),
    ]


def test_a_prompt_that_no_turn_was_made_of_waits(seat: Sit, fake: FakeServer, shell: Shell) -> None:
    chat = streaming(seat, fake)
    chat.signal(signal.SIGKILL)
    chat.end()
    held = gate()
    fake.script(text("three").hold(held, before=0), text("New."))
    chat = seat()
    chat.until("this turn was cut off: count")
    chat.type("something new" + ENTER)
    held.reached.wait_blocking()
    chat.type(CTRL_C)
    chat.until("not sent; Enter sends, Ctrl-C takes back")
    chat.until("queued: something new")
    chat.type(ENTER)
    chat.until("New.")
    assert [turn["status"] for turn in shell.turns("s")] == ["aborted", "answered"]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_shutdown_leaves_a_turn_that_goes_on(seat: Sit, fake: FakeServer, shell: Shell, number: int) -> None:
    chat = streaming(seat, fake)
    chat.signal(number)
    assert chat.end() == 128 + number
    assert any("the turn can go on" in line for line in chat.display.lines)
    assert termios.tcgetattr(chat.theirs) == chat.settings
    assert shell.state("s")["state"] == "unfinished"


def test_a_terminal_that_goes_away_is_a_shutdown(seat: Sit, fake: FakeServer, shell: Shell) -> None:
    chat = streaming(seat, fake)
    chat.hang_up()
    assert chat.process.wait(60) == 129
    assert shell.state("s")["state"] == "unfinished"


def test_leaving_while_a_turn_runs_leaves_it_to_go_on(seat: Sit, fake: FakeServer, shell: Shell) -> None:
    chat = streaming(seat, fake)
    chat.type(CTRL_D)
    assert chat.end() == 0
    assert "one two" in chat.display.lines
    assert "the turn can go on" in chat.display.lines
    assert shell.state("s")["state"] == "unfinished"


# -- coming back -------------------------------------------------------------------------------------------------------


def test_who_comes_back_sees_the_last_exchange(seat: Sit, fake: FakeServer, ask: Ask) -> None:
    fake.script(tools(call("find", {"pattern": "*"})), text("Some **beans**."))
    assert ask("--session", "s", "What grows?").status == 0
    chat = seat()
    lines = below(chat.until(idle), "› What grows?")
    assert lines[:4] == ["", "1 tool call; /show N shows them", "", "Some beans."]
    chat.type("/show" + ENTER)
    chat.until("pattern: *")


def test_a_killed_conversation_goes_on_where_it_was(seat: Sit, fake: FakeServer, shell: Shell) -> None:
    chat = streaming(seat, fake)
    chat.signal(signal.SIGKILL)
    chat.end()
    chat = seat()
    chat.until("this turn was cut off: count")
    fake.script(text("three"))
    chat.type(ENTER)
    lines = below(chat.until("tokens in"), "› count")
    assert lines[0] == ""
    assert lines[1].endswith("three")
    assert len(shell.turns("s")) == 1


def test_a_turn_that_was_cut_off_goes_before_a_new_prompt(seat: Sit, fake: FakeServer, shell: Shell) -> None:
    chat = streaming(seat, fake)
    chat.signal(signal.SIGKILL)
    chat.end()
    fake.script(text("three"), text("new answer"))
    chat = seat()
    chat.until("this turn was cut off: count")
    chat.type("something new" + ENTER)
    lines = chat.until("tokens in")
    assert below(lines, "› count")[1].endswith("three")
    assert lines.index("› count") < lines.index("› something new") < lines.index("new answer")
    assert [turn["prompt"] for turn in shell.turns("s")] == ["count", "something new"]


def test_a_new_session_is_told_at_both_ends(seat: Sit, fake: FakeServer) -> None:
    fake.script(text("Yes."))
    chat = seat(session=(), columns=160)
    chat.until("›")
    chat.type("hi" + ENTER)
    chat.until("1 model call")
    chat.type("/exit" + ENTER)
    assert chat.end() == 0
    key = re.match(r"session (\w{8}) with openai m;", chat.display.lines[0])
    assert key is not None
    assert chat.display.lines[-1].startswith(f"come back with: agent-nodes chat --session {key[1]} --provider openai")


def test_a_session_of_somebody_else_is_busy(seat: Sit, fake: FakeServer) -> None:
    streaming(seat, fake)
    second = seat()
    assert second.end() == 1
    assert any("session 's'" in line for line in second.display.lines)


# -- terminals of every kind -------------------------------------------------------------------------------------------


def test_forty_columns_are_enough(seat: Sit, fake: FakeServer) -> None:
    name = "아주-긴-이름-" * 12 + ".txt"
    fake.script(
        reply("Ich sehe **nach**. " * 6, call("read", {"path": name}), call("bash", {"command": "echo " + "x" * 100})),
        text("| name | what it is for |\n|---|---|\n| beans | " + "food " * 20 + "|\n\n- " + "한글 👍 " * 20 + "\n"),
    )
    chat = seat(columns=40)
    chat.until("›")
    chat.type("한글을 씁니다 " * 8 + ENTER)
    chat.until("model calls")
    chat.type(CTRL_D)
    chat.end()
    lines = chat.display.lines
    assert all(width(line) <= 40 for line in lines)
    assert len([line for line in lines if re.match(r"· \d ", line)]) == 2
    assert sum(line.count("👍") for line in lines) == 20
    assert sum(line.count("한글") for line in lines) == 28
    assert sum(line.count("food") for line in lines) == 20


def test_a_terminal_does_not_obey_the_model(seat: Sit, fake: FakeServer) -> None:
    evil = "a\x1b[2Jb\x1b]0;title\x07c\x9b5m"
    fake.script(
        reply(f"{evil} [red]x[/red] <b>\n\n```py\n{evil}\n```\n", call("bash", {"command": f"echo {evil}"})),
        reply(thinking(evil), f"[{evil}](https://e.invalid/{evil})"),
    )
    chat = seat()  # the display fails at whatever is not ours
    chat.until("›")
    chat.type("/thinking on" + ENTER + "hi" + ENTER)
    lines = chat.until("model calls")
    assert any("[red]x[/red] <b>" in line for line in lines)
    chat.type("/show" + ENTER)
    chat.until("command: echo a")


def test_a_window_may_change_its_size(seat: Sit, fake: FakeServer) -> None:
    held = gate()
    fake.script(text("word " * 30, "\n\n" + "more " * 30).hold(held, before=1))
    chat = seat(columns=100)
    chat.until("›")
    chat.type("hi" + ENTER)
    chat.until("word word")
    chat.resize(40, 20)
    held.open()
    lines = chat.until("1 model call")
    chat.type("and so on")
    chat.until("› and so on")
    assert [len(line.split()) for line in lines if line.startswith("more")] == [8, 8, 8, 6]


def test_what_a_turn_costs_stands_behind_it(seat: Sit, fake: FakeServer) -> None:
    fake.script(text("Yes.").using(1_000, 100), text("Yes.").using(1_000, 100))
    chat = seat("--model", "gpt-5.4", columns=120)
    chat.until("›")
    chat.type("hi" + ENTER)
    chat.until(re.compile(r"1 model call · 1,000 tokens in, 100 out · \$0\.\d{4} · context 0% of \d[\d,]+"))
    chat.type("hi" + ENTER)
    chat.until(lambda lines: sum("1 model call" in line for line in lines) == 2)
    chat.type("/usage" + ENTER)
    chat.until(re.compile(r"session    2 turns, 2 model calls, 2,000 tokens in, 200 out, \$0\.\d{4}"))


def test_a_model_is_chosen_by_its_first_letters(seat: Sit, fake: FakeServer) -> None:
    held = gate()
    fake.script(text("Yes.").hold(held, before=0))
    chat = seat()
    chat.until("›")
    chat.type("/model gpt-6")
    chat.until("gpt-6-sol")
    chat.type("-s" + TAB)
    chat.until("› /model gpt-6-sol")
    chat.type(ENTER)
    chat.until("the next turns go to gpt-6-sol of openai")
    chat.type("hi" + ENTER)
    chat.until("· waiting for gpt-6-sol")
    held.open()
    chat.until("1 model call")
    chat.type(CTRL_D)
    chat.end()
    assert fake.requests[0].json["model"] == "gpt-6-sol"
    assert "--model gpt-6-sol" in "".join(chat.display.lines[-2:])


def test_a_picture_is_told_until_it_is_sent(seat: Sit, fake: FakeServer, shell: Shell) -> None:
    (shell.folder / "beds.png").write_bytes(base64.b64decode(png(3, 2).data))
    fake.script(text("Green."))
    chat = seat()
    chat.until("›")
    chat.type("/image be")
    chat.until("beds.png")
    chat.type(TAB)
    chat.until("› /image beds.png")
    chat.type(ENTER)
    chat.until("with the next prompt: beds.png")
    chat.type("What is this?" + ENTER)
    chat.until("1 model call")
    assert not any(line.startswith("with the next prompt") for line in chat.display.lines)


@pytest.mark.parametrize("setting", [{"NO_COLOR": "1"}, {}])
def test_without_colours_the_text_stands_as_it_is_written(seat: Sit, fake: FakeServer, setting: dict[str, str]) -> None:
    written = "# Beds\n\nThe **south** bed.\n\n\n\n| a | b |\n|---|---|\n| 1 | 2 |"
    fake.script(text(*re.findall(r"(?s).{1,5}", written)))
    chat = seat(**setting)
    chat.until("›")
    chat.type("Tell." + ENTER)
    lines = below(chat.until("1 model call"), "› Tell.")
    assert bool(chat.display.colours) is not bool(setting)
    if setting:
        assert lines[1 : lines.index("1 model call · 10 tokens in, 5 out") - 1] == written.split("\n")
    else:
        assert "Beds" in lines and "The south bed." in lines


def test_a_dumb_terminal_gets_lines(seat: Sit, fake: FakeServer) -> None:
    fake.script(text("**Yes.**"))
    chat = seat(TERM="dumb")
    chat.until(">")
    chat.type("hi\n")
    chat.until("**Yes.**")
    chat.until(lambda lines: lines[-1] == ">")
    chat.type(CTRL_D)
    assert chat.end() == 0
    assert "\x1b" not in chat.sent


def test_ctrl_c_at_a_dumb_terminal_stops_the_turn_and_then_warns(seat: Sit, fake: FakeServer, shell: Shell) -> None:
    fake.script(text("one ", "two").hold(gate(), before=1))
    chat = seat(TERM="dumb")
    chat.until(">")
    chat.type("count\n")
    chat.until("one")
    chat.type(CTRL_C)
    chat.until("go on with this turn: /retry")
    fake.script(text("two"))
    chat.type("/retry\n")
    chat.until(lambda lines: sum(line.endswith("two") for line in lines) == 1 and lines[-1] == ">")
    chat.type(CTRL_C)
    chat.until("Ctrl-C again, or Ctrl-D, leaves")
    chat.type(CTRL_C)
    assert chat.end() == 130
    assert shell.turns("s")[0]["status"] == "answered"
