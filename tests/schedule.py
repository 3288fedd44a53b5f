"""Which tests run in one process when pytest-xdist distributes them, and in which order.

A unit is a module, so that its fixtures are made once, and so that little is said between the processes: 14,000 empty
tests take 50 s of processor with a unit for each of them, and 20 s in units of 60. The longest units come first, so
that all processes end at about the same time.

The marker `xdist_group` is of no use: with pytest 9.2 and pytest-xdist 3.8 it is ignored silently
(https://github.com/pytest-dev/pytest-xdist/issues/1386).
"""

from __future__ import annotations

from xdist.scheduler import LoadScopeScheduling

JOURNEYS = "tests/journeys"
#: Journeys that start an instance for each test: a unit each.
EACH_WITH_AN_INSTANCE = {"test_make_up.py", "test_vault_key.py"}
#: Journeys that start an instance, or none, for the module.
WITH_ANOTHER_INSTANCE = {"test_box.py", "test_box_activation.py", "test_browser_account.py", "test_credentials.py"}
#: Journeys of programs and browsers. They and the others are two units, each with the shared instance of its process.
OF_CLIENTS = ("test_real_", "test_browser", "test_transfer_page")
CLIENTS = "tests/journeys of clients"
#: Seconds of a test, roughly, by folder.
SECONDS = {"tests/journeys": 4.0, "tests/faults": 1.0, "tests/conformance": 0.5, "tests/integration": 0.06}
SHORT = 0.02
#: Modules whose tests take far longer than their folder's do: seconds of a test.
LONG = {
    "test_make_up.py": 30.0,
    "test_vault_key.py": 30.0,
    "test_box_activation.py": 30.0,
    "test_credentials.py": 10.0,
    "test_browser_account.py": 10.0,
    "test_connect_program.py": 5.0,
    "test_engine_run.py": 0.4,
    "test_engine_faults.py": 1.0,
    "test_files_and_slow_clients.py": 4.0,
    "test_front_server.py": 2.0,
    "test_leases.py": 2.0,
    "test_long_answers_to_clients.py": 2.0,
    "test_paused_tasks.py": 0.6,
    "test_relay_fronts.py": 3.0,
    "test_rest_schemathesis.py": 0.2,
    "test_rounds.py": 6.0,
    "test_schema_version.py": 3.0,
    "test_search_scopes.py": 1.0,
    "test_slow_clients.py": 0.8,
    "test_streams_in_gunicorn.py": 3.0,
    "test_vault_rotation.py": 3.0,
    "test_wide_area_network.py": 5.0,
    "test_wide_area_runs.py": 10.0,
    "test_work.py": 0.3,
}


def unit_of(test: str) -> str:
    """The name of the unit that this test belongs to: its module, journeys with one instance, or itself."""
    module = test.partition("::")[0]
    folder, _, name = module.rpartition("/")
    if folder != JOURNEYS or name in WITH_ANOTHER_INSTANCE:
        return module
    if name in EACH_WITH_AN_INSTANCE:
        return test
    return CLIENTS if name.startswith(OF_CLIENTS) else JOURNEYS


def seconds_of(unit: str, tests: int) -> float:
    """How long a unit of so many tests takes, roughly."""
    module = unit.partition("::")[0]
    folder, _, name = module.rpartition("/")
    each = LONG.get(name) or SECONDS.get(folder, SHORT)
    return tests * (SECONDS[JOURNEYS] if unit in (JOURNEYS, CLIENTS) else each)


class UnitScheduling(LoadScopeScheduling):  # type: ignore[misc]
    """Hands out one unit after the other, the longest first."""

    def _split_scope(self, nodeid: str) -> str:
        return unit_of(nodeid)

    def _assign_work_unit(self, node: object) -> None:
        longest = max(self.workqueue, key=lambda unit: seconds_of(unit, len(self.workqueue[unit])))
        self.workqueue.move_to_end(longest, last=False)
        super()._assign_work_unit(node)
