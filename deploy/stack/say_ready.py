"""Makes a Celery worker say on its standard output when it takes messages: `celery worker -I deploy.stack.say_ready`.

Celery's own line is a log message, which a log level above INFO would hide from the supervisor.
"""

from __future__ import annotations

from celery.signals import worker_ready

LINE = "waybill worker: ready"


@worker_ready.connect
def say_ready(**_: object) -> None:
    print(LINE, flush=True)
