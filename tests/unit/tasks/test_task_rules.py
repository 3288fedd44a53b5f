"""Rules for paths, labels, deadlines and options."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from transferapi.tasks import options, request_rules
from transferapi.tasks.errors import RequestError

NOW = datetime(2026, 1, 2, 3, 4, tzinfo=UTC)

GOOD_PATHS = {
    "/": "/",
    "/a": "/a",
    "/a/": "/a/",
    "//a///b": "/a/b",
    "/a//": "/a/",
    "/~/": "/~/",
    "/~": "/~/",
    "~": "/~/",
    "~/data": "/~/data",
    "/./a/./b/.": "/a/b/",
    "/a/..b/c..": "/a/..b/c..",
    "/a/...": "/a/...",
    "/.hidden/.x": "/.hidden/.x",
    "/with blank/'quote\"/#/%41": "/with blank/'quote\"/#/%41",
    "/gr\u00fc\u00dfe/\u65e5\u672c": "/gr\u00fc\u00dfe/\u65e5\u672c",
    "/not\udcffutf8": "/not\udcffutf8",
    "/" + "n" * 255: "/" + "n" * 255,
    "/" + "/".join(["n" * 254] * 16): "/" + "/".join(["n" * 254] * 16),
}
BAD_PATHS = [
    "", "a", "a/b", "./a", "../a", "/..", "/../a", "/a/..", "/a/../b", "//..//a", "/~/../a", "~user/a", "/a\0b",
    "/a\nb",
    "/a\rb", "/a\tb", "/a\x1fb", "/a\x7fb", "/\x00", "/a\ud800b", "/" + "n" * 256, "/" + "\u00fc" * 128,
    "/" + "/".join(["n" * 255] * 17),
]  # fmt: skip


@pytest.mark.parametrize(("given_path", "wanted"), GOOD_PATHS.items())
def test_a_path_is_brought_into_its_one_form(given_path: str, wanted: str) -> None:
    assert request_rules.path(given_path, "path") == wanted


@pytest.mark.parametrize("path", BAD_PATHS)
def test_a_bad_path_is_refused_by_its_field(path: str) -> None:
    with pytest.raises(RequestError) as refused:
        request_rules.path(path, "DATA[3].source_path")
    assert refused.value.field == "DATA[3].source_path"


@given(st.text(alphabet=st.sampled_from("/.~ab\0\n\x7f\u00fc\udc80\ud800"), max_size=30))
def test_whatever_passes_is_clean_and_stays_as_it_is(text: str) -> None:
    try:
        path = request_rules.path(text, "path")
    except RequestError:
        return
    assert path.startswith("/")
    assert "//" not in path
    assert not {"..", "."} & set(path.split("/"))
    assert all(ord(character) >= 32 and character != "\x7f" for character in path)
    path.encode("utf-8", "surrogateescape")
    assert request_rules.path(path, "path") == path


@pytest.mark.parametrize("label", ["x" * 129, " x", "x ", "a\nb", "a\0b", "a\x7fb", "a\u2028b", "\ud800"])
def test_a_bad_label_is_refused(label: str) -> None:
    with pytest.raises(RequestError):
        request_rules.label(label)


@pytest.mark.parametrize(
    ("label", "wanted"), [(None, None), ("", None), ("x" * 128, "x" * 128), ("gr\u00fc\u00dfe 1", "gr\u00fc\u00dfe 1")]
)
def test_a_good_label_is_kept(label: str | None, wanted: str | None) -> None:
    assert request_rules.label(label) == wanted


@pytest.mark.parametrize("moment", [NOW, NOW - timedelta(seconds=1), (NOW + timedelta(days=1)).replace(tzinfo=None)])
def test_a_deadline_that_has_passed_or_has_no_zone_is_refused(moment: datetime) -> None:
    with pytest.raises(RequestError):
        request_rules.deadline(moment, NOW)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("sync_level", 4), ("sync_level", -1), ("sync_level", "1"), ("sync_level", True), ("sync_level", 1.5),
        ("verify_checksum", 1), ("verify_checksum", "yes"), ("perf_cc", 0), ("perf_cc", 65), ("perf_p", "4"),
        ("perf_pp", 101), ("recursive_symlinks", "follow"), ("source_local_user", "a\nb"), ("source_local_user", 5),
        ("bandwidth_limit", 0), ("bandwidth_limit", 99_999), ("bandwidth_limit", 10**12 + 1), ("bandwidth_limit", True),
        ("bandwidth_limit", "1 MB"), ("priority", "high"), ("priority", 1),
        ("filter_rules", {}), ("filter_rules", [1]), ("filter_rules", [{"method": "include"}]),
        ("filter_rules", [{"method": "keep", "name": "*"}]),
        ("filter_rules", [{"method": "exclude", "name": "*", "type": "x"}]),
        ("filter_rules", [{"method": "exclude", "name": "A/B"}]),
        ("filter_rules", [{"method": "exclude", "name": "B/"}]),
        ("filter_rules", [{"method": "include", "name": "/*"}]),
        ("filter_rules", [{"method": "exclude", "name": ".."}]),
    ],
)  # fmt: skip
def test_a_bad_option_is_refused_by_its_name(name: str, value: object) -> None:
    with pytest.raises(RequestError) as refused:
        options.complete(options.TRANSFER, {name: value})
    assert refused.value.field.startswith(name)


def test_options_are_completed_and_unknown_ones_passed_over() -> None:
    found = options.complete(options.TRANSFER, {"perf_p": 8, "perf_cc": None, "new": 1, "filter_rules": []})
    assert set(found) == set(options.TRANSFER)
    assert found["perf_p"] == 8
    assert found["perf_cc"] is None
    assert found["notify_on_failed"] is True
    assert found["filter_rules"] is None


@pytest.mark.parametrize("name", ["perf_udt", "encrypt_data"])
def test_udt_and_encryption_may_be_asked_for(name: str) -> None:
    assert options.complete(options.TRANSFER, {name: True})[name] is True


@pytest.mark.parametrize(
    ("known", "name", "value"),
    [
        (options.TRANSFER, "source_local_user", "root"), (options.TRANSFER, "destination_local_user", "root"),
        (options.DELETE, "local_user", "root"),
    ],
)  # fmt: skip
def test_what_only_a_later_version_can_do_is_refused_by_its_name(
    known: dict[str, options.TaskOption], name: str, value: object
) -> None:
    with pytest.raises(RequestError) as refused:
        options.complete(known, {name: value})
    assert refused.value.field == name
    assert refused.value.code == "ClientError.BadRequest.NotSupported"
    assert refused.value.reason.startswith("This version cannot ")
    default = known[name].default
    for harmless in (default, None):
        assert options.complete(known, {name: harmless})[name] == default
