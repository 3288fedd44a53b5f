"""Slices of tasks in the database, as workers take them, without a worker's process."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TypeVar

from django.db import connection
from django.db.models import Q

from tests.engine_fakes.pool import end_pool
from transferapi.tasks.models import Event, File, Task
from transferapi.tasks.worker import leases
from workers import slice_preparation
from workers.sessions.pool import SessionPool

T = TypeVar("T")


async def work(task: Task) -> str:
    """One slice of it, as a worker takes it; its status then."""
    taken = await asyncio.to_thread(in_thread, lambda: leases.acquire(task.pk, "worker"))
    if isinstance(taken, leases.Grant):
        pool = SessionPool()
        slice_ = slice_preparation.prepare(taken, pool, asyncio.Event()).slice_
        await slice_
        await end_pool(pool)
    return await asyncio.to_thread(in_thread, lambda: status(task))


async def try_once(task: Task) -> None:
    """Run the task until it has met a fault or has ended."""
    stop = asyncio.Event()
    taken = await asyncio.to_thread(in_thread, lambda: leases.acquire(task.pk, "worker"))
    assert isinstance(taken, leases.Grant)
    pool = SessionPool()
    slice_ = slice_preparation.prepare(taken, pool, stop).slice_
    running = asyncio.create_task(slice_)
    while not await asyncio.to_thread(in_thread, lambda: has_tried(task)):  # noqa: ASYNC110 (the database is polled)
        await asyncio.sleep(0.02)
    stop.set()
    await running
    await end_pool(pool)


def has_tried(task: Task) -> bool:
    return Task.objects.filter(pk=task.pk).filter(Q(faults__gt=0) | Q(phase="done")).exists()


def in_thread(do: Callable[[], T]) -> T:
    """With a connection of its own, which nobody finds later."""
    try:
        return do()
    finally:
        connection.close()


def status(task: Task) -> str:
    task.refresh_from_db()
    return task.status


def run(task: Task) -> str:
    return asyncio.run(work(task))


def told(task: Task) -> str:
    """All that its owner can read of what happened."""
    lines = [f"{event.code} {event.description} {event.details}" for event in Event.objects.filter(task=task)]
    lines += [f"{file.error_code} {file.error_details}" for file in File.objects.filter(task=task)]
    return "\n".join([*lines, str(task.fatal_error_code), str(task.fatal_error_description)])
