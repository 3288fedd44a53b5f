"""Lines of listings."""

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from endpoints.gridftp.facts import FACTS, Entry, FactsError, format_line, moment_of, parse_line

TOOLKIT = (
    b"Type=file;Modify=20261120192745;Size=1024;Perm=awr;UNIX.mode=0644;UNIX.owner=alice;UNIX.uid=1000;"
    b"UNIX.group=staff;UNIX.gid=50;Unique=1b-43; f9"
)

words = st.text(st.characters(min_codepoint=33, exclude_characters=";= \x7f", codec="utf-8"), max_size=20)
names = st.binary(min_size=1, max_size=255).filter(lambda name: not set(name) & set(b"\r\n\0"))
entries = st.builds(
    Entry,
    name=names.map(lambda name: name.decode("utf-8", "surrogateescape")),
    kind=st.sampled_from(["file", "dir", "cdir", "pdir", "OS.unix=pipe"]),
    size=st.integers(0, 2**63 - 1),
    modified=st.none()
    | st.datetimes(min_value=datetime(1970, 1, 1), timezones=st.just(UTC)).map(lambda t: t.replace(microsecond=0)),  # noqa: DTZ001
    mode=st.sampled_from(["", "0644", "0755"]),
    owner=words,
    group=words,
    link_target=st.none() | st.text(min_size=1, max_size=20),
    unique=words,
    perm=st.sampled_from(["", "r", "awr", "el"]),
)


def test_the_toolkits_line_is_understood():
    assert parse_line(TOOLKIT) == Entry(
        name="f9",
        kind="file",
        size=1024,
        modified=datetime(2026, 11, 20, 19, 27, 45, tzinfo=UTC),
        mode="0644",
        owner="alice",
        group="staff",
        unique="1b-43",
        perm="awr",
    )


@given(entries)
def test_a_line_reads_back_as_it_was_written(entry):
    assert parse_line(format_line(entry, entry.name.encode("utf-8", "surrogateescape"))) == entry


@given(entries, st.sets(st.sampled_from(FACTS)))
def test_only_the_facts_asked_for_are_written(entry, selection):
    line = format_line(entry, b"the name", selection)
    assert line.endswith(b" the name")
    assert {fact.split(b"=")[0].decode() for fact in line[:-9].split(b";")[:-1]} <= selection


@given(st.binary())
def test_hostile_lines_are_an_entry_or_a_facts_error(line):
    try:
        entry = parse_line(line)
    except FactsError:
        return
    assert entry.name
    assert 0 <= entry.size < 2**63


@pytest.mark.parametrize(
    "line",
    [b"", b" ", b"Type=file;", b"Type=file; ", b"nonsense name", b"Size=x; name", b"Size=-1; name",
     b"Type=file;Size=9223372036854775808; name", b"Type=file;Size=" + b"9" * 5000 + b"; name", b" name",
     # An unknown type or size must not look like an empty file.
     b"Type=file;Modify=20200102030405; name", b"Size=5;Modify=20200102030405; name", b"Type=;Size=5; name",
     b"Type=OS.unix=slink:/a;b/c;Size=3; name"],
)  # fmt: skip
def test_what_is_no_line_of_a_listing_is_refused(line):
    with pytest.raises(FactsError):
        parse_line(line)


def test_names_of_facts_and_types_are_case_insensitive():
    entry = parse_line(b"TYPE=DIR;size=5;modify=20200102030405;Unix.Mode=0700; X")
    assert (entry.kind, entry.size, entry.mode, entry.name) == ("dir", 5, "0700", "X")
    assert entry.modified == datetime(2020, 1, 2, 3, 4, 5, tzinfo=UTC)


def test_a_name_is_everything_after_the_first_space():
    assert parse_line(b"Type=file;Size=1;  two blanks; and = a tail ").name == " two blanks; and = a tail "


def test_a_name_that_is_not_utf8_survives():
    name = parse_line(b"Type=file;Size=1; n\xff\xc3").name
    assert name.encode("utf-8", "surrogateescape") == b"n\xff\xc3"


def test_a_fraction_of_a_second_is_kept_and_a_time_that_is_none_is_unknown():
    assert parse_line(b"Type=dir;Modify=20200102030405.25; x").modified == datetime(
        2020, 1, 2, 3, 4, 5, 250000, tzinfo=UTC
    )
    assert parse_line(b"Type=dir;Modify=20201399999999; x").modified is None
    assert parse_line(b"Type=dir;Modify=; x").modified is None


@pytest.mark.parametrize("seconds", [1e12, -1e13, 2.0**63, -(2.0**63)])
def test_a_time_that_no_reply_can_give_is_unknown(seconds):
    assert moment_of(seconds) is None


def test_times_before_1970_and_after_2106_are_known():
    assert moment_of(-631152000) == datetime(1950, 1, 1, tzinfo=UTC)
    assert moment_of(7258118400) == datetime(2200, 1, 1, tzinfo=UTC)


def test_symlinks_are_understood_in_the_forms_of_several_servers():
    assert parse_line(b"Type=dir;UNIX.slink=/tmp/x%20y%3B; l").link_target == "/tmp/x y;"
    link = parse_line(b"Type=OS.unix=slink:/target; l")
    assert (link.kind, link.link_target) == ("link", "/target")
    assert parse_line(b"Type=OS.unix=symlink; l").kind == "link"
    assert parse_line(b"Type=OS.unix=pipe; p").kind == "OS.unix=pipe"


def test_a_fact_may_have_a_blank_in_its_value():
    line = b"size=5;type=file;UNIX.group=1051;UNIX.groupname=domain users;UNIX.ownername=lab x; a; b c"
    assert (parse_line(line).name, parse_line(line).size) == ("a; b c", 5)
    entry = parse_line(b"UNIX.group=domain users;Type=dir; sub")
    assert (entry.name, entry.kind, entry.group) == ("sub", "dir", "domain users")


@pytest.mark.parametrize(
    ("line", "name", "kind", "size"),
    [
        (b"type=file; size=5; modify=20200102030405; a b", "a b", "file", 5),
        (b"Type=dir; Modify=20200102030405; Perm=el; a; b", "a; b", "dir", 0),
        # A name that looks like a fact, behind all facts that are needed.
        (b"Type=file;Size=5; size=6; x", "size=6; x", "file", 5),
        (b"Type=dir; type=file; x", "type=file; x", "dir", 0),
    ],
)
def test_a_blank_may_stand_behind_each_fact(line, name, kind, size):
    entry = parse_line(line)
    assert (entry.name, entry.kind, entry.size) == (name, kind, size)


@given(
    st.text(st.characters(exclude_characters="; ", codec="utf-8", min_codepoint=33), max_size=9).map(
        lambda t: f"{t} {t}"
    ),
    names,
)
def test_a_value_with_a_blank_is_distinguished_from_the_name(group, name):
    entry = parse_line(f"Type=file;Size=7;UNIX.group={group}; ".encode() + name)
    assert (entry.group, entry.name.encode("utf-8", "surrogateescape"), entry.size) == (group, name, 7)


@given(
    st.binary(min_size=1, max_size=60).filter(lambda name: not set(name) & set(b"/\0")), st.sets(st.sampled_from(FACTS))
)
def test_every_name_that_a_file_system_has_is_on_a_line_and_reads_back(name, selection):
    entry = Entry(name.decode("utf-8", "surrogateescape"), "file", size=5)
    line = format_line(entry, name, selection | {"Type", "Size"})
    assert not set(line) & {*range(32), 127}
    assert parse_line(line).name == entry.name
