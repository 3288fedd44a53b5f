"""Deeds of a person between the commands of the pages, and checks of the rehearsal."""

from __future__ import annotations

import json
import os
import shutil
import sys
import time
from collections.abc import Callable
from pathlib import Path

from bench.drill.load import Tree, differences, digests
from bench.install.guests import NETWORK, Guest
from bench.install.plan import HOSTS
from deploy.stack.child import Child, spawn, stop
from tests.instance import Api

CHECKOUT = Path(__file__).resolve().parents[2]
SMALL, LARGE = Tree("small", 200, 20), Tree("large", 40, 600)
#: Ports of the GridFTP servers: the source, the destination, and one that is away at first.
SOURCE, DESTINATION, LATER = 2811, 2812, 2813
TIMEOUT = 300.0
#: More than the seconds for which a program itself waits for the database at its start.
LATE_SECONDS = 45.0
RUNNING = "systemctl list-units --plain --no-legend --state=running 'waybill-*' | cut -d ' ' -f 1"
#: Also those that are about to end.
NOT_ENDED = RUNNING.replace("=running", "=active,activating,deactivating")
#: Of a process: capabilities, no new privileges, the filter of system calls (proc(5)).
CONFINED = {"CapEff": "0000000000000000", "CapBnd": "0000000000000000", "NoNewPrivs": "1", "Seccomp": "2"}


class DeedError(RuntimeError):
    """A check of the rehearsal failed."""


class Deeds:
    """Each method without an underscore is an act of the plan; it returns words for the table."""

    def __init__(self, guests: dict[str, Guest], base: Path, newer: str) -> None:
        self.guests, self.base, self.newer_version = guests, base, newer
        self._servers: dict[int, Child] = {}
        self._task = ""
        self._sent: dict[str, str] = {}
        self._endpoints: dict[int, str] = {}
        self._known: Api | None = None
        for port in (SOURCE, DESTINATION, LATER):
            folder = self._folder(port)
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir(parents=True)

    def act(self, name: str) -> str:
        """Raises DeedError, OSError and RuntimeError."""
        deed: Callable[[], str] = getattr(self, name)
        return deed()

    def end(self) -> None:
        for server in self._servers.values():
            stop(server)

    def carry_addresses(self) -> str:
        names = ("database-url", "redis-url")
        for name in names:
            self._carry("database", "web", f"root/waybill/{name}")
        return ""

    def carry_settings(self) -> str:
        self._carry("web", "worker", "root/waybill-settings.tar")
        return ""

    def confined(self) -> str:
        count = 0
        for host in ("web", "worker"):
            for unit in self._units(host):
                status = self._ask(host, f'cat "/proc/$(systemctl show --property=MainPID --value {unit})/status"')
                found = dict(line.split(":\t", 1) for line in status.splitlines() if ":\t" in line)
                if wrong := {name: found.get(name) for name, value in CONFINED.items() if found.get(name) != value}:
                    raise DeedError(f"{unit}: {wrong}")
                count += 1
        return f"{count} units"

    def late_database(self) -> str:
        """As after a power cut, when the host of the database needs longer than that of the service."""
        before = self._units("web")
        self._ask("web", "systemctl stop 'waybill*'")
        self._ask("database", "systemctl stop postgresql")
        self._ask("web", "systemctl start --no-block waybill.target")
        time.sleep(LATE_SECONDS)
        self._ask("database", "systemctl start postgresql")
        self._ask("web", "timeout 120 sh -c 'until waybill check web; do sleep 2; done'")
        if missing := {*before} - {*self._units("web")}:
            raise DeedError(f"{sorted(missing)} did not start")
        return f"{len(before)} units"

    def transfer(self) -> str:
        for port in (SOURCE, DESTINATION):
            self._serve(port)
        self._submit(SMALL, SOURCE, DESTINATION)
        return self._compare(SMALL, DESTINATION)

    def unfinished(self) -> str:
        self._submit(SMALL, SOURCE, LATER)
        status = self._api.call("GET", f"/task/{self._task}")["status"]
        if status != "ACTIVE":
            raise DeedError(f"the task is {status}")
        return ""

    def stopped(self) -> str:
        """systemd keeps no result of a unit that ended well; `timeout` and `signal` are failures."""
        for host in ("web", "worker"):
            listed = self._ask(host, "systemctl list-units --plain --no-legend --failed 'waybill-*'").splitlines()
            # A check may have come while a role was not ready, and says nothing about its end.
            if failed := [line for line in listed if not line.startswith("waybill-check@")]:
                raise DeedError(f"{host}: {failed}")
            journal = self._ask(host, "journalctl --no-pager --unit='waybill-*'")
            if hard := [line for line in journal.splitlines() if "timed out" in line or "SIGKILL" in line]:
                raise DeedError(f"{host}: {hard[:3]}")
            if there := self._ask(host, NOT_ENDED).split():
                raise DeedError(f"{host}: {there} have not ended")
        return ""

    def still_held(self) -> str:
        self._serve(LATER)
        time.sleep(10)
        if (status := self._api.call("GET", f"/task/{self._task}")["status"]) == "SUCCEEDED":
            raise DeedError("the task ran before its release")
        if digests(self._folder(LATER)):
            raise DeedError("files arrived before the release")
        held = self._ask("web", "waybill task list --held")
        if self._task not in held:
            raise DeedError(f"the task is {status}, and not in the list: {held}")
        return ""

    def finished(self) -> str:
        return self._compare(SMALL, LATER)

    def begin_large(self) -> str:
        self._submit(LARGE, SOURCE, DESTINATION)
        return ""

    def newer(self) -> str:
        for host in ("web", "worker"):
            version = self._ask(host, "dpkg-query --show --showformat='${Version}' waybill").strip()
            if version != self.newer_version or not self._units(host):
                raise DeedError(f"{host}: {version}, {self._units(host)}")
        return self.newer_version

    def end_large(self) -> str:
        return self._compare(LARGE, DESTINATION)

    def rotated(self) -> str:
        """`&&` hides a failure of the commands before it: so the files are looked at."""
        files = "stat --format='%a %U:%G' /etc/waybill/vault-key /etc/waybill/oidc-key.pem"
        modes = self._ask("single", files).splitlines()
        counts = "wc -l < vault-key; grep -c BEGIN oidc-key.pem; find . -name '*.new' | wc -l"
        found = self._ask("single", f"cd /etc/waybill\n{counts}").split()
        if modes != ["640 root:waybill"] * 2 or found != ["1", "2", "0"]:
            raise DeedError(f"{modes}, {found}")
        self._ask("single", "systemctl restart waybill.target")
        self._ask("single", "timeout 60 sh -c 'until waybill check web; do sleep 2; done'")
        return ""

    def healthy(self) -> str:
        """There is no mail server, and there are no authorities: only these checks can find everything right."""
        checks = json.loads(self._ask("single", "waybill doctor --json || test $? -lt 3"))["checks"]
        names = ("limits", "versions", "files", "keys")
        if wrong := [one["text"] for name in names for one in checks[name] if one["severity"] != "OK"]:
            raise DeedError(f"{wrong}")
        compared = [one["text"] for one in checks["versions"] if "those of the lock" in one["text"]]
        if len(compared) != 1:
            raise DeedError("no lock file is beside the code, so that no library was compared")
        return str(compared[0])

    def _folder(self, port: int) -> Path:
        return self.base / "endpoints" / str(port)

    def _carry(self, source: str, target: str, path: str) -> None:
        there = self.guests[target].root / path
        there.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        shutil.copy2(self.guests[source].root / path, there)

    def _ask(self, host: str, commands: str) -> str:
        done = self.guests[host].run(commands)
        if done.status:
            raise DeedError(f"{host}: {commands}: status {done.status}\n{done.output[-1000:]}")
        return done.output

    def _units(self, host: str) -> list[str]:
        return self._ask(host, RUNNING).split()

    def _serve(self, port: int) -> None:
        """A GridFTP server of the checkout, in the network of the guests."""
        words = [sys.executable, "-m", "endpoints.gridftp.server", "--root", str(self._folder(port))]
        words += ["--host", f"{NETWORK}.1", "--port", str(port)]
        self._servers[port] = spawn(words, cwd=CHECKOUT, log=self.base / f"gridftp-{port}.log", env=dict(os.environ))

    @property
    def _api(self) -> Api:
        if self._known is None:
            token = self._ask("web", "waybill token alice 2>/dev/null").strip()
            home = self.base / "client"
            home.mkdir(exist_ok=True)
            (home / "connection.json").write_text(json.dumps({"url": f"https://{HOSTS['web']}", "token": token}))
            self._known = Api(home)
            for port in (SOURCE, DESTINATION, LATER):
                self._endpoints[port] = self._known.endpoint(f"dtn-{port}", port, f"{NETWORK}.1")
        return self._known

    def _submit(self, tree: Tree, source: int, destination: int) -> None:
        self._sent = tree.make(self._folder(source))
        api = self._api
        self._task = api.transfer(
            self._endpoints[source],
            f"/{tree.name}/",
            self._endpoints[destination],
            f"/{tree.name}/",
            recursive=True,
            verify_checksum=True,
        )

    def _compare(self, tree: Tree, destination: int) -> str:
        task = self._api.wait(self._task, timeout=TIMEOUT)
        if task["status"] != "SUCCEEDED":
            raise DeedError(f"the task is {task['status']}: {task.get('nice_status_details')}")
        if wrong := differences(self._sent, digests(self._folder(destination) / tree.name)):
            raise DeedError("; ".join(wrong))
        return f"{len(self._sent)} files right"
