"""The options of a submission by their wire names, with the checks and the default of each.

All functions raise RequestError.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NoReturn

from .errors import RequestError

Check = Callable[[str, object], object]


def _flag(name: str, value: object) -> object:
    if not isinstance(value, bool):
        raise RequestError(name, "Expected true or false.")
    return value


def _number(lowest: int, highest: int) -> Check:
    def check(name: str, value: object) -> object:
        if not isinstance(value, int) or isinstance(value, bool) or not lowest <= value <= highest:
            raise RequestError(name, f"Expected a whole number from {lowest} to {highest}.")
        return value

    return check


def _one_of(*words: str) -> Check:
    def check(name: str, value: object) -> object:
        if value not in words:
            raise RequestError(name, f"Expected one of {', '.join(words)}.")
        return value

    return check


def _word(name: str, value: object) -> object:
    if not isinstance(value, str) or len(value) > 256 or not value.isprintable():
        raise RequestError(name, "Expected a string of at most 256 printable characters.")
    return value


def _filter_rules(name: str, value: object) -> object:
    """Filter rules; an empty list means none."""
    if not isinstance(value, list) or len(value) > MAX_FILTER_RULES:
        raise RequestError(name, f"Expected a list of at most {MAX_FILTER_RULES} rules.")
    rules = [_filter_rule(f"{name}[{number}]", rule) for number, rule in enumerate(value)]
    if sum(len(str(rule["name"])) for rule in rules) > MAX_FILTER_CHARACTERS:
        raise RequestError(name, f"The names of all rules have at most {MAX_FILTER_CHARACTERS} characters together.")
    return rules or None


def _filter_rule(name: str, rule: object) -> dict[str, object]:
    if not isinstance(rule, Mapping):
        raise RequestError(name, "Expected a filter_rule document.")
    pattern = rule.get("name")
    if not pattern or not isinstance(pattern, str) or len(pattern) > 255 or not pattern.isprintable():
        raise RequestError(f"{name}.name", "Expected a pattern of 1 to 255 printable characters.")
    if "/" in pattern or pattern in (".", ".."):
        raise RequestError(f"{name}.name", NAMES_ONLY)
    method = _one_of("include", "exclude")(f"{name}.method", rule.get("method"))
    kind = rule.get("type")
    return {
        "method": method,
        "name": pattern,
        "type": None if kind is None else _one_of("file", "dir")(f"{name}.type", kind),
    }


NAMES_ONLY = (
    "A rule matches the name of a file or folder, in every folder, and not its path: a name with a slash would match "
    'nothing. Use the name alone, and "type": "dir" for folders only.'
)
#: The scan compares every name with all rules: the largest number of steps for each character of a name.
MAX_FILTER_RULES, MAX_FILTER_CHARACTERS = 1000, 16_384

#: name -> (value where it is absent or null, check)
_COMMON: dict[str, tuple[object, Check]] = {
    "notify_on_succeeded": (True, _flag),
    "notify_on_failed": (True, _flag),
    "notify_on_inactive": (True, _flag),
    #: Accept a task whose owner has no credential yet; the task waits for one.
    "skip_activation_check": (False, _flag),
}
TRANSFER: dict[str, tuple[object, Check]] = {
    "sync_level": (None, _number(0, 3)),
    "verify_checksum": (False, _flag),
    "preserve_timestamp": (False, _flag),
    "encrypt_data": (False, _flag),
    "skip_source_errors": (False, _flag),
    "fail_on_quota_errors": (False, _flag),
    "delete_destination_extra": (False, _flag),
    #: Percent of the destination above which the deletion of extra files waits for the task's owner; None: it never
    #: does, as clients of the Transfer API expect.
    "confirm_deletion_above": (None, _number(0, 100)),
    "recursive_symlinks": ("ignore", _one_of("ignore", "keep", "copy")),
    "filter_rules": (None, _filter_rules),
    "store_base_path_info": (False, _flag),
    "source_local_user": (None, _word),
    "destination_local_user": (None, _word),
    "perf_cc": (None, _number(1, 64)),
    "perf_p": (None, _number(1, 64)),
    "perf_pp": (None, _number(1, 100)),
    "perf_udt": (False, _flag),
    "tuning": ("adaptive", _one_of("paper", "adaptive", "fixed")),
    **_COMMON,
}
DELETE: dict[str, tuple[object, Check]] = {
    "recursive": (False, _flag),
    "ignore_missing": (False, _flag),
    "interpret_globs": (False, _flag),
    "local_user": (None, _word),
    **_COMMON,
}

NOT_SUPPORTED = "ClientError.BadRequest.NotSupported"
#: Options of the Transfer API that this version does not support. They are refused, so that no user believes that
#: they took effect.
NOT_YET = {
    "source_local_user": "choose the local account",
    "destination_local_user": "choose the local account",
    "local_user": "choose the local account",
}


def refuse(name: str, field: str | None = None) -> NoReturn:
    """field: the place in the document, where that is not the name itself."""
    raise RequestError(field or name, f"This version cannot {NOT_YET[name]} yet.", NOT_SUPPORTED)


def complete(known: Mapping[str, tuple[object, Check]], given: Mapping[str, object]) -> dict[str, object]:
    """Every known option, checked, with the defaults filled in; unknown ones are ignored."""
    found = {
        name: default if given.get(name) is None else check(name, given[name])
        for name, (default, check) in known.items()
    }
    for name, (default, _) in known.items():
        if name in NOT_YET and found[name] != default:
            refuse(name)
    return found
