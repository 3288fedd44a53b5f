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
EACH_WITH_AN_INSTANCE = {"test_make_up.py", "test_vault_key.py", "test_backup.py"}
#: Journeys that start an instance, or none, for the module.
WITH_ANOTHER_INSTANCE = {
    "box/test_activation.py",
    "box/test_box.py",
    "browser/test_account.py",
    "browser/test_people.py",
    "browser/test_providers.py",
    "browser/test_sign_in.py",
    "test_credentials.py",
    "test_nat.py",
    "test_traces.py",
}
#: Journeys of programs and browsers. They and the others are two units, each with the shared instance of its process.
OF_CLIENTS = ("browser/", "clients/")
CLIENTS = "tests/journeys of clients"
#: Seconds of a test, roughly, by folder.
SECONDS = {"tests/journeys": 4.0, "tests/faults": 0.4, "tests/conformance": 0.25, "tests/integration": 0.06}
SHORT = 0.02
#: Modules whose tests take far more or less time than their folder's do: seconds of a test.
LONG = {
    "tests/conformance/gridftp/test_striped_servers.py": 1.0,
    "tests/conformance/gsi/test_revocation.py": 1.2,
    "tests/conformance/rest/test_activation.py": 1.0,
    "tests/conformance/server/test_dialogue.py": 0.05,
    "tests/conformance/server/test_files.py": 0.05,
    "tests/conformance/server/test_transfers.py": 0.05,
    "tests/conformance/ssh/test_accounts.py": 0.7,
    "tests/conformance/ssh/test_endpoints.py": 1.2,
    "tests/conformance/ssh/test_tasks.py": 3.5,
    "tests/conformance/tasks/test_agents.py": 1.5,
    "tests/conformance/tasks/test_sftp.py": 3.0,
    "tests/conformance/tasks/test_shares.py": 0.7,
    "tests/conformance/tasks/test_troubled_agents.py": 3.0,
    "tests/faults/test_data_faults.py": 3.0,
    "tests/faults/test_engine_faults.py": 3.0,
    "tests/integration/bench/test_wide_area_network.py": 5.0,
    "tests/integration/bench/test_wide_area_runs.py": 10.0,
    "tests/integration/deploy/test_backup.py": 7.0,
    "tests/integration/deploy/test_external_servers.py": 6.0,
    "tests/integration/deploy/test_maintenance.py": 2.0,
    "tests/integration/deploy/test_roles.py": 4.0,
    "tests/integration/deploy/test_schema_version.py": 3.0,
    "tests/integration/deploy/test_upgrade.py": 60.0,
    "tests/integration/identity/test_vault_rotation.py": 3.0,
    "tests/integration/relay/test_connect_program.py": 4.0,
    "tests/integration/relay/test_fronts.py": 3.0,
    "tests/integration/rest/push/test_events_server.py": 3.0,
    "tests/integration/rest/test_access.py": 0.03,
    "tests/integration/rest/test_schemathesis.py": 0.2,
    "tests/integration/rest/transfer/test_search_scopes.py": 0.6,
    "tests/integration/tasks/test_paused_tasks.py": 0.6,
    "tests/integration/web/test_files_and_slow_clients.py": 4.0,
    "tests/integration/web/test_front_server.py": 2.0,
    "tests/integration/web/test_long_answers_to_clients.py": 2.0,
    "tests/integration/web/test_slow_clients.py": 0.8,
    "tests/integration/worker/test_leases.py": 0.7,
    "tests/integration/worker/test_rounds.py": 6.0,
    "tests/integration/worker/test_work.py": 0.15,
    "tests/journeys/box/test_activation.py": 30.0,
    "tests/journeys/browser/test_account.py": 10.0,
    "tests/journeys/browser/test_providers.py": 25.0,
    "tests/journeys/browser/test_sign_in.py": 60.0,
    "tests/journeys/test_credentials.py": 10.0,
    "tests/journeys/test_make_up.py": 25.0,
    "tests/journeys/test_nat.py": 12.0,
    "tests/journeys/test_vault_key.py": 40.0,
    "tests/unit/engine/test_faults.py": 0.4,
    "tests/unit/engine/test_slice.py": 0.4,
}


def unit_of(test: str) -> str:
    """The name of the unit that this test belongs to: its module, journeys with one instance, or itself."""
    module = test.partition("::")[0]
    name = module.removeprefix(f"{JOURNEYS}/")
    if name == module or name in WITH_ANOTHER_INSTANCE:
        return module
    if name in EACH_WITH_AN_INSTANCE:
        return test
    return CLIENTS if name.startswith(OF_CLIENTS) else JOURNEYS


def seconds_of(unit: str, tests: int) -> float:
    """How long a unit of so many tests takes, roughly."""
    module = unit.partition("::")[0]
    folder = "/".join(module.split("/")[:2])
    each = LONG.get(module) or SECONDS.get(folder, SHORT)
    return tests * (SECONDS[JOURNEYS] if unit in (JOURNEYS, CLIENTS) else each)


class UnitScheduling(LoadScopeScheduling):  # type: ignore[misc]
    """Hands out one unit after the other, the longest first."""

    def _split_scope(self, nodeid: str) -> str:
        return unit_of(nodeid)

    def _assign_work_unit(self, node: object) -> None:
        longest = max(self.workqueue, key=lambda unit: seconds_of(unit, len(self.workqueue[unit])))
        self.workqueue.move_to_end(longest, last=False)
        super()._assign_work_unit(node)
