"""Log lines: one record is one line, with the facts of its context, in text or JSON; repeated ones are bounded."""

from __future__ import annotations

import asyncio
import json
import logging
import sys
import threading
import time

import pytest

from transferapi.logs import context, formats
from transferapi.logs.formats import MAX_MESSAGE, MOST, PERIOD, BoundRepeats, JsonFormat, TextFormat
from transferapi.logs.setup import configuration, log_format


def record(
    text: str, *words: object, level: int = logging.INFO, line: int = 1, error: bool = False
) -> logging.LogRecord:
    raised = sys.exc_info() if error else None
    made = logging.LogRecord("workers.runtime", level, "runtime.py", line, text, words, raised)
    made.created = 1795407600.25
    return made


def test_a_line_has_a_time_a_level_a_logger_and_the_facts_around_it() -> None:
    with context.bound(request="r1", user=None, client=""), context.bound(task="t1"):
        context.add(user="alice")
        assert TextFormat().format(record("slice %d ended", 3)) == (
            "2026-11-23T04:20:00.250Z INFO workers.runtime: slice 3 ended [request=r1 task=t1 user=alice]"
        )
        assert json.loads(JsonFormat().format(record("slice %d ended", 3))) == {
            "time": "2026-11-23T04:20:00.250Z",
            "level": "INFO",
            "logger": "workers.runtime",
            "message": "slice 3 ended",
            "request": "r1",
            "task": "t1",
            "user": "alice",
        }
    context.add(user="nobody")
    assert context.current() == {}


async def test_facts_follow_into_coroutines_and_stay_out_of_other_ones() -> None:
    async def named(name: str) -> dict[str, str]:
        with context.bound(task=name):
            await asyncio.sleep(0)
            return dict(await asyncio.create_task(inner()))

    async def inner() -> dict[str, str]:
        return dict(context.current())

    assert [*await asyncio.gather(named("one"), named("two"))] == [{"task": "one"}, {"task": "two"}]
    seen: list[dict[str, str]] = []
    with context.bound(task="here"):
        thread = threading.Thread(target=lambda: seen.append(dict(context.current())))
        thread.start()
        thread.join()
    assert seen == [{}]


@pytest.mark.parametrize("text", ["a\n2026-11-23 INFO forged", "a\r", "\x1b[2J", "\u202eevil", "\u2028next", "\udcff"])
@pytest.mark.parametrize("form", [TextFormat(), JsonFormat()])
def test_no_text_makes_a_second_line_or_changes_the_terminal(form: logging.Formatter, text: str) -> None:
    with context.bound(user=text):
        line = form.format(record("%s", text))
    assert line.isprintable()
    line.encode()


def test_long_messages_are_cut() -> None:
    line = TextFormat().format(record("x" * 100_000))
    assert len(line) < MAX_MESSAGE + 200
    assert line.endswith("... (100000 characters)")


def test_a_traceback_follows_its_record() -> None:
    try:
        raise ValueError("why\nand more")
    except ValueError:
        made = record("failed", error=True)
    lines = TextFormat().format(made).splitlines()
    assert lines[0].endswith("workers.runtime: failed")
    assert all(line.startswith("  ") for line in lines[1:])
    assert lines[-2:] == ["  ValueError: why", "  and more"]
    assert "ValueError: why" in json.loads(JsonFormat().format(made))["traceback"]


def test_an_outage_writes_some_lines_of_each_kind_and_then_their_number(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 0.0
    monkeypatch.setattr(time, "monotonic", lambda: now)
    bound = BoundRepeats()

    def passed(line: int = 1) -> bool:
        return bool(bound.filter(record("the database is away", level=logging.ERROR, line=line)))

    assert [passed() for _ in range(MOST + 80)] == [True] * MOST + [False] * 80
    assert passed(line=2)
    assert all(bound.filter(record("one request")) for _ in range(1000))
    now = PERIOD
    made = record("the database is away", level=logging.ERROR)
    assert bound.filter(made)
    assert TextFormat().format(made).endswith(": the database is away (80 more like it were left out)")
    assert json.loads(JsonFormat().format(made))["message"] == "the database is away (80 more like it were left out)"
    assert made.getMessage() == "the database is away", "other handlers get the record, too"
    assert passed()


def test_the_kinds_that_are_remembered_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(formats, "MOST_KINDS", 10)
    bound = BoundRepeats()
    for line in range(1000):
        assert bound.filter(record("x", level=logging.WARNING, line=line))
    assert len(bound._kinds) == 10


def test_formats_are_known_by_name() -> None:
    assert configuration("INFO", log_format("json"))["formatters"]["line"] == {
        "()": "transferapi.logs.formats.JsonFormat"
    }
    with pytest.raises(ValueError, match="text or json"):
        log_format("xml")
