"""The one Celery task, which only calls the runtime. The doorbell names it by its string."""

from __future__ import annotations

from celery import shared_task

from . import runtime


@shared_task(name="workers.run")
def run(task_id: str) -> None:
    """Work on this task for a slice, if its lease is free and its turn has come."""
    runtime.run(task_id)
