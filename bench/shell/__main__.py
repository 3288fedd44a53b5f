"""The cost of the ssh shell: commands by OpenSSH against plain `scp`, and the sessions that one process holds.

python -m bench.shell [--rounds 100] [--calls 1000] [--sessions 200]

`scp` copies one octet from a folder to an sshd of this machine that serves the other folder. The shell copies the
same octet between GridFTP servers over the same two folders, as a task. Both are whole calls of a client, with the
handshake, in turn. The session is one `ssh` whose standard input is a list of `scp` commands.
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import paramiko

from bench.table import machine, print_table
from tests.gridftp.sshd import SshServer, make_key
from tests.instance import Api, instance

PLAIN, SHELL, SESSION = "plain scp", "ssh HOST scp", "scp within one session"
#: Clients that ask at the same time.
AT_ONCE = 20


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=100)
    parser.add_argument("--calls", type=int, default=1000)
    parser.add_argument("--sessions", type=int, default=200)
    options = parser.parse_args()
    with instance() as api, tempfile.TemporaryDirectory(prefix="waybill-bench-") as folder:
        shell = Shell(api, Path(folder))
        copies(api, shell, Path(folder), options.rounds)
        calls(shell, options.calls)
        sessions(api, shell, options.sessions)


class Shell:
    """The ssh client of the sample user."""

    def __init__(self, api: Api, folder: Path) -> None:
        self.access = api.connection["ssh"]
        known = folder / "known_hosts"
        known.write_text(f"[{self.access['host']}]:{self.access['port']} {self.access['host_key']}\n")
        self._words = [
            *("ssh", "-F", "none", "-p", str(self.access["port"]), "-i", self.access["identity_file"]),
            *("-o", f"UserKnownHostsFile={known}", "-o", "IdentitiesOnly=yes", "-o", "IdentityAgent=none"),
            f"{self.access['user']}@{self.access['host']}",
        ]

    def run(self, *words: str, given: str = "") -> float:
        """Seconds of a whole call. Raises RuntimeError where it fails."""
        return timed(self.words(*words), given)

    def words(self, *words: str) -> list[str]:
        """The client's own command line, with this command of the shell."""
        return [*self._words, *words]

    def connect(self) -> paramiko.Transport:
        transport = paramiko.Transport((self.access["host"], self.access["port"]))
        key = paramiko.Ed25519Key(filename=self.access["identity_file"])
        transport.connect(username=self.access["user"], pkey=key)
        return transport


def timed(words: Sequence[str], given: str = "") -> float:
    begun = time.perf_counter()
    done = subprocess.run(words, input=given, capture_output=True, text=True, check=False, timeout=600)
    seconds = time.perf_counter() - begun
    if done.returncode:
        raise RuntimeError(f"{words[0]} ended with {done.returncode}: {done.stderr[-1000:]}")
    return seconds


def copies(api: Api, shell: Shell, folder: Path, rounds: int) -> None:
    """One octet from one place to another, by each way in turn."""
    source, target = (Path(api.connection["roots"][name]) for name in ("go#ep1", "go#ep2"))
    (source / "1byte").write_bytes(b"x")
    runs: dict[str, list[float]] = {PLAIN: [], SHELL: [], SESSION: []}
    (folder / "sshd").mkdir()
    with SshServer(folder / "sshd", sshftp=False) as server:
        key = make_key(folder / "key", "ed25519")
        server.authorize(key)
        plain = [
            *(
                "scp",
                "-O",
                "-F",
                "none",
                "-q",
                "-P",
                str(server.port),
                "-i",
                str(key),
                "-o",
                "StrictHostKeyChecking=no",
            ),
            *("-o", "UserKnownHostsFile=/dev/null", "-o", "IdentitiesOnly=yes", "-o", "IdentityAgent=none"),
            *("-o", "LogLevel=ERROR", str(source / "1byte"), f"{server.username}@{server.address}:{target}/plain"),
        ]
        timed(plain), shell.run("scp", "go#ep1:/1byte", "go#ep2:/warm")
        for number in range(rounds):
            runs[PLAIN].append(timed(plain))
            runs[SHELL].append(shell.run("scp", "go#ep1:/1byte", f"go#ep2:/shell-{number}"))
    lines = [f"scp go#ep1:/1byte go#ep2:/session-{number}\n" for number in range(rounds)]
    runs[SESSION] = [shell.run(given="".join(lines)) / rounds]
    for number in range(rounds):
        for name in (f"shell-{number}", f"session-{number}"):
            if (target / name).read_bytes() != b"x":
                raise RuntimeError(f"{name} is not there")
    milliseconds = {name: [1000 * one for one in values] for name, values in runs.items()}
    print_table("One octet from one place to another", "ms", milliseconds, PLAIN)
    base = statistics.median(runs[PLAIN])
    for name, bar in ((SHELL, 0.8), (SESSION, 0.3)):
        say(f"{name}: {statistics.median(runs[name]) / base:.2f} of the time of {PLAIN} (bar: {bar})\n")


def calls(shell: Shell, count: int) -> None:
    for command in ("status", "help"):
        seconds = [shell.run(command) for _ in range(count)]
        say(f"\n`ssh HOST {command}`, {count} calls: median {1000 * statistics.median(seconds):.0f} ms, ")
        say(f"95th of 100 {1000 * sorted(seconds)[int(0.95 * count)]:.0f} ms (bar of status: 120 ms)\n")


def sessions(api: Api, shell: Shell, count: int) -> None:
    """Connected sessions, each of which asks for help: one after the other, then some at once."""
    process = api.connection["pids"]["shell"]
    before = memory(process)
    held = [shell.connect() for _ in range(count)]
    idle = memory(process)
    alone = [help_of(one) for one in held]
    with ThreadPoolExecutor(AT_ONCE) as clients:
        together = list(clients.map(help_of, held))
    say(f"\n{count} connected sessions ({machine()}): ")
    say(f"help median {1000 * statistics.median(alone):.0f} ms, slowest {1000 * max(alone):.0f} ms; ")
    middle, most = 1000 * statistics.median(together), 1000 * max(together)
    say(f"{AT_ONCE} at once: median {middle:.0f} ms, slowest {most:.0f} ms\n")
    say(f"memory of the process: {before:.0f} MB before, {idle:.0f} MB connected, {memory(process):.0f} MB after ")
    say("(bars: 200 ms, 300 MB)\n")
    for one in held:
        one.close()


def help_of(transport: paramiko.Transport) -> float:
    begun = time.perf_counter()
    channel = transport.open_session()
    channel.exec_command("help")
    while channel.recv(65536):
        pass
    if channel.recv_exit_status():
        raise RuntimeError("help has failed")
    channel.close()
    return time.perf_counter() - begun


def memory(process: int) -> float:
    """Resident megabytes."""
    status = Path(f"/proc/{process}/status").read_text()
    line = next(line for line in status.splitlines() if line.startswith("VmRSS:"))
    return int(line.split()[1]) / 1024


def say(text: str) -> None:
    sys.stdout.write(text)
    sys.stdout.flush()


if __name__ == "__main__":
    main()
