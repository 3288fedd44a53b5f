"""The environment variables of `waybill run`: where the web server listens, and how many processes and threads run."""

from __future__ import annotations

from dataclasses import dataclass

from . import values
from .declaration import variable
from .values import Whole


@dataclass(frozen=True, kw_only=True)
class ProcessSettings:
    """The processes that `waybill run` starts."""

    web_host: str = variable(
        "WAYBILL_WEB_HOST",
        values.address,
        "127.0.0.1",
        "address at which `waybill run web` and `waybill run events` listen (default 127.0.0.1; 0.0.0.0 or :: for all)",
    )
    web_peer: str = variable(
        "WAYBILL_WEB_PEER",
        lambda text: values.name_and_port(text) if text else "",
        "",
        "name:port of another web server behind the same server in front; while it answers, this one listens only "
        "after it has loaded the application",
    )
    events_port: int = variable(
        "WAYBILL_EVENTS_PORT", values.port, "8004", "port of `waybill run events`, the events server (default 8004)"
    )
    web_processes: int = variable(
        "WAYBILL_WEB_PROCESSES",
        Whole(1, 256, "processes"),
        "2",
        "processes of the web server (default 2); two for each core is enough",
    )
    web_threads: int = variable(
        "WAYBILL_WEB_THREADS",
        Whole(1, 256, "threads"),
        "8",
        "requests that one process of the web server works on at a time (default 8); each may hold a connection to "
        "PostgreSQL",
    )
    worker_threads: int = variable(
        "WAYBILL_WORKER_THREADS",
        Whole(1, 256, "threads"),
        "16",
        "tasks that one worker process moves at a time (default 16)",
    )
