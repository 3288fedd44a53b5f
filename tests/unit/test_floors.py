"""The arrows between the rooms: an import may only point down, or sideways inside a room (see CONTRIBUTING)."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]

#: Room -> floor; the longest matching prefix counts. deploy, bench and tests stand outside the house.
FLOORS = {
    "webui": 5,
    "transferapi.rest": 4,
    "transferapi.shell": 4,
    "workers": 4,
    "transferapi.timers": 3,
    "transferapi.tasks": 3,
    "endpoints": 2,
    "identity": 1,
    "endpoints.gridftp": 0,
}
#: Django's project files lie in transferapi/ and wire the rooms together; only they may look anywhere.
WIRING = {
    "transferapi.settings",
    "transferapi.urls",
    "transferapi.wsgi",
    "transferapi.config",
    "transferapi.schema_version",
    "transferapi.mail_settings",
    "transferapi.limit_settings",
}
#: What the two rooms that live without Django may import besides the standard library and themselves.
LEAN = {
    "endpoints.gridftp": {"cryptography"},
    "workers.engine": {"endpoints.gridftp"},
}
SERVER_ALONE = "endpoints.gridftp.server"


def modules() -> Iterator[tuple[str, Path]]:
    for top in ("webui", "transferapi", "workers", "endpoints", "identity"):
        for path in sorted((ROOT / top).rglob("*.py")):
            if "migrations" not in path.parts:
                yield ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__"), path


def imports(name: str, path: Path) -> Iterator[str]:
    package = name.split(".") if path.name == "__init__.py" else name.split(".")[:-1]
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else []
            stem = ".".join([*base, *([node.module] if node.module else [])])
            yield stem
            yield from (f"{stem}.{alias.name}" for alias in node.names)


def room(name: str) -> str | None:
    found = [prefix for prefix in FLOORS if name == prefix or name.startswith(prefix + ".")]
    return max(found, key=len, default=None)


MODULES = dict(modules())


@pytest.mark.parametrize("name", MODULES)
def test_imports_point_down(name: str) -> None:
    here = room(name)
    if here is None:
        assert name in WIRING | {"transferapi"}, f"{name} is in no room"
        return
    for target in imports(name, MODULES[name]):
        there = room(target)
        if here == "transferapi.timers" and there == "transferapi.tasks":
            continue  # both are on one floor: timers submit tasks, and tasks know nothing of timers
        if there not in (None, here):
            assert FLOORS[there] < FLOORS[here], f"{name} ({here}) imports {target} ({there})"
        assert target.split(".")[0] not in ("deploy", "bench", "tests"), f"{name} imports {target}"


@pytest.mark.parametrize("name", [name for name in MODULES if any(name.startswith(lean) for lean in LEAN)])
def test_the_protocol_and_the_engine_live_without_django(name: str) -> None:
    here = next(lean for lean in LEAN if name.startswith(lean))
    for target in imports(name, MODULES[name]):
        top = target.split(".")[0]
        allowed = LEAN[here] if not name.startswith(SERVER_ALONE) else set()
        assert (
            top in sys.stdlib_module_names
            or target.startswith(here)
            or any(target == one or target.startswith(one + ".") for one in allowed)
        ), f"{name} imports {target}"


#: The pure part: bytes in, events out. No socket, no clock, no thread.
PURE = (
    *("replies", "commands", "control", "pair", "faults", "facts", "markers", "ranges", "mode_e"),
    *("der", "names", "x509", "signing_policy", "name_constraints", "certificate_path", "host_names"),
)


@pytest.mark.parametrize("stem", PURE)
def test_the_protocol_core_touches_no_socket_and_no_clock(stem: str) -> None:
    name = f"endpoints.gridftp.{stem}"
    banned = {"asyncio", "socket", "ssl", "time", "threading", "select", "os", "subprocess", "logging"}
    assert not banned & {target.split(".")[0] for target in imports(name, MODULES[name])}
