"""The page about the security of sign-in names tests that there are, and says something of every section."""

from __future__ import annotations

import re

from transferapi.config import CHECKOUT

_HEADING = re.compile(r"^## (?P<heading>.+)$")
_ROW = re.compile(r"^\| (?P<section>[^|]+) \| (?P<what>[^|]+) \| (?P<covered>[^|]+) \|$")
_NAMED = re.compile(r"`(tests/[^`]+)`")
_REASONS = ("Not ours: ", "As built: ", "Open: ")
#: By table: the sections that concern a server (2.2 and the attacker model have no demands of their own) ...
_SERVER = {"2.1", "2.1.1", "2.1.2", "2.2.1", "2.2.2", "2.3", "2.4", "2.5", "2.6", *(f"4.{n}" for n in range(1, 18))}
#: ... a client of other providers, and a service provider of SAML; and what belongs to no section.
_CLIENT = {
    *(f"RFC 9700 {n}" for n in ("2.1", "2.1.1", "4.4", "4.5", "4.7", "4.10", "4.11")), "OIDC Discovery 4.3",
    *(f"OIDC Core {n}" for n in ("3.1.2.1", "3.1.3.7", "5.3.2", "5.7")), "RFC 8725 2.1", "RFC 8725 3.5",
    "keys", "sessions", "linking", "bounds", "records",
}  # fmt: skip
_SAML = {
    *(f"Core {n}" for n in ("2.5.1", "2.7.2", "5.4", "6")), "Bindings 3.4", "Metadata 2.4.3", "Metadata 4.3",
    *(f"Profiles {n}" for n in ("4.1.4.2", "4.1.4.3", "4.1.4.5", "4.4")), "signature wrapping", "XML", "removal",
    "scopes", "identifiers", "providers of others", "records",
}  # fmt: skip
TABLES = {"The OAuth2 server": _SERVER, "As a client of other providers": _CLIENT, "As a service provider": _SAML}


def rows() -> dict[tuple[str, str], str]:
    """The tests and reasons of each section, by table and section."""
    found: dict[tuple[str, str], str] = {}
    table = ""
    for line in (CHECKOUT / "docs" / "oauth-security.md").read_text().splitlines():
        if heading := _HEADING.match(line):
            table = heading["heading"].partition(" (")[0]
        row = _ROW.match(line)
        if row and row["section"] != "section" and not row["section"].startswith("---"):
            assert (table, row["section"]) not in found, "a section comes twice"
            found[table, row["section"]] = row["covered"]
    return found


def test_every_section_has_a_row() -> None:
    assert set(rows()) == {(table, section) for table, sections in TABLES.items() for section in sections}


def test_a_row_names_tests_that_there_are_or_a_reason() -> None:
    for place, covered in rows().items():
        named = _NAMED.findall(covered)
        assert named or any(reason in covered for reason in _REASONS), place
        for one in named:
            path, _, name = one.partition("::")
            text = (CHECKOUT / path).read_text()
            assert re.search(rf"^(?:async )?def {re.escape(name)}\(", text, re.MULTILINE), one
