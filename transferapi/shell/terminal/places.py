"""Names of endpoints and paths, for completion, from the services; kept for a few seconds, and waited for a few."""

from __future__ import annotations

import logging
import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from urllib.parse import quote

from endpoints import bookmarks, operations, registry
from endpoints.registry import SearchScope
from identity.models import User
from transferapi.shell import names
from transferapi.shell.context import Caller
from transferapi.tasks import queries
from transferapi.tasks.queries import TaskFilter

log = logging.getLogger(__name__)

#: Seconds that an answer is kept, and that a key waits for it.
KEPT, ANSWER_SECONDS = 5.0, 3.0
_MOST_ENDPOINTS = 200
_MOST_ENTRIES = 2000
_MOST_TASKS = 20
_MOST_ANSWERS = 8

#: A name, and whether it is a folder.
Entry = tuple[str, bool]


class KnownPlaces:
    """The places that one user knows. No method raises an error of a service: the command itself reports it."""

    def __init__(self, caller: Caller) -> None:
        self._caller = caller
        self._answers: OrderedDict[str, tuple[float, list[Entry]]] = OrderedDict()
        #: At most one question is on its way, also where an endpoint does not answer.
        self._asking = threading.Lock()

    def endpoints(self) -> list[str]:
        """The user's own endpoints, those of their recent tasks, and their bookmarks."""
        return [name for name, _ in self._ask("endpoints", _endpoints)]

    def tasks(self) -> list[str]:
        return [name for name, _ in self._ask("tasks", _tasks)]

    def folder(self, place: str) -> list[Entry]:
        """The entries of a folder, as the user has written it."""
        return self._ask(f"folder {place}", lambda user: _folder(user, place))

    def _ask(self, key: str, question: Callable[[User], list[Entry]]) -> list[Entry]:
        known = self._answers.get(key)
        if known is not None and time.monotonic() - known[0] < KEPT:
            return known[1]
        if not self._asking.acquire(blocking=False):
            return []
        answered = threading.Event()

        def ask() -> None:
            try:
                self._keep(key, self._caller.call(question, self._caller.user))
            except Exception as error:
                log.debug("no completion: %s", type(error).__name__)
            finally:
                self._asking.release()
                answered.set()

        threading.Thread(target=ask, name="completion", daemon=True).start()
        answered.wait(ANSWER_SECONDS)
        found = self._answers.get(key)
        return found[1] if found is not None else []

    def _keep(self, key: str, entries: list[Entry]) -> None:
        self._answers[key] = (time.monotonic(), entries)
        self._answers.move_to_end(key)
        while len(self._answers) > _MOST_ANSWERS:
            self._answers.popitem(last=False)


def _endpoints(user: User) -> list[Entry]:
    own, _ = registry.search(user, scope=SearchScope.MINE, limit=_MOST_ENDPOINTS)
    among = queries.endpoints_of(user, unfinished=False)
    recent, _ = registry.search(user, scope=SearchScope.RECENTLY_USED, among=among, limit=_MOST_ENDPOINTS)
    found = [one.name for one in own]
    found += [registry.canonical_name(one) for one in [*own, *recent]]
    found += [f"^{quote(one.name, safe=' ')}" for one in bookmarks.all_of(user)]
    return [(name, False) for name in found]


def _tasks(user: User) -> list[Entry]:
    page = queries.list_tasks(user, TaskFilter(), limit=_MOST_TASKS)
    return [(str(task.pk), False) for task in page.rows]


def _folder(user: User, place: str) -> list[Entry]:
    found = names.location(user, place, bare=True)
    listing = operations.list_directory(user, found.endpoint, found.path, limit=_MOST_ENTRIES)
    return [(one.name, one.is_directory) for one in listing.entries if one.name.isprintable()]


def parts(text: str) -> tuple[str, str] | None:
    """The folder with its endpoint, and the beginning of a name in it; None: the endpoint's name is not complete."""
    endpoint, path = names.parted(text)
    if not path:
        return None
    behind = max(0, path.rfind("/")) + 1
    return endpoint + path[:behind], path[behind:]
