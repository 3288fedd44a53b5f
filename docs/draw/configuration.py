"""The tables of docs/operate/configuration.md: every variable, by area, from the code that reads it."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import fields

from transferapi.config import limits, values
from transferapi.config.declaration import Variable
from transferapi.config.reading import Config

#: Values that a parser reads, where the meaning of the variable does not say it.
_VALUES: dict[Callable[..., object], str] = {
    values.flag: "0 or 1",
    values.absolute_path: "a path",
    values.path_or_none: "a path",
    values.file_or_none: "the path of a file that can be read",
    values.networks: "networks as CIDR, with commas",
    values.words: "words, with commas",
    values.web_address: "an address, http:// or https://",
    values.address: "an IP address",
    values.domain: "a domain",
    values.long_secret: "at least 32 characters",
    values.header_value: "at least 32 letters and digits",
}
_HEAD = "| variable | default | values | meaning |\n|---|---|---|---|"


def tables() -> str:
    """A section for each area of transferapi/config/sections.py, and one for the limits."""
    parts = [_section(area) for area in reversed(Config.__mro__) if area.__name__.endswith("Settings")]
    return "\n" + "\n\n".join([*sorted(parts, key=_order), _limits()]) + "\n"


def _order(part: str) -> int:
    """The areas in the order of the bases of Config."""
    return [_title(one) for one in Config.__bases__].index(part.splitlines()[0])


def _section(area: type) -> str:
    declared = [one.metadata["variable"] for one in fields(area) if "variable" in one.metadata]
    rows = [_row(one) for one in declared if one.meaning]
    return "\n".join([_title(area), "", f"{area.__doc__}", "", _HEAD, *rows])


def _title(area: type) -> str:
    words = re.findall("[A-Z][a-z]+", area.__name__.removesuffix("Settings"))
    return f"## {' '.join(words).capitalize()}"


def _row(one: Variable) -> str:
    name = f"`{one.name}`" + (f", `{one.name}_FILE`" if one.is_secret else "")
    return f"| {name} | {_default(one)} | {_values(one)} | {_escaped(_meaning(one))} |"


def _meaning(one: Variable) -> str:
    """The words of the help, without the default and the name of the file, which have columns of their own."""
    text = re.sub(r" \(default:? [^();]*; ([^()]*)\)", r"; \1", one.meaning)
    text = re.sub(r" \(default:? [^()]*\)|; default:? [^();]*(?=\))", "", text)
    text = re.sub(r" \(or \.\.\._FILE\)", "", text)
    return text.replace("(or ..._FILE, ", "(in the file ")


def _default(one: Variable) -> str:
    said = re.search(r"default:? ([^();]*)", one.meaning)
    if said and said[1] != one.default:
        return _escaped(said[1])
    return f"`{one.default}`" if one.default else ""


def _values(one: Variable) -> str:
    if isinstance(one.parse, values.Whole):
        return ", ".join(filter(None, (one.parse.unit, one.parse.bounds)))
    return _VALUES.get(one.parse, "")


def _limits() -> str:
    def rows() -> Iterator[str]:
        for one in limits.VARIABLES.values():
            yield f"| `{one.name}` | {int(one.default):,} | from 1 | {one.meaning} |"

    return "\n".join(["## Limits", "", "Of one request, one task and one user.", "", _HEAD, *rows()])


def _escaped(text: str) -> str:
    return text.replace("|", "\\|")
