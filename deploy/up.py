"""`make up`: start everything, show the first transfer, and keep it running until told to stop."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

from transferapi.config import Config

from .stack.child import die_with_parent, no_core_dumps, spawn, stop
from .stack.errors import StackError
from .stack.fingerprint import CHECKOUT
from .stack.home import Home, write_private
from .stack.programs import Instance, make_instance
from .stack.sample import make_sample_data
from .stack.supervisor import Running, State, Supervisor

START_SECONDS = 180.0


def up(config: Config) -> int:
    """Returns the exit status. Raises StackError when it cannot start."""
    began = time.monotonic()
    no_core_dumps()
    if "MAKELEVEL" in os.environ:
        # A `make` that is killed takes us along; we end in good order.
        die_with_parent(os.getppid(), signal.SIGTERM)
    home = Home(config.home)
    home.make()
    home.acquire()
    home.connection.unlink(missing_ok=True)
    instance = make_instance(home, config)
    say(f"Starting Waybill in {home.path}")
    prepare = make_ready_to_start(instance)
    supervisor = Supervisor(instance.programs(prepare=prepare), on_change=lambda running: report(instance, running))
    try:
        if supervisor.start(timeout=START_SECONDS):
            check_token(instance, prepare)
            write_connection(instance, supervisor)
            say(f"Everything answers, after {time.monotonic() - began:.1f} s.")
            keep_running(instance, supervisor)
        return 0
    finally:
        home.connection.unlink(missing_ok=True)
        supervisor.stop()
        say("Stopped.")


def make_ready_to_start(instance: Instance) -> bool:
    """Everything that needs no server; returns whether the database must be prepared."""
    if instance.redis is not None:
        instance.redis.prepare()
    if instance.postgres is not None and instance.postgres.prepare():
        instance.home.prepared.unlink(missing_ok=True)
    make_sample_data(*instance.roots.values())
    return not instance.is_prepared()


def check_token(instance: Instance, prepared: bool) -> None:
    """A token or a client that was taken back is replaced at the next start."""
    if not prepared and 401 in (instance.web_status(), instance.client_status()):
        instance.home.prepared.unlink(missing_ok=True)
        raise StackError("the token or the client of `make up` has been revoked: start again to get a new one")


def keep_running(instance: Instance, supervisor: Supervisor) -> None:
    tour: subprocess.Popen[bytes] | None = None
    if not instance.home.first_transfer.exists():
        words = [sys.executable, "-m", "deploy.tour", str(instance.home.path)]
        tour = spawn(words, log=sys.stdout.fileno(), env=instance.environment(), cwd=CHECKOUT)
    while tour is not None and tour.poll() is None and not supervisor.stopping:
        watch(instance, supervisor)
    if tour is not None:
        stop(tour, signal.SIGTERM, timeout=0.2)
    if not supervisor.stopping:
        say(how_to_go_on(instance))
    while not supervisor.stopping:
        watch(instance, supervisor)


def watch(instance: Instance, supervisor: Supervisor) -> None:
    """Keep `connection.json` true while processes come and go."""
    before = supervisor.pids()
    supervisor.watch()
    if supervisor.pids() != before and not supervisor.stopping:
        write_connection(instance, supervisor)


def write_connection(instance: Instance, supervisor: Supervisor) -> None:
    home = instance.home
    prepared = home.read_json(home.prepared)
    write_private(home.curl, f'header = "Authorization: Bearer {home.read_token()}"\n')
    home.write_json(
        home.connection,
        {
            "url": instance.url,
            "username": prepared["username"],
            "password": home.read_password(),
            "token": home.read_token(),
            "client": home.read_json(home.client),
            "endpoints": prepared["endpoints"],
            "roots": {f"go#{name}": str(root) for name, root in instance.roots.items()},
            "pids": {"supervisor": os.getpid(), **supervisor.pids()},
        },
    )


def report(instance: Instance, running: Running) -> None:
    name = running.program.name
    if running.state is State.CRASHED:
        pause = max(0.0, running.restart_at - time.monotonic())
        say(f"  {name} ended with {running.last_end}; starting it again in {pause:.1f} s (log: {running.program.log})")
    elif running.process is not None and running.is_up:
        seconds = time.monotonic() - running.started_at
        say(f"  {name:9} {'done' if running.state is State.DONE else 'ready'} {seconds:5.1f} s")


def how_to_go_on(instance: Instance) -> str:
    """For logs and for whoever looks on: where the secrets are, and none of them."""
    home, url = instance.home, instance.url
    user = home.read_json(home.prepared)["username"]
    python = (
        f"import json, urllib.request as r; c = json.load(open('{home.connection}')); print(json.load(r.urlopen("
        "r.Request(c['url'] + '/v0.10/task_list', headers={'Authorization': 'Bearer ' + c['token']})))"
        "['DATA'][0]['status'])"
    )
    return f"""
Waybill is up.
  URL     {url}
  user    {user}
  sign in {url}/signin with the password in {home.password}
  token   in {home.token}; all of it in {home.connection}, and `waybill credentials` shows it
  curl    curl -K '{home.curl}' '{url}/v0.10/operation/endpoint/go%23ep1/ls?path=/share/godata/'
  Python  python3 -c "{python}"

`make status` and `make logs` in another terminal; Ctrl-C here, or `make down`, stops it. The data stays.
"""


def say(text: str) -> None:
    """To the terminal, if it is still there."""
    with contextlib.suppress(OSError, ValueError):
        sys.stdout.write(text + "\n")
        sys.stdout.flush()


def logs(home: Path) -> list[Path]:
    """The log files of a home, by name."""
    return sorted((home / "logs").glob("*.log"))
