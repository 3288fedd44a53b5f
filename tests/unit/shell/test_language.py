"""The words, options, names and times of the shell's language."""

from __future__ import annotations

import re
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from identity.models import User
from transferapi.shell.errors import InvalidNumberError, ShellError, UsageError
from transferapi.shell.names import Location, location
from transferapi.shell.options import deadline, flag, number, option, parse
from transferapi.shell.words import Word, escape, quote, split

KNOWN = (
    flag("-r", about="recursive", key="recursive", after=True),
    option("-s", "--sync", metavar="LEVEL", about="sync", read=number(0, 3), after=True),
    flag("--encrypt", about="encrypt"),
    flag("--verify-checksum", about="verify", default=None),
    flag("-a", about="all", key="all"),
)


def words(line: str) -> list[str]:
    return [word.text for word in split(line)]


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("ls a#b/x", ["ls", "a#b/x"]),
        ("ls 'a#b/x y' \"c d\"\n", ["ls", "a#b/x y", "c d"]),
        ("ls a#b/dir/*x* ~ $HOME ; | > & {a,b}", ["ls", "a#b/dir/*x*", "~", "$HOME", ";", "|", ">", "&", "{a,b}"]),
        ("--label '' x", ["--label", "", "x"]),
        ('a\\ b "c\\"d\\n" e\\\\', ["a b", 'c"d\\n', "e\\"]),
        ("", []),
    ],
)
def test_a_line_is_split_as_posix_does_and_nothing_is_expanded(line: str, expected: list[str]) -> None:
    assert words(line) == expected


@pytest.mark.parametrize(("line", "column"), [("ls 'a b", 4), ('ls a"b', 5), ("ls a\\", 5)])
def test_a_quote_that_is_not_closed_is_named_with_its_column(line: str, column: int) -> None:
    with pytest.raises(UsageError, match=f"^column {column}: "):
        split(line)


def test_options_stand_anywhere_and_may_be_shortened() -> None:
    found = parse(KNOWN, split("A/ --encryp B/ -r -s3 --sync=2"))
    assert [word.text for word in found.operands] == ["A/", "B/"]
    assert (found["recursive"], found["sync"], found["encrypt"]) == (True, 2, True)
    assert parse(KNOWN, split("-ra"))["all"] is True


def test_only_the_options_of_operands_stand_behind_two_hyphens() -> None:
    found = parse(KNOWN, split("-- A/ B/ -r -s 1 --encrypt"))
    assert [word.text for word in found.operands] == ["A/", "B/", "--encrypt"]
    assert (found["recursive"], found["sync"], found["encrypt"]) == (True, 1, False)


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("----perf-p", "no such option: ----perf-p"),
        ("-x", "no such option: -x"),
        ("-s", "-s option requires an argument"),
        ("--encrypt=yes", "--encrypt option does not take a value"),
        ("a -rx", r"no such option: -x \(column 5\)"),
    ],
)
def test_a_wrong_option_is_refused_with_the_reason(line: str, reason: str) -> None:
    with pytest.raises(UsageError, match=reason):
        parse(KNOWN, split(line))


def test_a_wrong_number_is_reported_as_the_historical_shell_did() -> None:
    with pytest.raises(InvalidNumberError) as raised:
        parse(KNOWN, split("--sync 6--perf-cc=6"))
    assert raised.value.lines() == ["Error: Invalid Number '6--perf-cc=6'", "--sync takes a number from 0 to 3"]
    assert raised.value.status == 1


def test_a_prefix_of_two_options_is_ambiguous_even_where_they_set_the_same() -> None:
    both = (flag("--public", about="", key="public"), flag("--private", about="", key="public", value=False))
    with pytest.raises(UsageError, match=r"ambiguous option: --p \(--private, --public\?\)"):
        parse(both, split("--p"))
    assert parse(both, split("--pr"))["public"] is False


@given(st.text())
def test_any_line_is_words_or_a_usage_error(line: str) -> None:
    try:
        found = split(line)
    except UsageError as error:
        column = re.match(r"column (\d+): ", error.message)
        columns = [int(column[1]) if column else 0]
    else:
        columns = [word.column for word in found]
    assert all(1 <= column <= len(line) for column in columns)


PIECES = st.lists(st.one_of(st.text(max_size=8), st.sampled_from(["-s", "--sync=", "--en", "--", "-ra", "-s3", "-"])))


@given(PIECES)
def test_any_options_are_arguments_or_a_usage_error(texts: list[str]) -> None:
    try:
        found = parse(KNOWN, [Word(text, 1) for text in texts])
    except (UsageError, InvalidNumberError):
        return
    assert len(found.operands) <= len(texts)
    assert set(found.values) == {"recursive", "sync", "encrypt", "verify_checksum", "all"}


@given(st.lists(st.text()))
def test_quoted_texts_are_split_into_themselves(texts: list[str]) -> None:
    assert words(" ".join(map(quote, texts))) == texts


@given(st.text(min_size=1), st.sampled_from(["", "'", '"']))
def test_escaped_texts_are_split_into_themselves(text: str, mark: str) -> None:
    assert words(f"{mark}{escape(text, mark)}{mark}") == [text]


NOW = datetime(2031, 5, 1, 12, 0, tzinfo=UTC)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("30m", datetime(2031, 5, 1, 12, 30, tzinfo=UTC)),
        ("1d12h", datetime(2031, 5, 3, 0, 0, tzinfo=UTC)),
        ("2031-05-02", datetime(2031, 5, 2, tzinfo=UTC)),
        ("2031-05-02 13:30Z", datetime(2031, 5, 2, 13, 30, tzinfo=UTC)),
        ("13:30", datetime(2031, 5, 1, 13, 30, tzinfo=UTC)),
        ("11:00:05", datetime(2031, 5, 2, 11, 0, 5, tzinfo=UTC)),
    ],
)
def test_a_deadline_is_a_span_a_date_or_a_time_of_day(text: str, expected: datetime) -> None:
    assert deadline(text, NOW) == expected


@pytest.mark.parametrize("text", ["", "tomorrow", "25:00", "999999d999999h", "-5m"])
def test_another_deadline_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="is not a deadline"):
        deadline(text, NOW)


@given(st.text(st.sampled_from("0123456789dhmTZ:-+ .W")))
def test_any_deadline_is_a_moment_or_a_value_error(text: str) -> None:
    try:
        found = deadline(text, NOW)
    except ValueError:
        return
    assert found.tzinfo is not None


@pytest.mark.parametrize(
    ("text", "endpoint", "path"),
    [
        ("go#ep1/share/x", "go#ep1", "/share/x"),
        ("go#ep1:/share/x", "go#ep1", "/share/x"),
        ("go#ep1/~/x", "go#ep1", "/~/x"),
        ("go#ep1:~/x", "go#ep1", "/~/x"),
        ("go#ep1:/~/x", "go#ep1", "/~/x"),
        ("go#ep1/~joe/x", "go#ep1", "/~joe/x"),
        ("go#ep1:de.data", "go#ep1", "/~/de.data"),
        ("go#ep1:", "go#ep1", "/~/"),
        ("ep1/", "ep1", "/"),
        ("ep1:a:b/c", "ep1", "/~/a:b/c"),
        ("ep1/a:b", "ep1", "/a:b"),
        ("ep1/a%20b", "ep1", "/a b"),
    ],
)
def test_an_endpoint_and_a_path_are_written_in_two_ways(text: str, endpoint: str, path: str) -> None:
    assert location(User(), text, decode=True) == Location(endpoint, path)


def test_a_word_without_a_path_is_refused_as_the_historical_shell_did() -> None:
    with pytest.raises(ShellError) as raised:
        location(User(), "fff")
    assert raised.value.lines()[0] == "Error: Missing '/': 'fff'"
    with pytest.raises(ShellError, match="names no endpoint"):
        location(User(), "/path")
