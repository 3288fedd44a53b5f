"""Which tests run in one process when pytest-xdist distributes them.

The marker `xdist_group` is of no use: with pytest 9.2 and pytest-xdist 3.8 it is ignored silently
(https://github.com/pytest-dev/pytest-xdist/issues/1386).
"""

from __future__ import annotations

from xdist.scheduler import LoadScopeScheduling

JOURNEYS = "tests/journeys"
#: Journeys that start an instance for each test.
EACH_WITH_AN_INSTANCE = {"test_make_up.py", "test_vault_key.py"}
#: Modules that start a server or an instance once for all of their tests, or that set up a network.
WITH_A_SERVER = {
    "test_box_activation.py",
    "test_connect_program.py",
    "test_browser_account.py",
    "test_credentials.py",
    "test_front_server.py",
    "test_long_answers_to_clients.py",
    "test_relay_fronts.py",
    "test_slow_clients.py",
    "test_streams_in_gunicorn.py",
    "test_tls.py",
    "test_wide_area_network.py",
    "test_wide_area_runs.py",
}


def unit_of(test: str) -> str:
    """The name of the unit that this test belongs to: itself, its module, or all journeys of the shared instance."""
    module = test.partition("::")[0]
    folder, _, name = module.rpartition("/")
    if name in WITH_A_SERVER:
        return module
    if folder == JOURNEYS and name not in EACH_WITH_AN_INSTANCE:
        return JOURNEYS
    return test


class UnitScheduling(LoadScopeScheduling):  # type: ignore[misc]
    """Hands out one unit after the other, the largest first."""

    def _split_scope(self, nodeid: str) -> str:
        return unit_of(nodeid)
