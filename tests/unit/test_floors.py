"""The arrows between the rooms: an import may only point down, or sideways inside a room (see CONTRIBUTING)."""

from __future__ import annotations

import subprocess
import sys

import pytest

from docs.draw.imports import (
    FLOORS,
    ROOT,
    TOPS,
    WIRING,
    collapse,
    cycles,
    folder_in,
    imports,
    module_graph,
    modules,
    packages,
    room,
)

#: Imports that the rooms without Django may have besides the standard library and themselves.
LEAN = {
    "identity.gsi": {"cryptography"},
    "endpoints.gridftp": {"cryptography", "identity.gsi"},
    "workers.engine": {
        *("endpoints.gridftp", "identity.gsi.printable", "identity.gsi.sentences"),
        *("transferapi.tasks.records", "transferapi.tasks.errors"),
    },
}
#: These run on a bare Python, where nothing is installed.
STANDARD_ALONE = ("endpoints.gridftp.server", "endpoints.gridftp.agent")
#: They may import these, which run there, too (tests/unit/server/test_pythons.py).
BARE = {"identity.gsi.name_spelling", "identity.gsi.signing_policy"}


#: These two collect what all APIs declare: the schemas of the documents, and the routes below one prefix.
COLLECTORS = {"transferapi.rest.openapi.components", "transferapi.rest.transfer.urls"}

MODULES = modules()


def test_every_module_is_in_a_room() -> None:
    assert {name for name in MODULES if room(name) is None} <= WIRING | {"transferapi"}


def test_imports_point_down() -> None:
    rooms = {name: here for name in MODULES if (here := room(name)) is not None}
    upward = [
        f"{name} imports {target}"
        for name, here in rooms.items()
        for target in imports(name)
        if _is_upward(here, target)
    ]
    assert upward == []


def _is_upward(here: str, target: str) -> bool:
    """Whether a module of this room must not import this one."""
    there = room(target)
    if here == "transferapi.timers" and there == "transferapi.tasks":
        return False  # both are on one floor: timers submit tasks, and tasks know nothing of timers
    if target.split(".")[0] in ("deploy", "bench", "docs", "tests"):
        return True
    return there not in (None, here) and FLOORS[there] >= FLOORS[here]


def test_the_protocol_and_the_engine_live_without_django() -> None:
    lean = [(name, here) for name in MODULES if (here := next(filter(name.startswith, LEAN), None))]
    assert lean
    found = [
        f"{name} imports {target}" for name, here in lean for target in imports(name) if _is_more(name, here, target)
    ]
    assert found == []


def _is_more(name: str, here: str, target: str) -> bool:
    """Whether this import of a module needs more than its room may have."""
    allowed = LEAN[here] if not name.startswith(STANDARD_ALONE) else BARE
    ours = target.startswith(here) or any(target == one or target.startswith(one + ".") for one in allowed)
    return not ours and target.split(".")[0] not in sys.stdlib_module_names


def test_what_the_engine_shares_with_the_tasks_loads_no_django() -> None:
    shared = [name for name in LEAN["workers.engine"] if name.startswith("transferapi.")]
    script = f"import sys, {', '.join(shared)}; sys.exit('django' in sys.modules)"
    subprocess.run([sys.executable, "-c", script], cwd=ROOT, check=True)


#: The pure part: bytes in, events out. No socket, no clock, no thread.
PURE = (
    *(
        f"endpoints.gridftp.{stem}"
        for stem in ("replies", "commands", "control", "faults", "facts", "features", "markers", "ranges")
    ),
    "endpoints.gridftp.server.data.mode_e",
    *(
        f"endpoints.gridftp.third_party.{stem}"
        for stem in ("pair", "pair_states", "listening_source", "listening_states", "slots", "steps", "outcomes")
    ),
    *(f"identity.gsi.{stem}" for stem in ("der", "distinguished_names", "x509", "signing_policy")),
    *("identity.gsi.certificate_path", "identity.gsi.host_check", "identity.gsi.name_parsing"),
)


def test_the_protocol_core_touches_no_socket_and_no_clock() -> None:
    banned = {"asyncio", "socket", "ssl", "time", "threading", "select", "os", "subprocess", "logging"}
    found = [(name, target) for name in PURE for target in imports(name) if target.split(".")[0] in banned]
    assert found == []


@pytest.mark.parametrize("tops", [TOPS, ("deploy",), ("bench",)], ids="-".join)
def test_no_modules_import_each_other_in_a_circle(tops: tuple[str, ...]) -> None:
    assert cycles(module_graph(tops)) == []


def test_the_folders_of_a_room_have_an_order() -> None:
    """Two folders beside each other do not import from each other, also not by way of a third one."""
    graph = {name: targets for name, targets in module_graph().items() if name not in COLLECTORS}
    circles = {parent: cycles(collapse(graph, folder_in(parent))) for parent in packages()}
    assert {parent: found for parent, found in circles.items() if found} == {}


#: Folder -> folders that it never imports from.
NEVER = {
    "identity.gsi": ["identity", "endpoints", "transferapi", "workers", "webui"],
    "identity.issuers": ["identity.vault", "identity.provider", "identity.groups"],
    "identity.vault": ["identity.provider", "identity.groups"],
    "endpoints.addresses": ["endpoints"],
    "endpoints.gridftp.third_party": ["endpoints.gridftp.server"],
    "endpoints.gridftp.server.data": ["endpoints.gridftp.server.commands"],
    "transferapi.rest.http": [
        *(f"transferapi.rest.{folder}" for folder in ("auth", "openapi", "push", "scim", "transfer")),
        *(
            f"transferapi.rest.{api}_{part}"
            for api in ("admin", "connect", "group", "timer")
            for part in ("views", "documents")
        ),
    ],
    "transferapi.tasks.forecast": ["transferapi.tasks.worker", "transferapi.tasks.notify"],
    "workers.engine.tuning": [f"workers.engine.{folder}" for folder in ("delete", "lanes", "queue", "scan", "settle")],
    "workers.engine.settle": [f"workers.engine.{folder}" for folder in ("delete", "lanes", "queue", "scan")],
    "workers.engine.queue": [f"workers.engine.{folder}" for folder in ("delete", "lanes", "scan", "settle")],
    "workers.engine.scan": ["workers.engine.delete", "workers.engine.lanes"],
    "workers.engine.lanes": ["workers.engine.delete"],
    "workers.engine.delete": ["workers.engine.lanes"],
}


@pytest.mark.parametrize("folder", NEVER)
def test_arrows_between_folders_are_one_way(folder: str) -> None:
    def inside(name: str, place: str) -> bool:
        return name == place or name.startswith(place + ".")

    assert folder in packages()
    inner = {name: targets for name, targets in module_graph().items() if inside(name, folder)}
    outside = {target for targets in inner.values() for target in targets if not inside(target, folder)}
    assert [target for target in sorted(outside) if any(inside(target, banned) for banned in NEVER[folder])] == []


def test_the_engine_is_used_through_its_slice() -> None:
    """The folders of the engine do not import the slice, which puts them together."""
    graph = module_graph()
    assert [name for name in graph if "workers.engine.slice" in graph[name] and name.startswith("workers.engine")] == []
