"""The second file of a backup: the keys of the vault and the other secrets, for a place apart from the database."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from deploy.stack.errors import StackError
from deploy.stack.home import Home, write_private
from identity.vault.keys import parse_keys
from transferapi.config import SECRETS, Config
from transferapi.config.secret_files import secret_text

from .archive import digest_of, new_file

FORMAT = "waybill keys 1"
MOST_OCTETS = 1 << 20
#: The name of a variable, which becomes that of a file (`write_files`).
_NAME = re.compile(r"[A-Z][A-Z0-9_]{0,63}")
#: The mode of a folder that its group may read and enter.
_ENTERED_BY_GROUP = 0o050
#: Secrets of the place, which another place has of its own.
_OF_THE_PLACE = frozenset({"DATABASE_URL", "REDIS_URL", "WAYBILL_DATABASE_PASSWORD", "WAYBILL_REDIS_PASSWORD"})


def write(path: Path, manifest: Mapping[str, Any]) -> list[str]:
    """Write the secrets that this service has, mode 0600; return their names. manifest: of the complete backup.

    The digest of the manifest is in the file: who can change the backup, and not this file, is found out.
    Raises StackError, OSError.
    """
    found = {name: text for name in sorted(set(SECRETS) - _OF_THE_PLACE) if (text := secret_text(os.environ, name))}
    with new_file(path) as file:
        document = {"format": FORMAT, "backup": str(manifest["id"]), "manifest": digest_of(manifest), "keys": found}
        file.write(json.dumps(document, indent=2).encode() + b"\n")
    return list(found)


def read(path: Path, manifest: Mapping[str, Any]) -> dict[str, str]:
    """The secrets by name. manifest: of the backup. Raises StackError where the file is of another one, OSError."""
    with path.open("rb") as file:
        octets = file.read(MOST_OCTETS + 1)
    try:
        document: Any = json.loads(octets)
        keys = {str(name): str(value) for name, value in document["keys"].items()}
        right = document["format"] == FORMAT and all(map(_NAME.fullmatch, keys))
        # An earlier version wrote no digest.
        of_this, digest = document["backup"] == str(manifest["id"]), document.get("manifest")
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        right = False
    if not right:
        raise StackError(f"{path} is no file of keys, or is damaged")
    if not of_this:
        raise StackError(f"{path} is of another backup: its keys may open nothing of this one")
    if digest not in (None, digest_of(manifest)):
        raise StackError(f"the backup was changed after {path} was written: take another copy of it")
    return keys


def write_files(keys: Mapping[str, str], folder: Path, *, replace: bool) -> dict[str, Path]:
    """Write each secret to a file of its own; return the files by the names of the secrets.

    The files are private. Where the group of the folder may enter it, the group may read them: those who run the
    service. Raises StackError where a file has another content and is not to be replaced, before any is written.
    """
    files = {name: folder / _file_name(name, text) for name, text in keys.items()}
    texts = {name: text.rstrip("\n") + "\n" for name, text in keys.items()}
    other = [str(file) for name, file in files.items() if file.exists() and file.read_text() != texts[name]]
    if other and not replace:
        raise StackError(
            f"{other[0]} exists with another content: with --replace it is overwritten; nothing is written"
        )
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    found = folder.stat()
    of_group = found.st_mode & _ENTERED_BY_GROUP == _ENTERED_BY_GROUP
    for name, file in files.items():
        write_private(file, texts[name])
        if of_group:
            os.chown(file, -1, found.st_gid)
            file.chmod(0o640)
    return files


def _file_name(name: str, text: str) -> str:
    """As the pages of the installation name the files: secret-key, vault-key, oidc-key.pem."""
    words = name.removeprefix("WAYBILL_").lower().replace("_", "-")
    return f"{words}.pem" if text.startswith("-----BEGIN ") else words


def before_the_database(config: Config, keys: dict[str, str]) -> None:
    """Add the keys of the vault to those of the home: whatever happens then, all keys are there. Raises StackError."""
    text = keys.get("WAYBILL_VAULT_KEY")
    if text is None or is_given("WAYBILL_VAULT_KEY", config):
        return
    file = Home(config.home).vault_key
    present = file.read_text() if file.exists() else ""
    known, merged = set(), []
    try:
        for word in (*_words(text), *_words(present)):
            if (name := parse_keys(word)[0].name) not in known:
                known.add(name)
                merged.append(word)
        parse_keys("\n".join(merged))
    except ValueError as error:
        raise StackError(f"the keys of the vault in the file and in {file} cannot be joined: {error}") from None
    write_private(file, "\n".join(merged) + "\n")


def after_the_database(config: Config, keys: dict[str, str]) -> list[str]:
    """Put the other keys into the home; return the names of those that the operator has to set."""
    home = Home(config.home)
    files = {"WAYBILL_SECRET_KEY": home.secret_key, "WAYBILL_OIDC_KEY": home.oidc_key}
    for name, file in files.items():
        if name in keys and not is_given(name, config):
            write_private(file, keys[name])
    in_place = {name for name in (*files, "WAYBILL_VAULT_KEY") if not is_given(name, config)}
    return [name for name in keys if name not in in_place and keys[name] != secret_text(os.environ, name)]


def is_given(name: str, config: Config) -> bool:
    """Whether the operator sets it: by a variable that is not a file of the home."""
    file = os.environ.get(f"{name}_FILE", "")
    return bool(os.environ.get(name)) or bool(file and Path(file).parent != config.home)


def _words(text: str) -> list[str]:
    lines = [line for line in text.splitlines() if not line.lstrip().startswith("#")]
    return [word for line in lines for word in line.replace(",", " ").split()]
