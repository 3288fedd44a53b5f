"""Lanes that are opened before the files are known: as many, and by the way, as the last task used."""

from __future__ import annotations

from dataclasses import dataclass, replace

import pytest

from transferapi.tasks.records import TaskEndpoint, TaskSpec

from .world import World

pytestmark = pytest.mark.virtual_time

AGENT = TaskEndpoint("2", "go#laptop", personal=True)


@dataclass
class ToAgent(World):
    """Small files to an agent that is far away, by ports of the relay."""

    latency: float = 0.06
    max_sessions: int = 9

    def spec(self) -> TaskSpec:
        return replace(
            super().spec(),
            destination=AGENT,
            options={"tuning": "adaptive"},
            knowledge=self.store.knowledge,
            relay_rate=0,
        )


def world() -> ToAgent:
    made = ToAgent([("/src/", "/dst/", None)])
    for number in range(400):
        made.source.write(f"/src/f{number}", b"x" * 100)
    return made


async def test_the_second_task_opens_its_lanes_by_the_relay_at_once() -> None:
    first = world()
    assert await first.run() == "SUCCEEDED"
    assert not first.sessions.relayed[0], "opened before anything was known"
    assert first.sessions.relayed[-1]
    second = world()
    second.store.knowledge = first.store.knowledge
    assert await second.run() == "SUCCEEDED"
    assert second.sessions.relayed
    assert all(second.sessions.relayed)
    assert len(second.sessions.relayed) < len(first.sessions.relayed)
