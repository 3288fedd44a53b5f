"""`make up`: start everything, show the first transfer, and keep it running until it is stopped."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

from deploy.sample.data import make_sample_data
from deploy.stack.child import die_with_parent, no_core_dumps, spawn, stop
from deploy.stack.errors import StackError
from deploy.stack.forked import load
from deploy.stack.free_ports import HOST
from deploy.stack.home import Home, write_private
from deploy.stack.programs import Instance, make_instance
from deploy.stack.supervisor import ProgramState, RunningProgram, Supervisor
from identity import one_time_link
from transferapi.config import CHECKOUT, Config

from .base import say

START_SECONDS = 180.0
PROGRESS_SECONDS = 3.0


def up(config: Config) -> int:
    """Returns the exit status. Raises StackError when it cannot start."""
    began = time.monotonic()
    no_core_dumps()
    if "MAKELEVEL" in os.environ:
        # When `make` is killed this process gets a signal, and stops in order.
        die_with_parent(os.getppid(), signal.SIGTERM)
    home = Home(config.home)
    home.make()
    home.acquire()
    home.connection.unlink(missing_ok=True)
    instance = make_instance(home, config)
    say(f"Starting Waybill in {home.path}")
    prepare = make_ready_to_start(instance)
    supervisor = Supervisor(instance.programs(prepare=prepare), on_change=lambda running: report(instance, running))
    if prepare:
        supervisor.on_wait = PreparationProgress(supervisor.running["prepare"])
    try:
        load(instance.environment())
        if supervisor.start(timeout=START_SECONDS):
            check_token(instance, prepare)
            write_connection(instance, supervisor)
            write_sign_in_link(instance)
            say(f"Everything answers, after {time.monotonic() - began:.1f} s.")
            keep_running(instance, supervisor)
        return 0
    finally:
        home.connection.unlink(missing_ok=True)
        supervisor.stop()
        say("Stopped.")


def make_ready_to_start(instance: Instance) -> bool:
    """Prepare everything that needs no server; returns whether the database must be prepared."""
    if instance.redis is not None:
        instance.redis.prepare()
    if instance.postgres is not None and instance.postgres.prepare():
        instance.home.prepared.unlink(missing_ok=True)
    make_sample_data(*instance.roots.values())
    return not instance.is_prepared()


def check_token(instance: Instance, prepared: bool) -> None:
    """A revoked token or client is replaced at the next start."""
    if not prepared and 401 in (instance.web_status(), instance.client_status()):
        instance.home.prepared.unlink(missing_ok=True)
        raise StackError("the token or the client of `make up` has been revoked: start again to get a new one")


def keep_running(instance: Instance, supervisor: Supervisor) -> None:
    demo: subprocess.Popen[bytes] | None = None
    if not instance.home.first_transfer.exists():
        words = [sys.executable, "-m", "deploy.sample.first_transfer", str(instance.home.path)]
        demo = spawn(words, log=sys.stdout.fileno(), cwd=CHECKOUT)
    while demo is not None and demo.poll() is None and not supervisor.stopping:
        watch(instance, supervisor)
    if demo is not None:
        stop(demo, signal.SIGTERM, timeout=0.2)
    if not supervisor.stopping:
        say(how_to_go_on(instance))
    while not supervisor.stopping:
        watch(instance, supervisor)


def watch(instance: Instance, supervisor: Supervisor) -> None:
    """Keep `connection.json` current when processes start and end."""
    supervisor.watch()
    pids = {"supervisor": os.getpid(), **supervisor.pids()}
    if not supervisor.stopping and instance.home.read_json(instance.home.connection).get("pids") != pids:
        # Tried again a second later: a full disk must not end what runs.
        with contextlib.suppress(OSError):
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
            "ssh": ssh_access(instance),
            "roots": {f"go#{name}": str(root) for name, root in instance.roots.items()},
            "pids": {"supervisor": os.getpid(), **supervisor.pids()},
        },
    )


def ssh_access(instance: Instance) -> dict[str, object]:
    """How a program connects to the ssh shell as the sample user. host_key: a line of known_hosts without the host."""
    home = instance.home
    return {
        "host": HOST if instance.config.ssh_host in ("0.0.0.0", "::") else instance.config.ssh_host,  # noqa: S104
        "port": instance.ssh_port,
        "user": home.read_json(home.prepared)["username"],
        "identity_file": str(home.ssh_key),
        "host_key": home.ssh_host_key.read_text().strip(),
    }


class PreparationProgress:
    """Says every few seconds how far `prepare` is: the tables of a new database take most of the first start."""

    def __init__(self, running: RunningProgram) -> None:
        self._running = running
        self._told_at = time.monotonic()

    def __call__(self) -> None:
        if self._running.state is ProgramState.STARTING and time.monotonic() > self._told_at + PROGRESS_SECONDS:
            self._told_at = time.monotonic()
            lines = self._running.text().decode(errors="replace").strip().splitlines()
            say(f"  {self._running.program.name:9} {lines[-1].strip() if lines else 'begins'}")


def report(instance: Instance, running: RunningProgram) -> None:
    name = running.program.name
    if running.state is ProgramState.CRASHED:
        pause = max(0.0, running.restart_at - time.monotonic())
        say(f"  {name} ended with {running.last_end}; starting it again in {pause:.1f} s (log: {running.program.log})")
    elif running.process is not None and running.is_up:
        seconds = time.monotonic() - running.started_at
        say(f"  {name:9} {'done' if running.state is ProgramState.DONE else 'ready'} {seconds:5.1f} s")


def write_sign_in_link(instance: Instance) -> None:
    """Print an address that signs the sample user in: once, on this machine, within minutes."""
    home = instance.home
    code, text = one_time_link.new_link(str(home.read_json(home.prepared)["username"]))
    write_private(home.sign_in_link, text + "\n")
    minutes = one_time_link.LIFETIME // 60
    say(f"Open {instance.url}/signin/once?code={code} (serves once, on this machine, for {minutes} minutes).")


def how_to_go_on(instance: Instance) -> str:
    """The files with the secrets, without the secrets: the output goes into logs."""
    home, url, ssh = instance.home, instance.url, ssh_access(instance)
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
  token   in {home.token}; all of it in {home.connection}, and `{program()} credentials` shows it
  ssh     ssh -p {ssh["port"]} -i '{ssh["identity_file"]}' {ssh["user"]}@{ssh["host"]}
  curl    curl -K '{home.curl}' '{url}/v0.10/operation/endpoint/go%23ep1/ls?path=/share/godata/'
  Python  python3 -c "{python}"

`make status` and `make logs` in another terminal; Ctrl-C here, or `make down`, stops it. The data stays.
"""


def program() -> str:
    """The command `waybill`, as it can be typed in the folder of this process."""
    script = Path(sys.argv[0]).absolute()
    return str(script.relative_to(Path.cwd())) if script.is_relative_to(Path.cwd() / ".venv") else "waybill"


def logs(home: Path) -> list[Path]:
    """The log files of a home, by name."""
    return sorted((home / "logs").glob("*.log"))
