"""Sentences that services write in English, with what another language needs: their form and their values.

`identity.languages.translated` makes the sentence in the language of the reader. It is made of constants and values
only; a form is in the catalogues because the source has it as the argument of `Sentence` or `Sentence.counted`.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import Any, NamedTuple, Self


class ErrorName(NamedTuple):
    """The name of an error code in English; pages have names of their own for the code."""

    code: str
    english: str

    def __str__(self) -> str:
        return self.english


#: A text is a name or the words of a server, and stays as it is.
Value = str | int | datetime | ErrorName


class Sentence(str):
    """A sentence in English that has its form and values. Code that knows `str` only stores and sends English.

    form: "%(name)s" stands for a value, and "%%" for "%" where there are values. Values that the form does not have are
    kept beside it.
    """

    form: str
    #: The form for all numbers but 1, where there is one; the number is the value `number`.
    many: str | None
    values: dict[str, Value]

    def __new__(cls, form: str, **values: Value) -> Self:
        return cls._made(form, None, values)

    @classmethod
    def counted(cls, one: str, many: str, number: int, **values: Value) -> Self:
        """The first form if the number is 1, else the second one; it is the value `number` of both."""
        return cls._made(one, many, {"number": number, **values})

    @classmethod
    def _made(cls, form: str, many: str | None, values: dict[str, Value]) -> Self:
        chosen = form if many is None or values["number"] == 1 else many
        english = {name: in_english(value) for name, value in values.items()}
        made = super().__new__(cls, chosen % english if values else chosen)
        made.form, made.many, made.values = form, many, values
        return made

    def record(self, printable: Callable[[str], str]) -> dict[str, Any]:
        """The sentence as JSON. printable: applied to each text in it."""
        values = {name: _record(value, printable) for name, value in self.values.items()}
        record: dict[str, Any] = {"form": printable(self.form), "values": values}
        return record if self.many is None else {**record, "many": printable(self.many)}


def joined(separator: str, parts: list[str]) -> Sentence:
    """These texts, some of which may be sentences, as one sentence."""
    form = separator.join(f"%(part{number})s" for number in range(len(parts)))
    return Sentence(form, **{f"part{number}": part for number, part in enumerate(parts)})


def in_english(value: Value) -> str:
    """A value as English sentences have it."""
    if isinstance(value, datetime):
        return f"{value:%Y-%m-%d %H:%M:%S} UTC"
    return str(value)


def _record(value: Value, printable: Callable[[str], str]) -> object:
    if isinstance(value, Sentence):
        return value.record(printable)
    if isinstance(value, ErrorName):
        return {"code": value.code, "english": value.english}
    if isinstance(value, datetime):
        return {"time": value.isoformat()}
    return printable(value) if isinstance(value, str) else value
