"""The options of a transfer and of a delete. Each is declared once, as a `TaskOption`.

REST documents it, submissions are checked and completed by it, the ssh shell has its flags, the pages have its label
and its sentence, and "the same request elsewhere" (webui/activity/same_request.py) writes it. A new option is a row of
TRANSFER or DELETE.

All functions raise RequestError.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NoReturn

from endpoints.bandwidth import HIGHEST_RATE, LOWEST_RATE
from identity.error_categories import NOT_SUPPORTED

# Marks texts for translation; the pages translate them.
from identity.gsi.printable import translatable as _

from .errors import RequestError
from .records import BACKGROUND
from .states import TaskType


@dataclass(frozen=True, slots=True)
class Flag:
    """An option that is on or off."""

    def check(self, name: str, value: object) -> object:
        if not isinstance(value, bool):
            raise RequestError(name, "Expected true or false.")
        return value


@dataclass(frozen=True, slots=True)
class Number:
    """A whole number within bounds. levels: what each number means, where it is a choice and no amount."""

    lowest: int
    highest: int
    levels: tuple[str, ...] = ()

    def check(self, name: str, value: object) -> object:
        if not isinstance(value, int) or isinstance(value, bool) or not self.lowest <= value <= self.highest:
            raise RequestError(name, f"Expected a whole number from {self.lowest} to {self.highest}.")
        return value


@dataclass(frozen=True, slots=True)
class OneOf:
    """One of several words. words: with what each means."""

    words: Mapping[str, str]

    def check(self, name: str, value: object) -> object:
        if not isinstance(value, str) or value not in self.words:
            raise RequestError(name, f"Expected one of {', '.join(self.words)}.")
        return value


@dataclass(frozen=True, slots=True)
class ShortText:
    """A short printable string."""

    def check(self, name: str, value: object) -> object:
        if not isinstance(value, str) or len(value) > 256 or not value.isprintable():
            raise RequestError(name, "Expected a string of at most 256 printable characters.")
        return value


@dataclass(frozen=True, slots=True)
class FilterRules:
    """Rules by which a scan includes and excludes names; an empty list means none."""

    def check(self, name: str, value: object) -> object:
        if not isinstance(value, list) or len(value) > MAX_FILTER_RULES:
            raise RequestError(name, f"Expected a list of at most {MAX_FILTER_RULES} rules.")
        rules = [_filter_rule(f"{name}[{number}]", rule) for number, rule in enumerate(value)]
        if sum(len(str(rule["name"])) for rule in rules) > MAX_FILTER_CHARACTERS:
            reason = f"The names of all rules have at most {MAX_FILTER_CHARACTERS} characters together."
            raise RequestError(name, reason)
        return rules or None


def _filter_rule(name: str, rule: object) -> dict[str, object]:
    if not isinstance(rule, Mapping):
        raise RequestError(name, "Expected a filter_rule document.")
    pattern = rule.get("name")
    if not pattern or not isinstance(pattern, str) or len(pattern) > 255 or not pattern.isprintable():
        raise RequestError(f"{name}.name", "Expected a pattern of 1 to 255 printable characters.")
    if "/" in pattern or pattern in (".", ".."):
        raise RequestError(f"{name}.name", NAMES_ONLY)
    kind = rule.get("type")
    return {
        "method": _RULE_METHOD.check(f"{name}.method", rule.get("method")),
        "name": pattern,
        "type": None if kind is None else _RULE_TYPE.check(f"{name}.type", kind),
    }


Kind = Flag | Number | OneOf | ShortText | FilterRules
_RULE_METHOD = OneOf(dict.fromkeys(("include", "exclude"), ""))
_RULE_TYPE = OneOf(dict.fromkeys(("file", "dir"), ""))
NAMES_ONLY = (
    "A rule matches the name of a file or folder, in every folder, and not its path: a name with a slash would match "
    'nothing. Use the name alone, and "type": "dir" for folders only.'
)
#: The flag of the ssh shell for the rules of a method and a type.
RULE_FLAGS: dict[tuple[str, str | None], str] = {
    (method, kind): f"--{method}{suffix}"
    for method in ("exclude", "include")
    for kind, suffix in ((None, ""), ("file", "-files"), ("dir", "-folders"))
}
#: The scan compares every name with all rules: the largest number of steps for each character of a name.
MAX_FILTER_RULES, MAX_FILTER_CHARACTERS = 1000, 16_384


@dataclass(frozen=True)
class TaskOption:
    """An option of a submission.

    name: in documents. default: the value where it is absent or null. sentence: what it does, for REST, the help of the
    shell, and the form. label: for pages. short: a few words for the summary of the form.
    """

    name: str
    kind: Kind
    default: object
    sentence: str
    label: str
    short: str = ""
    #: The flags of the ssh shell, in the order of its help; `off_flag` sets it to false.
    flags: tuple[str, ...] = ()
    off_flag: str = ""
    metavar: str = "N"
    #: The flags of `globus` that set it, to true or to the value that follows, and to false.
    globus: str = ""
    globus_off: str = ""
    #: The values that `globus` has for numbers.
    globus_words: tuple[str, ...] = ()
    #: The word of `globus ... --notify` that sets it; `off` or other words alone set it to false.
    globus_notify: str = ""
    #: The deed that this version cannot do yet: every value but the default is refused.
    refused: str = ""
    #: Whether the form of the Transfer page offers it, and whether it is on there at first.
    in_form: bool = field(default=False, kw_only=True)
    on: bool = field(default=False, kw_only=True)

    @property
    def long_flag(self) -> str:
        """The first flag that is a word; "" if there is none."""
        return next((flag for flag in self.flags if flag.startswith("--")), "")

    def complete(self, given: object) -> object:
        """The checked value; the default where none is given."""
        if given is None:
            return self.default
        value = self.kind.check(self.name, given)
        if self.refused and value != self.default:
            refuse(self.name)
        return value


def _by_name(*rows: TaskOption) -> dict[str, TaskOption]:
    return {row.name: row for row in rows}


def _notify(event: str, when: str, label: str) -> TaskOption:
    sentence = f"A mail says when the task {when}."
    return TaskOption(
        f"notify_on_{event}", Flag(), True, sentence, label, off_flag=f"--no-notify-{event}", globus_notify=event
    )


def _local_user(name: str) -> TaskOption:
    sentence = "The local account at the endpoint."
    return TaskOption(name, ShortText(), None, sentence, _("Local account"), refused="choose the local account")


_COMMON = (
    _notify("succeeded", "has succeeded", _("Mail at success")),
    _notify("failed", "has failed", _("Mail at failure")),
    _notify("inactive", "waits for a credential", _("Mail when a credential is missing")),
    TaskOption(
        "skip_activation_check",
        Flag(),
        False,
        "The task is accepted without a credential, and waits until there is one.",
        _("Accept without a credential"),
        flags=("--skip-activation-check",),
    ),
)
TRANSFER = _by_name(
    TaskOption(
        "sync_level",
        Number(
            0,
            3,
            (
                _("Files that are missing at the destination"),
                _("Files that are missing or have another size"),
                _("Files that are missing, have another size or are newer at the source"),
                _("Files that are missing or have another checksum"),
            ),
        ),
        None,
        "Only files are copied that are missing (0), have another size (1), have another size or are newer at the "
        "source (2), or have another checksum (3).",
        _("What is copied"),
        flags=("-s", "--sync", "--sync-level"),
        metavar="LEVEL",
        globus="--sync-level",
        globus_words=("exists", "size", "mtime", "checksum"),
        in_form=True,
    ),
    TaskOption(
        "verify_checksum",
        Flag(),
        False,
        _("The checksums of both sides are compared, and what differs is sent again."),
        _("Verify what arrives"),
        _("checksums on"),
        flags=("--verify-checksum",),
        off_flag="--no-verify-checksum",
        globus="--verify-checksum",
        globus_off="--no-verify-checksum",
        in_form=True,
        on=True,
    ),
    TaskOption(
        "preserve_timestamp",
        Flag(),
        False,
        _("The copies get the modification times of their sources."),
        _("Keep modification times"),
        _("times kept"),
        flags=("--preserve-mtime",),
        globus="--preserve-mtime",
        in_form=True,
    ),
    TaskOption(
        "encrypt_data",
        Flag(),
        False,
        _("The data is encrypted on its way; this can be slower."),
        _("Encrypt the data"),
        _("encrypted"),
        flags=("--encrypt",),
        globus="--encrypt-data",
        in_form=True,
    ),
    TaskOption(
        "skip_source_errors",
        Flag(),
        False,
        _("The transfer goes on without files that cannot be read at the source, and lists them."),
        _("Pass over files that cannot be read"),
        _("unreadable files are passed over"),
        flags=("--skip-source-errors",),
        globus="--skip-source-errors",
        in_form=True,
    ),
    TaskOption(
        "fail_on_quota_errors",
        Flag(),
        False,
        "The task ends when a quota at the destination is exceeded.",
        _("End when the quota is used up"),
        flags=("--fail-on-quota-errors",),
        globus="--fail-on-quota-errors",
    ),
    TaskOption(
        "delete_destination_extra",
        Flag(),
        False,
        _("Files in the copied folders that the source does not have are deleted at the destination, after all else."),
        _("Mirror: delete what is only at the destination"),
        _("mirror, deletes extra files"),
        flags=("--delete",),
        globus="--delete-destination-extra",
        in_form=True,
    ),
    # Absent: a mirror never waits, as clients of the Transfer API expect.
    TaskOption(
        "confirm_deletion_above",
        Number(0, 100),
        None,
        "Where a mirror would delete more than so many percent of the destination, the task waits for confirm_deletion "
        "or refuse_deletion; without it, it deletes.",
        _("A mirror asks you"),
        flags=("--confirm-above",),
        metavar="PERCENT",
        in_form=True,
    ),
    TaskOption(
        "recursive_symlinks",
        OneOf({"ignore": _("left out"), "keep": _("made anew"), "copy": _("followed")}),
        "ignore",
        "Symbolic links within folders are left out (ignore), made anew at the destination (keep) or followed (copy).",
        _("Symbolic links in folders"),
        flags=("--symlinks",),
        metavar="HOW",
    ),
    TaskOption(
        "filter_rules",
        FilterRules(),
        None,
        "The first rule that matches the name of a file or folder decides whether it is copied.",
        _("Filter rules"),
    ),
    TaskOption(
        "store_base_path_info",
        Flag(),
        False,
        "Events name the folders that all items lie in.",
        _("Name the common folders in events"),
        flags=("--store-base-paths",),
    ),
    _local_user("source_local_user"),
    _local_user("destination_local_user"),
    TaskOption(
        "perf_cc",
        Number(1, 64),
        None,
        "The number of sessions side by side.",
        _("Sessions side by side"),
        flags=("--perf-cc",),
        globus="--perf-cc",
    ),
    TaskOption(
        "perf_p",
        Number(1, 64),
        None,
        "The number of streams for each file.",
        _("Streams for each file"),
        flags=("--perf-p",),
        globus="--perf-p",
    ),
    TaskOption(
        "perf_pp",
        Number(1, 100),
        None,
        "The number of files under way in each session.",
        _("Files under way in each session"),
        flags=("--perf-pp",),
        globus="--perf-pp",
    ),
    TaskOption(
        "perf_udt",
        Flag(),
        False,
        "The data goes over UDT where both servers allow it.",
        _("Over UDT"),
        flags=("--perf-udt",),
        globus="--perf-udt",
    ),
    TaskOption(
        "tuning",
        OneOf({"paper": _("by rules"), "adaptive": _("by measurement"), "fixed": _("as asked for")}),
        "adaptive",
        "Plans follow what is measured (adaptive), the rules of 2012 (paper), or what is asked for (fixed).",
        _("Tuning"),
        flags=("--tuning",),
        metavar="HOW",
    ),
    TaskOption(
        "bandwidth_limit",
        Number(LOWEST_RATE, HIGHEST_RATE),
        None,
        "The most octets a second that the transfer moves, on the mean of some seconds.",
        _("Bandwidth limit"),
        flags=("--bandwidth-limit",),
        metavar="OCTETS",
        in_form=True,
    ),
    TaskOption(
        "priority",
        OneOf({"normal": _("normal"), BACKGROUND: _("background: gives way to other transfers")}),
        "normal",
        "A transfer in the background moves little while a normal one runs at the same endpoint.",
        _("Priority"),
        flags=("--priority",),
        metavar="LEVEL",
        in_form=True,
    ),
    *_COMMON,
)
DELETE = _by_name(
    TaskOption(
        "recursive",
        Flag(),
        False,
        "Folders are deleted with all that is in them.",
        _("Delete folders with all that is in them"),
        flags=("-r", "--recursive"),
        globus="--recursive",
    ),
    TaskOption(
        "ignore_missing",
        Flag(),
        False,
        "What is missing counts as deleted.",
        _("Ignore what is missing"),
        flags=("-f", "--ignore-missing"),
        globus="--ignore-missing",
    ),
    TaskOption(
        "interpret_globs",
        Flag(),
        False,
        "Paths are patterns: * ? [abc].",
        _("Paths are patterns"),
        flags=("--globs",),
        globus="--enable-globs",
    ),
    _local_user("local_user"),
    *_COMMON,
)


def of(type_: str) -> dict[str, TaskOption]:
    """The options of a task of this type (`TaskType`)."""
    return DELETE if type_ == TaskType.DELETE else TRANSFER


#: Options of the Transfer API that this version does not support. They are refused, so that no user believes that
#: they took effect.
NOT_YET = {row.name: row.refused for row in (*TRANSFER.values(), *DELETE.values()) if row.refused}


def refuse(name: str, field: str | None = None) -> NoReturn:
    """field: the place in the document, where that is not the name itself."""
    raise RequestError(field or name, f"This version cannot {NOT_YET[name]} yet.", NOT_SUPPORTED)


def complete(known: Mapping[str, TaskOption], given: Mapping[str, object]) -> dict[str, object]:
    """Every known option, checked, with the defaults filled in; unknown ones are ignored."""
    return {name: row.complete(given.get(name)) for name, row in known.items()}


def given(known: Mapping[str, TaskOption], fields: Mapping[str, object]) -> dict[str, object]:
    """The known options among the fields of a document, as they came."""
    return {name: fields[name] for name in known if name in fields}
