"""The commands of docs/operate, as they stand in the pages, on bare Debian 12 systems that boot a real systemd.

    python -m bench.install [--base FOLDER] [--commit COMMIT] [--write FILE] [--remove]

Four systems (a database host, a web host, a worker, and one with everything) are made by mmdebstrap, booted by
systemd-nspawn, and connected by a bridge in a network namespace without a way out. `apt-get install` of the pages finds
its packages in a folder that was downloaded before. A transfer, a backup, a restore and an upgrade follow. The packages
of the service are those of the commit; the pages are those of the checkout. It works for root only, and needs a
Debian and access to its mirror and to PyPI. Everything is in --base, about 3 GB. Status 1: a step failed.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from bench.install import guests, releases, system
from bench.install.deeds import DeedError, Deeds
from bench.install.pages import Block, all_pages
from bench.install.plan import HOSTS, PLAN, Act, Run
from bench.install.report import Row, table
from deploy.release.errors import ReleaseError

#: Namespaces of mounts, processes and network: all that runs in them ends with this process.
APART = ("unshare", "--net", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc", "--")
FIRST_ADDRESS = 11


def parser() -> argparse.ArgumentParser:
    words = argparse.ArgumentParser(
        prog="python -m bench.install", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    words.add_argument("--base", type=Path, default=Path(tempfile.gettempdir()) / "waybill-rehearsal")
    words.add_argument("--commit", default="HEAD", help="of the packages (HEAD)")
    words.add_argument("--write", type=Path, help="a file for the table, in Markdown")
    words.add_argument("--remove", action="store_true", help="delete --base at the end")
    words.add_argument("--inside", nargs=2, metavar="DEB", type=Path, help=argparse.SUPPRESS)
    return words


def say(words: str) -> None:
    sys.stderr.write(f"rehearsal: {words}\n")
    sys.stderr.flush()


def prepare(given: argparse.Namespace) -> tuple[Path, Path]:
    """With the network of this machine: the bare system, Debian's packages, and ours."""
    given.base.mkdir(parents=True, exist_ok=True)
    system.install_programs()
    say("makes the bare system and downloads the packages that the pages name")
    system.repository(given.base, system.bare_system(given.base))
    say("builds the two packages of the service")
    return releases.build(given.base, given.commit)


def rehearse(base: Path, packages: tuple[Path, Path]) -> list[Row]:
    """In namespaces of its own. Ends with the first step that fails."""
    guests.bridge()
    authority = system.Authority(base / "authority")
    hosts = {
        host: guests.Guest(host, name, FIRST_ADDRESS + index, base) for index, (host, name) in enumerate(HOSTS.items())
    }
    names = {guest.name: guest.address for guest in hosts.values()}
    client = base / "hosts"
    client.write_text("".join(f"{address} {name}\n" for name, address in names.items()))
    system.run(["mount", "--bind", client, "/etc/hosts"])
    os.environ["SSL_CERT_FILE"] = str(authority.certificate)
    for host, guest in hosts.items():
        # The host with everything has the public name to itself.
        own = {**names, HOSTS["web"]: guest.address} if host == "single" else names
        guest.make(base / "bare.tar", own, authority.certificate)
        certificate, key = authority.issue(HOSTS["web"] if host == "single" else guest.name)
        shutil.copy(certificate, guest.root / "root/certificate.pem")
        shutil.copy(key, guest.root / "root/key.pem")
        for package in packages:
            shutil.copy(package, guest.root / "root")
    deeds = Deeds(hosts, base, releases.version_of(packages[1]))
    try:
        return follow(hosts, deeds, packages, base)
    finally:
        deeds.end()
        for guest in hosts.values():
            guest.stop()


def follow(hosts: dict[str, guests.Guest], deeds: Deeds, packages: tuple[Path, Path], base: Path) -> list[Row]:
    """The plan, to its end or to the first step that fails. A host boots when its first step comes."""
    pages = all_pages()
    log = base / "rehearsal.log"
    log.write_text("")
    rows: list[Row] = []
    booted: set[str] = set()
    for step in PLAN:
        if isinstance(step, Run) and step.host not in booted:
            begun = time.monotonic()
            hosts[step.host].start(base / "packages")
            booted.add(step.host)
            say(f"{step.host} boots in {time.monotonic() - begun:.0f} s")
        row = _act(step, deeds) if isinstance(step, Act) else _run(step, hosts, pages, packages)
        rows.append(row)
        with log.open("a") as file:
            file.write(f"=== {row.what} on {row.host}: {row.result}\n{row.output}\n")
        say(f"{row.host:10} {row.what}: {row.result} ({row.seconds:.0f} s)")
        if not row.good:
            say(row.output[-4000:])
            break
    return rows


def _run(
    step: Run, hosts: dict[str, guests.Guest], pages: dict[str, dict[str, Block]], packages: tuple[Path, Path]
) -> Row:
    block = pages[step.page][step.block]
    done = hosts[step.host].run(block.commands(releases.version_of(packages[step.newer])))
    good = done.status == 0
    words = "right" if good else f"status {done.status}"
    return Row(step.host, f"[{step.page}]({step.page}.md): {step.block}", done.seconds, words, good, done.output)


def _act(step: Act, deeds: Deeds) -> Row:
    begun = time.monotonic()
    try:
        words, good = deeds.act(step.name) or "right", True
        output = ""
    except (DeedError, RuntimeError, OSError, ValueError) as error:
        words, good, output = "failed", False, str(error)
    return Row("", step.words, time.monotonic() - begun, words, good, output)


def _inside(given: argparse.Namespace) -> int:
    old, new = given.inside
    rows = rehearse(given.base, (old, new))
    text = table(rows)
    if given.write:
        given.write.write_text(text)
    sys.stdout.write(text)
    return 0 if len(rows) == len(PLAN) and all(row.good for row in rows) else 1


def main(words: Sequence[str] | None = None) -> int:
    given = parser().parse_args(words)
    given.base = given.base.resolve()
    if os.geteuid():
        parser().error("it makes namespaces and mounts: it works for root only")
    if given.inside:
        return _inside(given)
    try:
        packages = prepare(given)
        again = [sys.executable, "-m", "bench.install", "--base", str(given.base)]
        again += ["--write", str(given.write.resolve())] if given.write else []
        return subprocess.run([*APART, *again, "--inside", *map(str, packages)], check=False).returncode
    except (system.MachineError, ReleaseError, OSError) as error:
        say(str(error))
        return 1
    finally:
        guests.remove_groups()
        if given.remove:
            shutil.rmtree(given.base, ignore_errors=True)


if __name__ == "__main__":
    sys.exit(main())
