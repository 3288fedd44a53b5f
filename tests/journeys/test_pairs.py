"""Limits and forecasts for a pair of endpoints: the service keeps the limits, and forecasts from earlier runs."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from tests.instance import Api
from tests.journeys.conftest import Site
from tests.waiting import eventually

MakeSite = Callable[..., Site]
KINDS = [pytest.param("toolkit", marks=pytest.mark.toolkit), "own"]


def moved(service: Api, source: Site, destination: Site, name: str, **options: object) -> dict[str, Any]:
    """The task that moved all files of the source into a folder of this name."""
    path = destination.path(f"{name}/")
    task = service.wait(service.transfer(source.id, source.path(""), destination.id, path, recursive=True, **options))
    assert task["status"] == "SUCCEEDED", task
    arrived = {file.name: file.read_bytes() for file in (destination.folder / name).iterdir()}
    assert arrived == {file.name: file.read_bytes() for file in source.folder.iterdir()}
    return task


def plans(service: Api, task: dict[str, Any]) -> list[dict[str, Any]]:
    events = service.call("GET", f"/task/{task['task_id']}/event_list?limit=100")["DATA"]
    return [json.loads(event["details"]) for event in events if event["code"] in ("STARTED", "PROGRESS")]


@pytest.mark.parametrize("kind", KINDS)
def test_a_task_keeps_to_the_limits_of_both_its_endpoints(service: Api, site: MakeSite, kind: str) -> None:
    source, destination = site("a", kind), site("b", kind)
    for number in range(300):
        (source.folder / f"file{number}").write_bytes(number.to_bytes(2, "big") * number)
    custom = {"network_use": "custom", "max_concurrency": 3, "preferred_concurrency": 2}
    custom |= {"max_parallelism": 1, "preferred_parallelism": 1}
    service.call("PUT", f"/endpoint/{source.id}", custom)
    for plan in plans(service, moved(service, source, destination, "custom", perf_cc=8, perf_p=4)):
        assert plan["concurrency"] <= 3
        assert plan["parallelism"] == 1
    service.call("PUT", f"/endpoint/{destination.id}", {"network_use": "minimal"})
    (plan, *_) = plans(service, moved(service, source, destination, "minimal"))
    assert (plan["concurrency"], plan["parallelism"]) == (1, 1)


@pytest.mark.parametrize("kind", KINDS)
def test_what_has_run_is_what_is_forecast(service: Api, site: MakeSite, kind: str) -> None:
    source, destination = site("a", kind), site("b", kind)
    for number in range(20):
        (source.folder / f"file{number}").write_bytes(bytes([number]) * 1_000_000)
    query = f"/forecast?source_endpoint={source.id}&destination_endpoint={destination.id}&files=20&bytes=20000000"
    assert service.call("GET", query)["runs"] == 0
    for number in range(6):
        moved(service, source, destination, f"copy{number}")
    # They are written after the last word.
    eventually(lambda: service.call("GET", query)["runs"] >= 6)
    foretold = service.call("GET", query)
    assert foretold["basis"] == "from 6 runs between these endpoints"
    seconds = foretold["seconds"]
    assert 0 < seconds["low"] <= seconds["expected"] <= seconds["high"] < 60


@pytest.mark.parametrize("kind", KINDS)
def test_small_files_get_deeper_lanes_than_the_paper_says_unless_the_user_wants_the_paper(
    service: Api, site: MakeSite, kind: str
) -> None:
    source, destination = site("a", kind), site("b", kind)
    for number in range(300):
        (source.folder / f"file{number}").write_bytes(number.to_bytes(2, "big") * number)
    for tuning in ("paper", "fixed"):
        (plan,) = plans(service, moved(service, source, destination, tuning, tuning=tuning))
        assert (plan["concurrency"], plan["parallelism"], plan["pipelining"]) == (2, 2, 20)
    (fixed,) = plans(service, moved(service, source, destination, "asked", tuning="fixed", perf_pp=7))
    assert (fixed["pipelining"], fixed["reason"].endswith("perf_pp as asked")) == (7, True)
    plan, *_ = plans(service, moved(service, source, destination, "adaptive"))
    assert plan["pipelining"] > 20
    assert "instead of 20" in plan["reason"]
