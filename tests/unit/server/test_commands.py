"""Structure of the server: a command is one file, and imports have no circle."""

from __future__ import annotations

import ast
import shutil
import subprocess
import sys
from graphlib import TopologicalSorter
from pathlib import Path

from docs.draw.imports import imports, modules
from transferapi.config import CHECKOUT

MODULES = modules()

SERVER = "endpoints.gridftp.server"
SERVER_MODULES = [name for name in MODULES if name == SERVER or name.startswith(SERVER + ".")]

NEW_COMMAND = """
from endpoints.gridftp.server.errors import CommandRefusedError
from endpoints.gridftp.server.session import ServerSession

from .table import command, site


@command("XECHO", before_login=True, feature="XECHO")
def echo(session: ServerSession, argument: bytes) -> None:
    if not argument:
        raise CommandRefusedError(501, "Nothing to repeat.")
    session.reply(200, argument.decode())


@site("PING", feature="SITE PING")
def ping(session: ServerSession, _: bytes) -> None:
    session.reply(250, "OK.")
"""
CLIENT = """
import socket, sys
from endpoints.gridftp.server import GridFtpServer

with GridFtpServer(sys.argv[1]) as server, socket.create_connection((server.host, server.port)) as client:
    for line in ("XECHO hello", "XECHO", "USER ftp", "PASS x", "SITE PING", "HELP", "FEAT", "QUIT"):
        client.sendall(line.encode() + b"\\r\\n")
    with client.makefile("rb") as replies:
        sys.stdout.write(replies.read().decode())
"""


def test_a_new_command_is_one_new_file(tmp_path: Path) -> None:
    """In a copy of the package, run by the standard library alone."""
    for package in ("endpoints/gridftp", "identity/gsi"):
        shutil.copytree(CHECKOUT / package, tmp_path / package)
    (tmp_path / SERVER.replace(".", "/") / "commands" / "echo.py").write_text(NEW_COMMAND)
    served = tmp_path / "served"
    served.mkdir()
    done = subprocess.run(
        [sys.executable, "-S", "-c", CLIENT, str(served)], cwd=tmp_path, capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert lines[1:3] == ["200 hello", "501 Nothing to repeat."]
    assert "250 OK." in lines
    help_, features = done.stdout.split("211-")
    assert " XECHO\n" in help_
    assert " XECHO\n" in features
    assert " SITE PING\n" in features


def test_the_servers_modules_import_in_no_circle() -> None:
    """The package itself is no target: each of its modules comes after it anyhow."""
    graph = {name: set(imports(name)) & set(SERVER_MODULES) - {name, SERVER} for name in SERVER_MODULES}
    # The modules of `commands` are loaded by its `__init__`, by their names: an arrow that is in no import statement.
    commands = f"{SERVER}.commands"
    graph[commands] |= {name for name in SERVER_MODULES if name.startswith(commands + ".")}
    for name in graph[commands]:
        graph[name] -= {commands}
    assert list(TopologicalSorter(graph).static_order())


def test_the_server_imports_at_the_top_of_a_module_only() -> None:
    assert [one for name in SERVER_MODULES for one in _inner_imports(name)] == []


def _inner_imports(name: str) -> list[str]:
    return [
        f"{name}, line {inner.lineno}"
        for node in ast.walk(ast.parse(MODULES[name].read_text()))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.If)
        for inner in ast.walk(node)
        if isinstance(inner, ast.Import | ast.ImportFrom)
    ]
