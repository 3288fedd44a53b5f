"""Sets up a box, step by step. Each step checks first, changes only what differs, and can be repeated."""

from __future__ import annotations

import argparse
import dataclasses
import fcntl
import os
import pwd
import re
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from deploy.endpoint.authority import Authority, CertificateFiles, serves

from . import services, settings
from .errors import BoxError
from .record import BoxRecord
from .services import GRIDFTP, MYPROXY, Box, authority_certificates
from .settings import BoxSettings
from .waybill import Waybill, read_token

INSTALLER = Path(__file__).parents[1] / "install-toolkit.sh"
#: A host certificate with fewer days left is replaced.
RENEW_DAYS = 60
READY_SECONDS = 20
RUN_LOCK = "running"
#: A line `"subject" account`, as this program writes it.
_MAPPED = re.compile(r'"(?P<subject>[^"]+)" (?P<account>\S+)')


def setup(options: argparse.Namespace) -> Iterator[str]:
    """Yields the changes, in words. Raises BoxError."""
    before = settings.load(options.folder)
    wanted = (before or BoxSettings()).with_options(vars(options)).checked()
    service = _check(options, before, wanted)
    _install(options)
    with opened(options.folder, create=True) as record:
        box = Box(options.folder, wanted)
        _check_ports(box, before)
        keep(record, box)
        authority = _make_files(record, box)
        add_users(record, box, options.user or [])
        if wanted.systemd:
            start(record, box)
        registered = _register(record, box, service, before)
        changed = record.changed or registered
        yield f"{'Set up' if changed else 'Nothing to change'}: {wanted.name}, gsiftp://{wanted.host}:{wanted.port}"
        if changed and runs_in_foreground(box.folder):
            yield "End `box run`, and start it again: the servers have read what was there before"
        yield from _what_now(settings.load(options.folder) or wanted, box, authority, published(record))


def _check(options: argparse.Namespace, before: BoxSettings | None, wanted: BoxSettings) -> Waybill:
    """Check all that can be checked before anything is changed."""
    if before:
        _check_unchanged(before, wanted)
    if wanted.systemd and os.geteuid() != 0:
        raise BoxError("this changes the machine: run it with sudo")
    if wanted.systemd and not services.has_systemd():
        raise BoxError("systemd does not run this machine: say --no-systemd, and start the servers with `box run`")
    if options.token_file is None:
        raise BoxError("--token-file: a file with a token of the endpoint's owner, made by `waybill token NAME`")
    for name in options.user or []:
        account(name)
    service = Waybill(wanted.waybill, read_token(options.token_file))
    service.check()
    return service


def _check_unchanged(before: BoxSettings, wanted: BoxSettings) -> None:
    if before.endpoint_id and before.waybill.rstrip("/") != wanted.waybill.rstrip("/"):
        raise BoxError(f"--waybill: this box is registered at {before.waybill}: `box remove` first")
    if before.systemd != wanted.systemd:
        raise BoxError("with or without systemd is decided once: `box remove` first")


def account(name: str) -> pwd.struct_passwd:
    """An account that the endpoint can serve. Raises BoxError."""
    try:
        found = pwd.getpwnam(name)
    except KeyError:
        raise BoxError(f"there is no account {name!r} on this machine") from None
    if found.pw_uid == 0:
        raise BoxError(f"{name!r} has all rights on this machine: its files are not served")
    if os.geteuid() not in (0, found.pw_uid):
        raise BoxError(f"only root can serve others: {name!r} is not the account that runs this")
    if not re.fullmatch(r"[A-Za-z0-9_.@-]+", name):
        raise BoxError(f"{name!r}: such an account name does not fit into a certificate")
    return found


def _install(options: argparse.Namespace) -> None:
    missing = services.missing_programs()
    if not missing:
        return
    command = f"sudo {INSTALLER} --endpoint"
    if options.no_install or os.geteuid() != 0:
        raise BoxError(f"not installed: {', '.join(missing)}. To get them: {command}")
    if subprocess.run([INSTALLER, "--endpoint"], stdin=subprocess.DEVNULL).returncode or services.missing_programs():
        raise BoxError(f"the packages could not be installed (see above). To try it again: {command}")


@contextmanager
def opened(folder: Path, *, create: bool) -> Iterator[BoxRecord]:
    """The record of this box, locked. Raises BoxError."""
    record = BoxRecord(folder, create=create)
    try:
        yield record
    finally:
        record.close()


def _check_ports(box: Box, before: BoxSettings | None) -> None:
    for name, option, port in (
        (GRIDFTP, "--port", box.settings.port),
        (MYPROXY, "--myproxy-port", box.settings.myproxy_port),
    ):
        ours_before = before and port in (before.port, before.myproxy_port)
        if not (ours_before and is_running(box, name)):
            services.check_port(option, box.settings.address, port)


def is_running(box: Box, name: str) -> bool:
    """Whether our own server has the port."""
    if box.settings.systemd:
        return services.systemctl("is-active", "--quiet", f"{name}.service", check=False)
    return runs_in_foreground(box.folder)


def runs_in_foreground(folder: Path) -> bool:
    """Whether a `box run` of this folder is running."""
    try:
        with (folder / RUN_LOCK).open() as file:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except FileNotFoundError:
        return False
    except BlockingIOError:
        return True
    return False


def keep(record: BoxRecord, box: Box) -> None:
    record.file(box.folder / settings.NAME, box.settings.text())


def _make_files(record: BoxRecord, box: Box) -> Authority:
    owner = services.myproxy_owner()
    authority = box.authority(record)
    record.own(authority.ca_key, 0o600, owner)
    record.folder(box.host)
    make_host_certificates(record, box, authority)
    for folder in (box.private, box.private / "store"):
        record.folder(folder, 0o700, owner)
    for name in ("serial", "pid"):
        record.note(box.private / name)
    record.file(box.folder / RUN_LOCK, b"")
    if not box.gridmap.exists():
        record.file(box.gridmap, b"")
    record.file(box.folder / "gridftp.conf", box.gridftp_config())
    record.file(box.folder / "myproxy.conf", box.myproxy_config())
    _make_pam(record, box)
    return authority


def published(record: BoxRecord) -> str:
    """The names of the files that the operator of Waybill needs, also of those that a removal has begun with."""
    return " ".join(sorted(path.name for path in record.paths if path.parent == authority_certificates(record.root)))


def host_identities(box: Box) -> list[CertificateFiles]:
    """The host certificates of GridFTP and MyProxy: each runs as an account of its own."""
    return [CertificateFiles(box.host / f"{name}.pem", box.host / f"{name}.key") for name in ("gridftp", "myproxy")]


def make_host_certificates(
    record: BoxRecord, box: Box, authority: Authority, *, anew: bool = False
) -> list[CertificateFiles]:
    """Replace certificates that are missing, for another host, or expire soon; returns those that were created."""
    made = []
    for identity, owner in zip(host_identities(box), (None, services.myproxy_owner()), strict=True):
        name = identity.certificate.stem
        if anew or not serves(identity, box.settings.host, days=RENEW_DAYS):
            made.append(authority.issue_host([box.settings.host], to=box.host, stem=name))
            record.changed = True
        record.own(identity.key, 0o600, owner)
        record.own(identity.certificate, 0o644, owner)  # Globus accepts only files of its own account
    return made


def _make_pam(record: BoxRecord, box: Box) -> None:
    """Our own PAM service, unless the machine has one of this name: that one is used, and not changed."""
    if box.pam_file.exists() and not record.has(box.pam_file):
        return
    if os.geteuid() != 0:
        raise BoxError(f"there is no {box.pam_file}, and only root can make it: name another --pam-service")
    record.file(box.pam_file, services.PAM_TEXT)


def users(box: Box) -> dict[str, str]:
    """Subject -> account, as in the gridmap."""
    lines = box.gridmap.read_text().splitlines() if box.gridmap.exists() else []
    return {found["subject"]: found["account"] for line in lines if (found := _MAPPED.fullmatch(line))}


def add_users(record: BoxRecord, box: Box, names: Iterable[str]) -> None:
    mapped = users(box) | {box.settings.user_subject(name): account(name).pw_name for name in names}
    write_users(record, box, mapped)


def write_users(record: BoxRecord, box: Box, mapped: dict[str, str]) -> None:
    """Write the gridmap. Both servers read it at each login, so it is valid at once."""
    record.file(box.gridmap, "".join(f'"{subject}" {name}\n' for subject, name in mapped.items()))


# ---- systemd


def start(record: BoxRecord, box: Box) -> None:
    """Write, enable and start the units; restart them where anything has changed. Then check that they answer."""
    for name, text in box.units().items():
        record.file(services.UNITS / f"{name}.service", text)
        record.note(services.UNITS / "multi-user.target.wants" / f"{name}.service")
    units = [f"{name}.service" for name in box.units()]
    services.systemctl("daemon-reload")
    services.systemctl("enable", "--quiet", *units)
    services.systemctl("restart" if record.changed else "start", *units)
    wait_until_ready(box)


def wait_until_ready(box: Box) -> None:
    """Raises BoxError that names the server which does not answer, and its log."""
    until = time.monotonic() + READY_SECONDS
    while not all(box.listens().values()):
        if time.monotonic() > until:
            silent = [name for name, answers in box.listens().items() if not answers]
            raise BoxError(f"{' and '.join(silent)} did not start: see `journalctl -u {silent[0]}`")
        time.sleep(0.1)


# ---- the service


def _register(record: BoxRecord, box: Box, service: Waybill, before: BoxSettings | None) -> bool:
    """Register; returns whether the service had to change anything. `registering` is true until the id is written."""
    wanted = box.settings
    if not wanted.endpoint_id:
        keep(record, Box(box.folder, dataclasses.replace(wanted, registering=True)))
    try:
        endpoint_id, changed = service.register(wanted, before)
    except BoxError:
        sys.stderr.write("The servers are set up. Only the registration is missing: run the same command again.\n")
        raise
    keep(record, Box(box.folder, dataclasses.replace(wanted, endpoint_id=endpoint_id, registering=False)))
    return changed


def _what_now(wanted: BoxSettings, box: Box, authority: Authority, trusted: str) -> Iterator[str]:
    yield f"Registered at {wanted.waybill} as {wanted.endpoint_id}"
    yield f"Users activate it with their passwords here, by MyProxy {wanted.myproxy_server}"
    yield f"Users: {', '.join(users(box).values()) or 'none yet: box user add NAME'}"
    yield f"Firewall: let in TCP {wanted.port}, {wanted.myproxy_port} and {wanted.data_ports}"
    if not wanted.systemd:
        yield f"Start the servers: {Path(sys.argv[0])} run --folder {box.folder}"
    yield "The operator of Waybill copies these into the folder that WAYBILL_CERTIFICATES names:"
    yield f"  {box.certificates}: {trusted}"
    if not wanted.has_own_name:
        yield f"Older files there whose names begin with {' or '.join(authority.hashes())} are of another box of"
        yield "this host, from before each had a name of its own: delete them first if it was removed; if it is in use,"
        yield "remove one of the two and set it up again."
    yield authority.ca_certificate.read_text().strip()
