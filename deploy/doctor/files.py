"""The files with secrets: who may read and change them."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from pathlib import Path

from deploy.stack.home import Home
from identity.vault.watched_file import is_given
from transferapi.config import SECRETS, Config
from transferapi.shell.server import host_key

from .findings import Finding, error, good


def check(config: Config) -> Iterator[Finding]:
    looked = list(dict.fromkeys(_files(config)))
    found = [one for file in looked for one in openings(file)]
    yield from found or [good(f"{len(looked)} files with secrets are closed to others")]


def _files(config: Config) -> Iterator[Path]:
    """Those that exist: files that variables name, the key of TLS, and those of the home."""
    home = Home(config.home)
    named = [Path(text) for name in SECRETS if (text := os.environ.get(f"{name}_FILE"))]
    own = [
        home.secret_key, home.vault_key, home.oidc_key, home.password, home.token, home.client, home.curl, home.ssh_key,
        config.home / host_key.FILE,
    ]  # fmt: skip
    for file in (*named, config.tls_key, *own):
        try:
            if file is not None and file.exists():
                yield file
        except OSError:
            continue  # in a folder that is closed to this account, and so to others


def openings(file: Path) -> Iterator[Finding]:
    """The group may read: containers give files of secrets so. Links are followed: Kubernetes mounts secrets so.

    Compose mounts files of the host as they are. There, their folder decides who reads them, and here nobody else is.
    """
    try:
        about, folder = file.stat(), file.resolve().parent.stat()
    except OSError as failure:
        yield error(f"{file} cannot be looked at: {failure.strerror}.", "Correct its permissions.")
        return
    if is_given(file):
        return
    if about.st_mode & (stat.S_IRWXO | stat.S_IWGRP):
        mode = stat.S_IMODE(about.st_mode)
        yield error(f"{file} holds a secret and has mode {mode:o}.", f"chmod 600 {file}; replace the secret.")
    if about.st_uid not in (0, os.geteuid()):
        yield error(f"{file} belongs to another account ({about.st_uid}).", f"chown {os.geteuid()} {file}")
    if folder.st_mode & stat.S_IWOTH and not folder.st_mode & stat.S_ISVTX:
        yield error(f"Every account can replace {file}: its folder is open.", f"chmod 700 {file.resolve().parent}")
