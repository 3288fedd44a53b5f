"""Our server as one blob: the sources of `endpoints.gridftp.agent.ssh_account` and of all it imports, compressed.

It is sent to hosts on which nothing is installed, and run there from memory (`bootstrap`). The blob is the same for the
same sources, so that its SHA-256 names it.
"""

from __future__ import annotations

import ast
import functools
import hashlib
import json
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import endpoints

#: The folder in which our packages lie.
_TOP = Path(endpoints.__file__).parent.parent
#: The module that is started, and the package of the server's commands, which it finds by their files.
MODULE = "endpoints.gridftp.agent.ssh_account"
_COMMANDS = "endpoints/gridftp/server/commands"


class ServerBlob(NamedTuple):
    """blob: zlib of a JSON object {path: source}. digest: its SHA-256, hexadecimal."""

    blob: bytes
    digest: str


@functools.cache
def program() -> ServerBlob:
    """The program of this version of the service."""
    sources = {path: source(path) for path in sorted(closure())}
    blob = zlib.compress(json.dumps(sources, sort_keys=True).encode(), 9)
    return ServerBlob(blob, hashlib.sha256(blob).hexdigest())


def closure(*packages: str) -> set[str]:
    """The paths of the modules of packages, of those that they import, and of the packages around.

    packages: none: `MODULE` alone, and the commands.
    """
    found: set[str] = set()
    folders = [_TOP / package for package in packages or (_COMMANDS,)]
    waiting = [str(path.relative_to(_TOP)) for folder in folders for path in folder.rglob("*.py")]
    waiting += [] if packages else _files(MODULE)
    while waiting:
        path = waiting.pop()
        if path not in found:
            found.add(path)
            waiting += _around(path)
            waiting += [other for name in _imported(path) for other in _files(name)]
    return found


def source(path: str) -> str:
    """The text of one of these."""
    return (_TOP / path).read_text("utf-8")


def _around(path: str) -> Iterator[str]:
    for folder in Path(path).parents:
        if folder.parts and (_TOP / folder / "__init__.py").exists():
            yield f"{folder}/__init__.py"


def _imported(path: str) -> Iterator[str]:
    """The dotted names that a module may import; those of attributes are among them."""
    package = Path(path).parent.parts
    for node in ast.walk(ast.parse(source(path))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else ()
            full = ".".join([*base, *([node.module] if node.module else [])])
            yield full
            yield from (f"{full}.{alias.name}" for alias in node.names)


def _files(name: str) -> Iterator[str]:
    """The file of our module with this name, if it is one of ours."""
    path = name.replace(".", "/")
    for candidate in (f"{path}.py", f"{path}/__init__.py"):
        if (_TOP / candidate).is_file():
            yield candidate
