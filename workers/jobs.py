"""The Celery tasks: as thin as can be. Who rings the doorbell names them by their strings."""

from __future__ import annotations

from celery import shared_task

from workers import courier, runtime


@shared_task(name="workers.run")
def run(task_id: str) -> None:
    """Work on this task for a slice, if nobody else does and its turn has come."""
    runtime.run(task_id)


@shared_task(name="workers.sweep")
def sweep() -> None:
    """Ring again for every runnable task without a live lease: what makes lost messages harmless."""
    runtime.sweep()


@shared_task(name="workers.renew")
def renew() -> None:
    """Let tasks go on whose credential has come."""
    runtime.renew()


@shared_task(name="workers.tidy")
def tidy() -> None:
    """Forget credentials that have expired, and mails and deliveries of long ago."""
    runtime.tidy()


@shared_task(name="workers.give_back")
def give_back() -> None:
    """Delete what nobody can see of tasks that are done."""
    runtime.give_back()


@shared_task(name="workers.tidy_tokens")
def tidy_tokens() -> None:
    """Forget what the OAuth2 server has given out and what is over."""
    runtime.tidy_tokens()


@shared_task(name="workers.mails")
def mails() -> None:
    """Send what is in the outbox."""
    runtime.post()


@shared_task(name="workers.webhooks")
def webhooks() -> None:
    """Tell webhooks what is due."""
    courier.begin_round()


@shared_task(name="workers.timers")
def timers() -> None:
    """Submit the transfers whose time has come."""
    runtime.run_timers()
