"""Complete the word at the cursor: commands, options, endpoints, paths and tasks.

Names of endpoints and paths come from the services, are kept for a few seconds, and waited for a few. A session whose
key does not permit `ls`, `endpoint-list` or `status` gets no names by completion that these would list.
"""

from __future__ import annotations

import logging
import re
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from urllib.parse import quote

from endpoints import bookmarks, operations, registry
from endpoints.registry import SearchScope
from identity.models import User
from transferapi.shell import names
from transferapi.shell.command import COMMANDS, ShellCommand
from transferapi.shell.commands import load
from transferapi.shell.context import Caller
from transferapi.shell.errors import UsageError
from transferapi.shell.output import FORM, FORMS
from transferapi.shell.words import Word, escape, split
from transferapi.tasks import queries
from transferapi.tasks.queries import TaskFilter

from .editor import Completion

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


load()

#: Words of a usage line that stand for a path, an endpoint, a task.
_PATH = re.compile(r"\b(SOURCE|DESTINATION|SRC|DST)\b|(ENDPOINT|EP)[:/]")
_ENDPOINT = re.compile(r"\b(ENDPOINT|EP|OLD)\b")
_TASK = re.compile(r"\b(TASK|TASK_ID|ID)\b")
_PERCENT_DECODED = ("transfer", "delete", "acl-add", "acl-list", "acl-remove")
_ITEM = "transfer "
#: A character that stands in no line, behind the text: it shows whether the cursor is in a word.
_MARK = "\0"


@dataclass(frozen=True, slots=True)
class Candidate:
    """more: the name goes on (a folder), so that no blank follows."""

    text: str
    more: bool = False
    label: str = ""


class Completer:
    def __init__(self, caller: Caller) -> None:
        self._caller = caller
        self._places = KnownPlaces(caller)

    def complete(self, text: str) -> Completion | None:
        """text: the line up to the cursor."""
        found = _words(text)
        if found is None:
            return None
        before, word, mark = found
        fitting = {one.text: one for one in self._candidates(before, word.text) if one.text.startswith(word.text)}
        if not fitting:
            return None
        start = word.column - 1
        if len(fitting) == 1:
            [one] = fitting.values()
            ending = "" if one.more else (mark + " ")
            return Completion(start, mark + escape(one.text, mark) + ending)
        common = _common(fitting)
        choices = tuple(one.label or one.text for one in fitting.values())
        replacement = mark + escape(common, mark) if common != word.text else text[start:]
        return Completion(start, replacement, tuple(sorted(choices)))

    def complete_item(self, text: str) -> Completion | None:
        """text: a line of a list of `transfer` or `delete`, up to the cursor."""
        found = self.complete(_ITEM + text)
        if found is None:
            return None
        return Completion(max(0, found.start - len(_ITEM)), found.text, found.choices)

    def _candidates(self, before: list[Word], word: str) -> Iterable[Candidate]:
        if not before or (before[0].text in ("man", "help") and len(before) == 1):
            return self._commands()
        command = COMMANDS.get(before[0].text)
        if command is None or not self._caller.allows(command.name):
            return ()
        ended = any(one.text == "--" for one in before)
        if word.startswith("-") and not ended:
            return _options(command)
        if before[-1].text in FORM.names and FORM in command.options:
            return map(Candidate, FORMS)
        return self._operands(command, word)

    def _commands(self) -> list[Candidate]:
        return [Candidate(one.name) for one in COMMANDS.values() if not one.hidden and self._caller.allows(one.name)]

    def _operands(self, command: ShellCommand, word: str) -> Iterable[Candidate]:
        if _PATH.search(command.usage):
            return self._locations(command, word)
        if _ENDPOINT.search(command.usage):
            return map(Candidate, self._endpoints())
        if _TASK.search(command.usage) and self._caller.allows("status"):
            return map(Candidate, self._places.tasks())
        return ()

    def _endpoints(self) -> list[str]:
        return self._places.endpoints() if self._caller.allows("endpoint-list") else []

    def _locations(self, command: ShellCommand, word: str) -> Iterable[Candidate]:
        found = parts(word)
        if found is None:
            return [Candidate(f"{name}/", more=True) for name in self._endpoints()]
        folder, name = found
        if name == "~" and folder.endswith(("/", ":")):
            return [Candidate(f"{folder}~/", more=True)]
        if not self._caller.allows("ls"):
            return ()
        return _entries(self._places, folder, name, encode=command.name in _PERCENT_DECODED)


def _common(texts: Collection[str]) -> str:
    """The common beginning: that of the first and the last in order."""
    first, last = min(texts), max(texts)
    at = next((at for at, pair in enumerate(zip(first, last, strict=False)) if pair[0] != pair[1]), None)
    return first if at is None else first[:at]


def _entries(places: KnownPlaces, folder: str, begin: str, *, encode: bool) -> Iterable[Candidate]:
    """The entries of a folder; hidden ones where the name begins with a dot."""
    for name, is_folder in places.folder(folder):
        if name.startswith(".") and not begin.startswith("."):
            continue
        written = name.replace("%", "%25") if encode else name
        end = "/" if is_folder else ""
        yield Candidate(f"{folder}{written}{end}", more=is_folder, label=f"{name}{end}")


def _options(command: ShellCommand) -> list[Candidate]:
    """The long names: HELP has one."""
    return [Candidate(name) for one in command.options for name in one.names if name.startswith("--")]


def _words(text: str) -> tuple[list[Word], Word, str] | None:
    """The words before the one at the cursor, that word, and the quotation mark in which it stands open ("")."""
    if _MARK in text or text.endswith("\\"):
        return None
    for mark in ("", "'", '"'):
        try:
            *before, last = split(text + _MARK + mark)
        except UsageError:
            continue
        # A word such as a"b c, where the quotation mark is not first, is written anew with backslashes.
        opened = mark if text[last.column - 1 : last.column] == mark else ""
        return before, Word(last.text.removesuffix(_MARK), last.column), opened
    return None
