"""Options of commands, read as Python's optparse reads them, which the historical shell used.

Options may stand anywhere among the operands; `--name=value` and `--name value`, `-s3` and `-s 3`; `-la` is `-l -a`; a
long option may be shortened as long as it stays unambiguous; `--` ends the options, except those that a command takes
after its operands too (`-r`, `-s` of `transfer`).

Deadlines as users write them, in UTC.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any, TypeVar

from .errors import InvalidNumberError, UsageError
from .words import Word

W = TypeVar("W", bound=str)


@dataclass(frozen=True, slots=True)
class Option:
    """names: `-s`, `--sync`. metavar "": a flag. read: makes the value of the text; raises ValueError with the reason.

    after: the command takes this option behind `--` too. many: the values of all occurrences, as a list.
    value: what a flag sets.
    """

    names: tuple[str, ...]
    key: str
    help: str
    metavar: str = ""
    read: Callable[[str], Any] = str
    after: bool = False
    many: bool = False
    value: object = True
    default: object = None


def flag(*names: str, about: str, key: str = "", **more: Any) -> Option:
    """An option without a value; False where it is not given."""
    return Option(names, key or _key(names), about, **{"default": False, **more})


def option(*names: str, metavar: str, about: str, key: str = "", **more: Any) -> Option:
    """An option with a value; None where it is not given, or an empty list where it may be given many times."""
    return Option(names, key or _key(names), about, metavar, **more)


def _key(names: Sequence[str]) -> str:
    return names[-1].lstrip("-").replace("-", "_")


@dataclass(slots=True)
class Arguments:
    """The operands in their order, and the value of each option by its key."""

    operands: list[Word] = field(default_factory=list)
    values: dict[str, Any] = field(default_factory=dict)
    #: The keys of the options that were given.
    given: set[str] = field(default_factory=set)

    def __getitem__(self, key: str) -> Any:
        return self.values[key]


def parse(known: Sequence[Option], words: Sequence[Word]) -> Arguments:
    """Raises UsageError, InvalidNumberError."""
    return _Parser(known).parse(words)


class _Parser:
    def __init__(self, known: Sequence[Option]) -> None:
        self._by_name: Mapping[str, Option] = {name: one for one in known for name in one.names}
        self._found = Arguments(values={one.key: [] if one.many else one.default for one in known})

    def parse(self, words: Sequence[Word]) -> Arguments:
        rest = iter(words)
        ended = False
        for word in rest:
            text = word.text
            if text == "--" and not ended:
                ended = True
            elif len(text) < 2 or not text.startswith("-") or (ended and not self._is_after(text)):
                self._found.operands.append(word)
            elif text.startswith("--"):
                self._long(word, rest)
            else:
                self._short(word, rest)
        return self._found

    def _is_after(self, text: str) -> bool:
        one = self._by_name.get(text if text.startswith("--") else text[:2])
        return one is not None and one.after

    def _long(self, word: Word, rest: Iterator[Word]) -> None:
        name, equals, value = word.text.partition("=")
        one = self._unabbreviated(name, word)
        full = next((known for known in one.names if known.startswith(name)), name)
        if not one.metavar:
            if equals:
                raise UsageError(f"{full} option does not take a value")
            self._set(one, full, None)
        else:
            self._set(one, full, value if equals else self._next(full, rest))

    def _unabbreviated(self, name: str, word: Word) -> Option:
        if name in self._by_name:
            return self._by_name[name]
        fitting = sorted(known for known in self._by_name if known.startswith(name) and known.startswith("--"))
        if len({self._by_name[known].names for known in fitting}) > 1:
            raise UsageError(f"ambiguous option: {name} ({', '.join(fitting)}?)")
        if not fitting:
            raise UsageError(f"no such option: {name} (column {word.column})")
        return self._by_name[fitting[0]]

    def _short(self, word: Word, rest: Iterator[Word]) -> None:
        letters = word.text[1:]
        for at, letter in enumerate(letters):
            name = f"-{letter}"
            one = self._by_name.get(name)
            if one is None:
                raise UsageError(f"no such option: {name} (column {word.column + 1 + at})")
            if one.metavar:
                self._set(one, name, letters[at + 1 :] or self._next(name, rest))
                return
            self._set(one, name, None)

    def _next(self, name: str, rest: Iterator[Word]) -> str:
        word = next(rest, None)
        if word is None:
            raise UsageError(f"{name} option requires an argument")
        return word.text

    def _set(self, one: Option, name: str, text: str | None) -> None:
        try:
            value = one.value if text is None else one.read(text)
        except _NumberError as error:
            raise InvalidNumberError(text or "", f"{name} takes {error}") from None
        except ValueError as error:
            raise UsageError(f"option {name}: {error}") from None
        if one.many:
            self._found.values[one.key].append(value)
        else:
            self._found.values[one.key] = value
        self._found.given.add(one.key)


def choice(*words: W) -> Callable[[str], W]:
    """For `Option.read`: one of these words."""

    def read(text: str) -> W:
        for word in words:
            if text == word:
                return word
        reason = f"neither {words[0]} nor {words[1]}" if len(words) == 2 else f"not one of {', '.join(words)}"
        raise ValueError(f"'{text}' is {reason}")

    return read


def on_off(text: str) -> bool:
    """For `Option.read`. Raises ValueError."""
    return choice("on", "off")(text) == "on"


class _NumberError(ValueError):
    """The bounds of the number, in words."""


def number(least: int, most: int) -> Callable[[str], int]:
    """For `Option.read`: a whole number from `least` to `most`."""

    def read(text: str) -> int:
        if not (text.isascii() and text.isdigit() and len(text) <= 18 and least <= int(text) <= most):
            raise _NumberError(f"a number from {least} to {most}")
        return int(text)

    return read


_SPAN = re.compile(r"(?:(\d{1,4})d)?(?:(\d{1,5})h)?(?:(\d{1,7})m)?")
_CLOCK = re.compile(r"([01]?\d|2[0-3]):([0-5]\d)(?::([0-5]\d))?")
FORMS = "a time span (30m, 12h, 1d12h), a date (2031-05-01 or '2031-05-01 13:30Z'), or a time of day (13:30)"


def from_now(text: str) -> datetime:
    """For `Option.read`. Raises ValueError."""
    return deadline(text, datetime.now(UTC))


def deadline(text: str, now: datetime) -> datetime:
    """The moment that `text` means: a span from now, a date, or the next such time of day. Raises ValueError."""
    text = text.strip()
    if (span := _SPAN.fullmatch(text)) and any(span.groups()):
        days, hours, minutes = (int(part or 0) for part in span.groups())
        return now + timedelta(days=days, hours=hours, minutes=minutes)
    if clock := _CLOCK.fullmatch(text.removesuffix("Z")):
        hour, minute, second = (int(part or 0) for part in clock.groups())
        found = now.astimezone(UTC).replace(hour=hour, minute=minute, second=second, microsecond=0)
        return found if found > now else found + timedelta(days=1)
    return _date(text)


def _date(text: str) -> datetime:
    try:
        found = datetime.fromisoformat(text)
        return found.replace(tzinfo=UTC) if found.tzinfo is None else found.astimezone(UTC)
    except (ValueError, OverflowError):
        raise ValueError(f"'{text}' is not a deadline; it is {FORMS}") from None
