"""The first minutes of a newcomer: `make up`, a transfer, Ctrl-C, and `make up` again."""

from __future__ import annotations

import base64
import filecmp
import json
import os
import pwd
import re
import shlex
import signal
import stat
import subprocess
import sys
import tempfile
import urllib.error
import urllib.request
from collections.abc import Collection, Iterator
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from deploy.sample.data import FOLDER
from deploy.stack.free_ports import free_port
from tests.waiting import children_of, eventually, is_alive
from transferapi.config import CHECKOUT

pytestmark = [pytest.mark.own_interpreter, pytest.mark.timeout(480)]


class Waybill:
    """`waybill up` in a home of its own."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.environment = {**os.environ, "WAYBILL_HOME": str(home), "WAYBILL_PORT": str(free_port())}
        self.environment.pop("MAKELEVEL", None)
        self.process: subprocess.Popen[str] | None = None
        self.output = ""

    def up(self) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", "deploy.cli", "up"],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            env=self.environment,
            cwd=CHECKOUT,
        )
        self.read_until("Everything answers")

    def read_until(self, words: str) -> None:
        assert self.process is not None
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.output += line
            if words in line:
                return
        pytest.fail(f"ended before it said {words!r}:\n{self.output}")

    def connection(self) -> Any:
        return json.loads((self.home / "connection.json").read_text())

    def pids(self) -> dict[str, int]:
        try:
            found: dict[str, int] = self.connection()["pids"]
        except FileNotFoundError:
            return {}
        return found

    def is_whole_again(self, names: Collection[str], name: str, old: int) -> bool:
        """Whether all processes run, and this one is not the one that we killed."""
        pids = self.pids()
        return set(names) == set(pids) and pids[name] != old

    def get(self, resource: str) -> Any:
        return self.call("GET", f"/v0.10/{resource}")

    def call(self, method: str, path: str, document: object = None) -> Any:
        connection = self.connection()
        headers = {"Authorization": f"Bearer {connection['token']}", "Content-Type": "application/json"}
        body = None if document is None else json.dumps(document).encode()
        request = urllib.request.Request(connection["url"] + path, body, headers=headers, method=method)
        with urllib.request.urlopen(request, timeout=30) as answer:
            return json.load(answer)

    def client_token(self, client_id: str, secret: str) -> str:
        """Return the access token that an application gets with its secret."""
        basic = base64.b64encode(f"{client_id}:{secret}".encode()).decode()
        address = f"{self.connection()['url']}/v2/oauth2/token"
        form = b"grant_type=client_credentials"
        request = urllib.request.Request(address, form, headers={"Authorization": f"Basic {basic}"})
        with urllib.request.urlopen(request, timeout=30) as answer:
            return str(json.load(answer)["access_token"])

    def run(self, *words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "deploy.cli", *words],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            env=self.environment,
            cwd=CHECKOUT,
            timeout=60,
            check=False,
        )

    def stop(self, number: signal.Signals) -> int:
        assert self.process is not None
        assert self.process.stdout is not None
        self.process.send_signal(number)
        code = self.process.wait(timeout=30)
        self.output += self.process.stdout.read()
        self.process.stdout.close()
        self.process = None
        return code


@pytest.fixture
def waybill() -> Iterator[Waybill]:
    with tempfile.TemporaryDirectory(prefix="waybill-", ignore_cleanup_errors=True) as folder:
        # Open the parent folder: the permissions of the home itself must keep other accounts out.
        Path(folder).chmod(0o711)
        waybill = Waybill(Path(folder) / "home")
        yield waybill
        if waybill.process is not None:
            waybill.stop(signal.SIGTERM)


def keeps_secrets(waybill: Waybill) -> None:
    """The vault has a key of this home, nobody else reads it, and no crash writes memory to disk."""
    key = waybill.home / "vault-key"
    assert stat.S_IMODE(key.stat().st_mode) == 0o600
    status = waybill.run("vault", "status")
    assert (status.returncode, status.stdout.count(" kept")) == (0, 1)
    for name, pid in waybill.pids().items():
        limits = Path(f"/proc/{pid}/limits").read_text().splitlines()
        [cores] = [line.split() for line in limits if line.startswith("Max core file size")]
        assert cores[4:6] == ["0", "0"], name
    given = {name: Path(f"/proc/{pid}/environ").read_text() for name, pid in waybill.pids().items()}
    assert f"WAYBILL_VAULT_KEY_FILE={key}" in given["ep1"]
    assert not any(key.read_text().strip() in text for text in given.values())


def shows_no_secret(waybill: Waybill) -> None:
    """No output and no log holds a secret; the command `credentials` shows them."""
    connection = waybill.connection()
    secrets = {connection["password"], connection["token"], connection["client"]["secret"]}
    logs = [path.read_text(errors="replace") for path in (waybill.home / "logs").iterdir()]
    assert not any(secret in text for secret in secrets for text in (waybill.output, *logs))
    assert all(secret in waybill.run("credentials").stdout for secret in secrets)
    [curl] = [line.split("curl    ")[1] for line in waybill.output.splitlines() if line.startswith("  curl    ")]
    listed = subprocess.run(shlex.split(curl), capture_output=True, text=True, timeout=60, check=True).stdout
    assert '"file1.txt"' in listed
    [python] = [line.split("Python  ")[1] for line in waybill.output.splitlines() if line.startswith("  Python  ")]
    ran = subprocess.run(shlex.split(python), capture_output=True, text=True, timeout=60, check=True)
    assert ran.stdout == "SUCCEEDED\n"


def forks_in_order(waybill: Waybill) -> None:
    """The supervisor, which forks, has one thread. A role has its name, and no file of the supervisor's open."""
    pids = waybill.pids()
    assert len(os.listdir(f"/proc/{pids['supervisor']}/task")) == 1
    for name in ("web", "relay", "shell", "worker1"):
        folder = Path(f"/proc/{pids[name]}")
        assert (folder / "comm").read_text() == f"{name}\n"
        assert (folder / "fd" / "0").readlink() == Path(os.devnull)
        assert {(folder / "fd" / number).readlink() for number in "12"} == {waybill.home / "logs" / f"{name}.log"}
        opened = [os.readlink(file) for file in (folder / "fd").iterdir()]
        assert not any(str(waybill.home / "supervisor.pid") in one for one in opened), name
        assert os.getpgid(pids[name]) == pids[name]


def keeps_others_out(waybill: Waybill) -> None:
    """No process of root's, none of an account that others use, and another account reads nothing of it."""
    owner = waybill.home.stat().st_uid
    assert owner not in (0, pwd.getpwnam("nobody").pw_uid)
    assert {Path(f"/proc/{pid}").stat().st_uid for pid in waybill.pids().values()} == {owner}
    if os.geteuid() == 0:
        words = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "ls", str(waybill.home)]
        assert b"Permission denied" in subprocess.run(words, capture_output=True, timeout=30, check=False).stderr


def give_back(home: Path) -> None:
    """Set the owners as an earlier version did when root ran it: root, and nobody for the database."""
    nobody = pwd.getpwnam("nobody")
    for path in (home, *home.rglob("*")):
        database = (home / "postgres") in (path, *path.parents) or path == home / "run" / "postgres"
        os.chown(path, *((nobody.pw_uid, nobody.pw_gid) if database else (0, 0)), follow_symlinks=False)
    home.chmod(0o711)
    (home / "postgres" / "pg_ident.conf").write_text('home "root" waybill\n')


def lets_users_connect_to_nothing_else_here(waybill: Waybill) -> None:
    """Not the web server itself, by an endpoint or by a webhook."""
    port = urlsplit(waybill.connection()["url"]).port
    server = {"hostname": "127.0.0.1", "port": port, "scheme": "ftp"}
    documents = {
        "/v0.10/endpoint": {"name": "inner", "DATA": [server]},
        "/v0.10/webhook": {"url": f"http://127.0.0.1:{port}/"},
    }
    for path, document in documents.items():
        with pytest.raises(urllib.error.HTTPError) as refused:
            waybill.call("POST", path, document)
        assert f"has not allowed port {port}" in refused.value.read().decode()


def by_ssh(access: dict[str, Any], folder: Path, command: str) -> str:
    """The standard output of a command of the ssh shell, as the sample user."""
    known = folder / "known_hosts"
    known.write_text(f"[{access['host']}]:{access['port']} {access['host_key']}\n")
    words = ["ssh", "-F", "none", "-p", str(access["port"]), "-i", access["identity_file"]]
    words += ["-o", f"UserKnownHostsFile={known}", "-o", "IdentityAgent=none", f"{access['user']}@{access['host']}"]
    done = subprocess.run(
        [*words, command], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


def test_make_up_from_nothing_to_a_second_start(waybill: Waybill) -> None:
    waybill.up()
    waybill.read_until("Ctrl-C here")
    assert "SUCCEEDED: 301 files" in waybill.output
    assert "source and destination are the same" in waybill.output
    connection = waybill.connection()
    assert set(connection) == {"url", "username", "password", "token", "client", "endpoints", "ssh", "roots", "pids"}
    for name in (
        "connection.json",
        "client.json",
        "oidc-key.pem",
        "password",
        "token",
        "curl.conf",
        "ssh-key",
        "ssh-host-key",
    ):
        assert stat.S_IMODE((waybill.home / name).stat().st_mode) == 0o600
    source, destination = (Path(connection["roots"][name]) / FOLDER.strip("/") for name in ("go#ep1", "go#ep2"))
    assert filecmp.cmp(source / "large.dat", destination / "large.dat", shallow=False)
    [task] = waybill.get("task_list")["DATA"]
    assert task["status"] == "SUCCEEDED"

    status = waybill.run("status")
    assert status.returncode == 0
    assert all(name in status.stdout for name in connection["pids"])
    for program in ("web", "worker", "shell", "relay"):
        checked = waybill.run("check", program)
        assert (checked.returncode, checked.stdout) == (0, f"{program}: works\n"), checked.stderr
    assert by_ssh(connection["ssh"], waybill.home, "ls go#ep1/share/") == "godata/\nsample/\n"
    assert waybill.run("user", "add", "alice").returncode == 0
    assert waybill.run("user", "set", "alice", "--email", "alice@example.org").stdout == "alice: alice@example.org\n"
    assert waybill.run("token", "alice").stdout.startswith("wb_")
    assert len(waybill.run("password", "alice", "--generate").stdout.strip()) == 23
    assert "too short" in waybill.run("password", "alice").stderr
    assert waybill.run("certificate", "alice", "/O=Grid/CN=Alice").returncode == 0
    assert "is registered already" in waybill.run("certificate", "alice", "/O=Grid/CN=Alice").stderr
    assert "is written as" in waybill.run("certificate", "alice", "Alice").stderr
    shows_no_secret(waybill)
    assert "there is no user" in waybill.run("token", "bob").stderr
    lines = r"GLOBUS_CLI_CLIENT_ID=(\S+)\nGLOBUS_CLI_CLIENT_SECRET=(wbs_\S+)\n"
    told = re.fullmatch(lines, waybill.run("client", "alice").stdout)
    assert told is not None
    assert waybill.client_token(*told.groups())
    assert "is up already" in waybill.run("up").stderr

    keeps_secrets(waybill)
    forks_in_order(waybill)
    keeps_others_out(waybill)
    lets_users_connect_to_nothing_else_here(waybill)
    children = waybill.pids()
    assert waybill.stop(signal.SIGINT) == 0
    assert not any(is_alive(pid) for pid in children.values())
    assert not (waybill.home / "connection.json").exists()
    assert waybill.run("status").returncode == 3

    if os.geteuid() == 0:
        give_back(waybill.home)
    waybill.up()
    keeps_others_out(waybill)
    again = waybill.connection()
    for key in ("token", "client", "endpoints"):
        assert again[key] == connection[key]
    assert waybill.client_token(again["client"]["id"], again["client"]["secret"])
    assert again["ssh"]["host_key"] == connection["ssh"]["host_key"]
    assert by_ssh(again["ssh"], waybill.home, "ls go#ep1/share/") == "godata/\nsample/\n"
    assert [task["task_id"] for task in waybill.get("task_list")["DATA"]] == [task["task_id"]]
    waybill.read_until("Ctrl-C here")
    assert waybill.output.count("The first transfer") == 1
    assert waybill.run("down").returncode == 0


NAMES = {"supervisor", "postgres", "redis", "web", "relay", "ep1", "ep2", "shell"}


def test_processes_are_started_again_a_killed_supervisor_leaves_no_orphan_and_a_deleted_client_is_replaced(
    waybill: Waybill,
) -> None:
    waybill.up()
    waybill.read_until("Ctrl-C here")
    before = waybill.pids()
    workers = {name for name in before if name.startswith("worker")}
    assert set(before) == NAMES | workers
    for name in sorted(set(before) - {"supervisor"}):
        old = waybill.pids()[name]
        os.kill(old, signal.SIGKILL)
        eventually(partial(waybill.is_whole_again, before.keys(), name, old))
    eventually(lambda: waybill.run("token", "demo").returncode == 0)
    everybody = set(waybill.pids().values())
    everybody |= {child for pid in everybody for child in children_of(pid)}
    deleted = waybill.connection()["client"]
    waybill.call("DELETE", f"/v2/api/clients/{deleted['id']}")
    waybill.stop(signal.SIGKILL)
    eventually(lambda: not any(is_alive(pid) for pid in everybody))
    assert "the client of `make up` has been revoked" in waybill.run("up").stderr
    waybill.up()
    client = waybill.connection()["client"]
    assert client["id"] != deleted["id"]
    assert waybill.client_token(client["id"], client["secret"])


def test_a_port_in_use_is_named(waybill: Waybill) -> None:
    import socket

    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        waybill.environment["WAYBILL_PORT"] = str(taken.getsockname()[1])
        refused = waybill.run("up")
    assert refused.returncode == 1
    assert "is in use: choose another one with WAYBILL_PORT" in refused.stderr


def test_a_home_that_cannot_be_used_is_named(waybill: Waybill) -> None:
    waybill.home.write_text("a file")
    refused = waybill.run("up")
    assert refused.returncode == 1
    assert f"cannot use WAYBILL_HOME {waybill.home}" in refused.stderr
