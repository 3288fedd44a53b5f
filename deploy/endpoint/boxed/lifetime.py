"""Commands of a box after its setup: its status, its users, its certificates, and its removal."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from pathlib import Path

from deploy.endpoint.authority import expiry_of, serves
from deploy.endpoint.boxed.errors import BoxError

from . import services, settings
from .record import BoxRecord
from .services import box_of
from .settings import BoxSettings
from .setup import (
    RENEW_DAYS,
    add_users,
    host_identities,
    is_running,
    make_host_certificates,
    opened,
    published,
    runs_in_foreground,
    start,
    users,
    write_users,
)
from .waybill import Waybill, read_token

#: A revocation list is valid longer than the host certificates that it may name: an expired list would lock users out.
REVOCATION_DAYS = 900


def status(options: argparse.Namespace) -> Iterator[str]:
    """Raises BoxError at the end if anything has failed."""
    box = box_of(options.folder)
    known, wrong = box.settings, []
    yield f"{known.name}: gsiftp://{known.host}:{known.port}, MyProxy {known.myproxy_server}"
    for name, answers in box.listens().items():
        runs = answers and is_running(box, name)
        yield f"{name}: {'runs and answers' if runs else 'DOES NOT RUN'}"
        wrong += [] if runs else [f"{name} does not run"]
    for identity in host_identities(box):
        if serves(identity, known.host, days=RENEW_DAYS // 2):
            yield f"{identity.certificate}: until {expiry_of(identity.certificate)}"
        else:
            wrong.append(f"{identity.certificate} is missing, not for this host, or ends soon: `box renew`")
    yield f"users: {', '.join(users(box).values()) or 'none'}"
    if known.endpoint_id:
        yield f"registered at {known.waybill} as {known.endpoint_id}"
    else:
        wrong.append("it is not registered: run `box setup` again")
    if wrong:
        raise BoxError("; ".join(wrong))


def user(options: argparse.Namespace) -> Iterator[str]:
    box = box_of(options.folder)
    if options.action != "list":
        if not options.names:
            raise BoxError(f"user {options.action}: which accounts?")
        with opened(options.folder, create=False) as record:
            if options.action == "add":
                add_users(record, box, options.names)
            else:
                gone = {box.settings.user_subject(name) for name in options.names}
                write_users(record, box, {one: name for one, name in users(box).items() if one not in gone})
    for subject, name in users(box).items():
        yield f"{name}: {subject}"


def renew(options: argparse.Namespace) -> Iterator[str]:
    """Renew host certificates that expire soon (or were stolen), and publish a fresh revocation list."""
    box = box_of(options.folder)
    with opened(options.folder, create=False) as record:
        authority = box.authority(record)
        if options.revoke:
            authority.revoke(host_identities(box), days=REVOCATION_DAYS)
        elif any(box.certificates.glob("*.r0")):
            authority.revoke(days=REVOCATION_DAYS)
        made = make_host_certificates(record, box, authority, anew=options.revoke)
        if made and box.settings.systemd:
            start(record, box)
        yield f"{len(made)} host certificates made anew" if made else "the host certificates are valid for long enough"
        if lists := sorted(path.name for path in box.certificates.glob("*.r0")):
            yield f"The operator of Waybill must have these as well: {box.certificates}: {' '.join(lists)}"
        if made and runs_in_foreground(box.folder):
            yield "Start `box run` again: MyProxy has read the old certificate"


def remove(options: argparse.Namespace) -> Iterator[str]:
    """Unregister, stop, and remove all that is on the list. Users' files and packages stay."""
    folder: Path = options.folder
    if not folder.exists():
        yield f"Nothing is set up in {folder}"
        return
    if not any(folder.iterdir()):
        folder.rmdir()
        yield f"Nothing was set up in {folder}"
        return
    with opened(folder, create=False) as record:
        if runs_in_foreground(folder):
            raise BoxError("`box run` is running: end it first")
        known = settings.load(folder)
        if known and (line := _unregister(options, known)):
            yield line
        trusted = published(record)
        left = _remove_listed(record)
    for path in left:
        yield f"left, for there are other things in it: {path}"
    if trusted:
        yield "The operator of Waybill deletes these from the folder that WAYBILL_CERTIFICATES names:"
        yield f"  {trusted}"
    yield "Removed. The packages are still installed, and no file of a user was touched."


def _remove_listed(record: BoxRecord) -> Sequence[Path]:
    """Stop the services, and remove all that is on the list; return the folders that have other content."""
    units = [f"{path.stem}.service" for path in record.paths if path.parent == services.UNITS]
    by_systemd = bool(units) and services.has_systemd()
    if by_systemd:
        services.systemctl("disable", "--now", "--quiet", *units, check=False)
    left = record.remove_all()
    if by_systemd:
        services.systemctl("daemon-reload")
    return left


def _unregister(options: argparse.Namespace, known: BoxSettings) -> str:
    if options.keep_registered or not (known.endpoint_id or known.registering):
        return ""
    if options.token_file is None:
        raise BoxError("--token-file: to unregister the endpoint (or --keep-registered, to leave it there)")
    service = Waybill(known.waybill, read_token(options.token_file))
    endpoint_id = known.endpoint_id or service.own(known)
    if not endpoint_id or not service.unregister(endpoint_id):
        return f"It was not registered at {known.waybill} any more"
    return f"Unregistered at {known.waybill}"
