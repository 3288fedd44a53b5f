"""The commands `waybill oidc`: the keys that sign identity tokens."""

from __future__ import annotations

import argparse
import os
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TextIO

from deploy.stack.embedded import use_embedded_stack
from deploy.stack.errors import StackError
from deploy.stack.home import new_rsa_key, write_private
from deploy.stack.places import lock_of
from identity.provider import signing_key_file
from identity.provider.signing_key_file import SigningKey
from transferapi.config import Config, load_or_exit

from .base import Commands

#: Before a new key signs: longer than caches keep the published keys (1 h), and time to copy the file to other hosts.
DELAY = timedelta(hours=2)


def declare(commands: Commands) -> None:
    """Add the commands of this module to the parser."""
    keys = commands.group("oidc", "the keys that sign identity tokens")
    keys.add("status", run_status, "show the keys, and when each signs")
    rotate = keys.add("rotate", run_rotate, "add a new key, which signs in two hours, while everything runs")
    rotate.add_argument(
        "--leaked", action="store_true", help="the new key signs at once and the old ones are no longer published"
    )
    rotate.add_argument(
        "--to",
        metavar="FILE",
        help="leave the file of the keys as it is, and write the new content to another one, or with - to the output",
    )


def run_status(config: Config, arguments: argparse.Namespace) -> None:
    _say_all(signing_key_file.parse(_path().read_text(encoding="utf-8")), datetime.now(UTC), sys.stdout)


def run_rotate(config: Config, arguments: argparse.Namespace) -> None:
    """Processes read the file again when it changes. A host with a copy of the file needs the new one in two hours.

    The account of the service may read the keys of an installation with units, and root alone may replace them.
    """
    path, now = _path(), datetime.now(UTC)
    # Of two commands at once the second sees the key of the first.
    with lock_of(path.parent, f"another `waybill oidc rotate` is under way in {path.parent}"):
        try:
            keys = signing_key_file.parse(path.read_text(encoding="utf-8"))
            if arguments.leaked:
                keys = (SigningKey(new_rsa_key().strip(), now.replace(microsecond=0)),)
            else:
                keys = signing_key_file.rotated(keys, new_rsa_key().strip(), now, DELAY, _lifetime())
        except ValueError as error:
            raise StackError(f"{path}: {error}") from None
        _write(arguments.to or path, signing_key_file.text_of(keys))
    _say_all(keys, now, sys.stderr if arguments.to == "-" else sys.stdout)


def _write(target: Path | str, text: str) -> None:
    """target: "-" for the output. Raises StackError."""
    if target == "-":
        sys.stdout.write(text)
        return
    try:
        write_private(Path(target), text)
    except OSError as error:
        do = "`waybill oidc rotate --to -` prints the new content, which root can put there"
        raise StackError(f"{target} cannot be written ({error.strerror}): {do}") from None


def _say_all(keys: tuple[SigningKey, ...], now: datetime, out: TextIO) -> None:
    signer = signing_key_file.signer(keys, now)
    for key in keys:
        end = signing_key_file.withdrawn_at(keys, key, _lifetime())
        use = (
            "signs" if key is signer else f"signs from {key.begin:%Y-%m-%d %H:%M:%SZ}" if key.begin > now else "checks"
        )
        until = f", published until {end:%Y-%m-%d %H:%M:%SZ}" if end else ""
        out.write(f"  {_name(key)}  {use}{until}\n")


def _name(key: SigningKey) -> str:
    """The thumbprint (RFC 7638), by which tokens name the key."""
    from jwcrypto import jwk

    return str(jwk.JWK.from_pem(key.pem.encode()).thumbprint())


def _lifetime() -> timedelta:
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "transferapi.settings")
    from django.conf import settings

    return timedelta(seconds=int(settings.OAUTH2_PROVIDER["ID_TOKEN_EXPIRE_SECONDS"]))


def _path() -> Path:
    """Raises StackError when the key is in no file."""
    use_embedded_stack()
    path = load_or_exit().oidc_key_file
    if path is None:
        raise StackError("the key is in no file: give it by WAYBILL_OIDC_KEY_FILE in place of WAYBILL_OIDC_KEY")
    return path
