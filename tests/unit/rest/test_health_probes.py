"""The checks of /readyz: a check that hangs, or a flood of requests, stops nobody."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator

import pytest

from tests.waiting import eventually
from transferapi.rest import health
from transferapi.rest.health import Prober


class Hanging:
    """A check that hangs until it is released, and counts its calls."""

    def __init__(self) -> None:
        self.calls = 0
        self.released = threading.Event()

    def __call__(self) -> str:
        self.calls += 1
        self.released.wait(30)
        return ""


@pytest.fixture
def hanging() -> Iterator[Hanging]:
    check = Hanging()
    yield check
    check.released.set()


def names() -> list[str]:
    return [thread.name for thread in threading.enumerate() if thread.name.startswith("check ")]


def test_what_passes_and_what_fails_is_distinguished() -> None:
    def broken() -> str:
        raise OSError("a secret")

    found = Prober({"good": lambda: "", "bad": lambda: "It is away", "broken": broken}).findings(
        ["good", "bad", "broken"]
    )
    assert [one.passed for one in found.values()] == [True, False, False]
    assert (found["bad"].reason, found["broken"].reason) == ("It is away", "The check itself failed: OSError")


def test_a_result_counts_for_a_second(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[int] = []

    def check() -> str:
        calls.append(1)
        return ""

    prober = Prober({"one": check})
    for _ in range(50):
        prober.findings(["one"])
    assert len(calls) == 1
    monkeypatch.setattr(health, "FRESH", 0.0)
    prober.findings(["one"])
    assert len(calls) == 2


def test_one_that_hangs_is_reported_and_the_others_are_known(hanging: Hanging) -> None:
    prober = Prober({"hanging": hanging, "good": lambda: ""})
    found = prober.findings(["hanging", "good"], timeout=0.05)
    assert found["good"].passed
    assert found["hanging"].reason.startswith("No answer for")
    hanging.released.set()
    eventually(lambda: prober.findings(["hanging"])["hanging"].passed)


def test_a_flood_of_requests_waits_for_one_thread_once(hanging: Hanging) -> None:
    prober = Prober({"hanging": hanging})
    prober.findings(["hanging"], timeout=0.05)
    answered = threading.Barrier(21, timeout=10)

    def ask() -> None:
        prober.findings(["hanging"], timeout=0.05)
        answered.wait()

    for _ in range(20):
        threading.Thread(target=ask, daemon=True).start()
    answered.wait()
    assert hanging.calls == 1


def test_a_hanging_check_is_started_again_but_not_without_end(
    hanging: Hanging, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(health, "AGAIN", 0.0)
    prober = Prober({"hanging": hanging})
    before = len(names())
    for _ in range(10):
        prober.findings(["hanging"], timeout=0.0)
    assert len(names()) - before <= health.MOST
    eventually(lambda: hanging.calls == health.MOST)


def test_a_newer_connection_that_works_counts_while_an_older_one_hangs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(health, "AGAIN", 0.0)
    first, calls = threading.Event(), []

    def check() -> str:
        calls.append(time.monotonic())
        if len(calls) == 1:
            first.wait(30)
            return "late"
        return ""

    prober = Prober({"one": check})
    assert not prober.findings(["one"], timeout=0.0)["one"].passed
    eventually(lambda: prober.findings(["one"], timeout=0.05)["one"].passed)
    first.set()
    eventually(lambda: not names())
    assert prober.findings(["one"])["one"].passed
