"""The two commands of the README in bare systems, as root and as an ordinary user.

    python -m bench.install.first_command [--base FOLDER] [--system NAME]... [--account NAME]... [--write FILE]

A system is a root folder that mmdebstrap makes with the programs that the README asks for, and nothing else. In it a
commit is cloned, and the commands of the README are run as they stand there: `make up`, until its first transfer is
compared and Ctrl-C has stopped it, and then `make test`. The times have all downloads in them. Processes and mounts are
in namespaces, which end with this process; the network is that of this machine, because the downloads need it. It works
for root only, and needs a Debian and access to its mirror and to PyPI. Status 1: a command failed.

Debian testing stands for the newest Ubuntu with the same Python; --ubuntu MIRROR adds that Ubuntu itself.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from bench.drill.engine import mirror
from bench.install import idle
from bench.install.report import Row, table
from bench.install.system import MachineError, install_programs, run
from deploy.stack.free_ports import free_port, is_free

CHECKOUT = Path(__file__).resolve().parents[2]
UBUNTU = "Ubuntu 26.04"
UBUNTU_KEYS = Path("/usr/share/keyrings/ubuntu-archive-keyring.gpg")
#: The names of the releases.
SYSTEMS = {"Debian 12": "bookworm", "Debian 13": "trixie", "Debian testing": "forky", UBUNTU: "resolute"}
#: Beside what Debian calls essential: what the README asks for, but python3-venv, which `make up` of root installs.
PROGRAMS = ("git", "make", "python3", "ca-certificates")
#: The command of the README that an administrator runs for a user.
FOR_A_USER = "apt-get update -q && apt-get install -y -q --no-install-recommends python3-venv"
ACCOUNTS = ("root", "user")
USER, UID = "alice", 1000
UP_SECONDS, TEST_SECONDS, STOP_SECONDS = 900.0, 7200.0, 60.0
COMPARED, IS_UP = "source and destination are the same", "Ctrl-C here"
#: Variables by which this machine's pip, uv and git find mirrors and authorities.
_MACHINE = re.compile(r"^(PIP|UV)_|_CERT|_CA_|_proxy$|_PROXY$")
#: Words: the root folder, then the command and its words. The shell stays the first process of the namespaces: signals
#: end such a process only where it handles them, and a change of the account forgets the signal of a parent's death.
_INSIDE = """
mount -t proc proc "$1/proc" && mount --rbind /dev "$1/dev" && mount --rbind /sys "$1/sys" || exit 125
root=$1; shift
chroot "$root" "$@"
exit $?
"""
APART = ("unshare", "--mount", "--pid", "--fork", "--kill-child", "--", "sh", "-c", _INSIDE, "sh")


def commands_of_readme() -> list[str]:
    """The lines of the block below "Run it", without their comments."""
    section = (CHECKOUT / "README.md").read_text().partition("\n## Run it\n")[2].partition("\n## ")[0]
    return [line.partition("#")[0].strip() for line in section.splitlines() if line.startswith("    ")]


@dataclass(frozen=True)
class BareSystem:
    """A root folder of its own for each account."""

    name: str
    account: str
    root: Path

    @property
    def home(self) -> Path:
        """As processes inside see it."""
        return Path("/root") if self.account == "root" else Path("/home", USER)

    @property
    def place(self) -> str:
        return f"{self.name}, {self.account}"

    def make(self, archive: Path, commit: str) -> None:
        """Unpack it, copy what this machine has in place of the internet, and clone the commit. Raises MachineError."""
        shutil.rmtree(self.root, ignore_errors=True)
        self.root.mkdir(parents=True)
        run(["tar", "-C", self.root, "-xf", archive])
        for name in ("etc/resolv.conf", "etc/hosts", "etc/pip.conf", "etc/ssl/certs/ca-certificates.crt"):
            if (there := Path("/", name)).exists():
                (self.root / name).unlink(missing_ok=True)
                shutil.copyfile(there, self.root / name)
        if self.account != "root":
            run(["chroot", self.root, "useradd", "--uid", str(UID), "--create-home", "--shell", "/bin/bash", USER])
            run(["chroot", self.root, "env", "DEBIAN_FRONTEND=noninteractive", "sh", "-c", FOR_A_USER])
        checkout = self.root / self.home.relative_to("/") / "waybill"
        run(["git", "clone", "--quiet", "--no-local", CHECKOUT, checkout])
        run(["git", "-C", checkout, "checkout", "--quiet", commit])
        if self.account != "root":
            run(["chown", "-R", f"{UID}:{UID}", checkout])

    def words(self, command: str, tests: str = "") -> list[str]:
        """A command of the README, in the checkout. tests: only these, as PYTEST_ADDOPTS takes them."""
        drop = ["setpriv", f"--reuid={UID}", f"--regid={UID}", "--init-groups"] if self.account != "root" else []
        inside = f"cd {self.home}/waybill && exec {command}"
        return [*APART, str(self.root), *drop, "env", "-i", *self._environment(tests), "sh", "-c", inside]

    def _environment(self, tests: str) -> list[str]:
        given = {"PYTEST_ADDOPTS": tests} if tests else {}
        given |= {name: value for name, value in os.environ.items() if _MACHINE.search(name)}
        given |= {"HOME": str(self.home), "PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"}
        # Nothing generates this locale: a login by ssh brings such names.
        given |= {"TERM": "dumb", "LANG": "de_DE.UTF-8"}
        if not is_free(8000):
            given["WAYBILL_PORT"] = str(free_port())
        return [f"{name}={value}" for name, value in given.items()]


class CommandError(RuntimeError):
    """A command of the README failed; `output` has all that it said."""

    def __init__(self, reason: str, output: str) -> None:
        super().__init__(reason)
        self.output = output


@contextlib.contextmanager
def running(words: Sequence[str]) -> Iterator[subprocess.Popen[str]]:
    """The processes end with the block: the first of their namespace gets SIGKILL."""
    process = subprocess.Popen(
        words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace"
    )
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def make_up(system: BareSystem, command: str, seconds: float) -> list[Row]:
    """Run it to the comparison of its first transfer, measure it idle, and stop it. Raises CommandError."""
    begun = time.monotonic()
    with running(system.words(command)) as process:
        output = _read_until(process, COMPARED, UP_SECONDS)
        first = time.monotonic() - begun
        output += _read_until(process, IS_UP, UP_SECONDS)
        rows = [Row(system.place, f"`{command}`, to the first transfer, compared", first, "right", True, output)]
        supervisor = _supervisor(process.pid)
        used = idle.measure(supervisor, seconds)
        rows.append(Row(system.place, f"idle for {seconds:.0f} s", seconds, str(used), True, ""))
        begun = time.monotonic()
        for pid in idle.tree(process.pid):
            if _command(pid)[:1] == ["make"] or pid == supervisor:
                os.kill(pid, signal.SIGINT)
        output = _read_until(process, "Stopped.", STOP_SECONDS)
        if left := [" ".join(_command(pid)) for pid in idle.tree(supervisor)[1:]]:
            raise CommandError(f"{len(left)} processes do not end", f"{output}\n{left}")
        return [*rows, Row(system.place, "Ctrl-C", time.monotonic() - begun, "stopped", True, output)]


def make_test(system: BareSystem, command: str, tests: str = "") -> Row:
    """Raises CommandError."""
    begun = time.monotonic()
    with running(system.words(command, tests)) as process:
        output = _read_until(process, None, TEST_SECONDS)
        status = process.wait(STOP_SECONDS)
    if status:
        raise CommandError(f"status {status}", output)
    last = output.strip().rpartition("\n")[2].strip("= ")
    return Row(system.place, f"`{command}`", time.monotonic() - begun, last, True, output)


def _read_until(process: subprocess.Popen[str], words: str | None, seconds: float) -> str:
    """The output up to the line with these words; None: to its end. Raises CommandError."""
    until = time.monotonic() + seconds
    assert process.stdout is not None
    found: list[str] = []
    # The output of a process that hangs ends with the process.
    limit = _killer(process, seconds)
    try:
        for line in process.stdout:
            found.append(line)
            if words is not None and words in line:
                return "".join(found)
    finally:
        limit.cancel()
    if words is None and time.monotonic() < until:
        return "".join(found)
    reason = f"not within {seconds:.0f} s" if time.monotonic() >= until else "it ended before"
    raise CommandError(f"{reason}: {words or 'its end'}", "".join(found))


def _killer(process: subprocess.Popen[str], seconds: float) -> threading.Timer:
    limit = threading.Timer(seconds, process.kill)
    limit.daemon = True
    limit.start()
    return limit


def _supervisor(top: int) -> int:
    """Raises CommandError."""
    found = [pid for pid in idle.tree(top) if _command(pid)[-2:-1] and _command(pid)[-1] == "up"]
    ours = [pid for pid in found if _command(pid)[-2].endswith("/waybill")]
    if not ours:
        raise CommandError("no process is `waybill up`", "")
    return ours[0]


def _command(pid: int) -> list[str]:
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/cmdline").read_bytes().decode(errors="replace").rstrip("\0").split("\0")
    return []


def archive(base: Path, name: str, mirrors: dict[str, str]) -> Path:
    """The bare system with the programs of the README, made once. Raises MachineError."""
    suite = SYSTEMS[name]
    made = base / f"{suite}.tar"
    if not made.exists():
        components = "main,universe" if name == UBUNTU else "main"
        words = ["nice", "mmdebstrap", "--quiet", "--variant=minbase", f"--components={components}"]
        words += [f"--keyring={UBUNTU_KEYS}"] if name == UBUNTU else []
        # A mirror that is behind has a list of packages of Debian testing that has expired.
        words += ["--aptopt=Acquire::Check-Valid-Until false"] if name == "Debian testing" else []
        unfinished = base / f"{suite}.unfinished.tar"
        run([*words, f"--include={','.join(PROGRAMS)}", suite, unfinished, *filter(None, [mirrors[name]])])
        unfinished.rename(made)
    return made


def rehearse(given: argparse.Namespace, mirrors: dict[str, str]) -> list[Row]:
    """All systems and accounts; one that fails does not keep the others from being tried."""
    rows: list[Row] = []
    log = given.base / "first-command.log"
    log.write_text("")
    for name in given.system or mirrors:
        for account in given.account or ACCOUNTS:
            system = BareSystem(name, account, given.base / f"{SYSTEMS[name]}-{account}")
            for row in _one(system, given, mirrors):
                rows.append(row)
                with log.open("a") as file:
                    file.write(f"=== {row.host}: {row.what}: {row.result}\n{row.output}\n")
                say(f"{row.host:20} {row.what}: {row.result} ({row.seconds:.0f} s)")
            shutil.rmtree(system.root, ignore_errors=True)
    return rows


def _one(system: BareSystem, given: argparse.Namespace, mirrors: dict[str, str]) -> Iterator[Row]:
    begun = time.monotonic()
    what = "made"
    try:
        system.make(archive(given.base, system.name, mirrors), given.commit)
        for command in commands_of_readme():
            begun, what = time.monotonic(), f"`{command}`"
            if command == "make up":
                yield from make_up(system, command, given.idle)
            elif not given.without_tests:
                yield make_test(system, command, given.tests)
    except (MachineError, CommandError) as error:
        output = error.output if isinstance(error, CommandError) else ""
        say(output[-3000:])
        yield Row(system.place, what, time.monotonic() - begun, f"failed: {error}", False, output)


def say(words: str) -> None:
    sys.stderr.write(f"rehearsal: {words}\n")
    sys.stderr.flush()


def parser() -> argparse.ArgumentParser:
    words = argparse.ArgumentParser(
        prog="python -m bench.install.first_command",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    words.add_argument("--base", type=Path, default=Path(tempfile.gettempdir()) / "waybill-first-command")
    words.add_argument("--commit", default="HEAD", help="that is cloned (HEAD)")
    words.add_argument("--system", action="append", choices=SYSTEMS, help="only these (all)")
    words.add_argument("--account", action="append", choices=ACCOUNTS, help="only these (all)")
    words.add_argument("--ubuntu", metavar="MIRROR", default="", help="also Ubuntu, from this mirror")
    words.add_argument("--without-tests", action="store_true", help="`make up` alone")
    words.add_argument("--tests", default="", metavar="PATHS", help="of `make test` only these (all)")
    words.add_argument("--idle", type=float, default=30.0, metavar="SECONDS", help="measured idle (30)")
    words.add_argument("--write", type=Path, help="a file for the table, in Markdown")
    return words


def main(words: Sequence[str] | None = None) -> int:
    given = parser().parse_args(words)
    given.base = given.base.resolve()
    if os.geteuid():
        parser().error("it makes namespaces and mounts: it works for root only")
    mirrors = {name: mirror() for name in SYSTEMS if name != UBUNTU} | ({UBUNTU: given.ubuntu} if given.ubuntu else {})
    if missing := {*(given.system or ())} - mirrors.keys():
        parser().error(f"{missing.pop()} needs --ubuntu MIRROR")
    try:
        given.base.mkdir(parents=True, exist_ok=True)
        install_programs()
        given.commit = run(["git", "-C", CHECKOUT, "rev-parse", given.commit]).strip()
        rows = rehearse(given, mirrors)
    except (MachineError, OSError) as error:
        say(str(error))
        return 1
    text = table(rows)
    if given.write:
        given.write.write_text(text)
    sys.stdout.write(text)
    return 0 if all(row.good for row in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
