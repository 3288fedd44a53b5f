"""The deepest common folder of what a transfer names."""

import pytest

from transferapi.tasks.bases import common
from transferapi.tasks.events import printable


@pytest.mark.parametrize(
    ("paths", "expected"),
    [
        ([("/data/run/", True)], "/data/run/"),
        ([("/data/run", False)], "/data/"),
        ([("/data/run", True)], "/data/run/"),
        ([("/f", False)], "/"),
        ([("/", True)], "/"),
        ([("/data/a/f", False), ("/data/b/g", False)], "/data/"),
        ([("/data/a/f", False), ("/data/a/g", False)], "/data/a/"),
        ([("/data/a", True), ("/data/ab", True)], "/data/"),
        ([("/data/a/", True), ("/data/a/b/c", False)], "/data/a/"),
        ([("/a/x", False), ("/b/x", False)], "/"),
        ([("/~/a/x", False), ("/~/b/", True)], "/~/"),
        ([("/~/", True)], "/~/"),
        ([("/~/x", False), ("/x/y", False)], "/"),
        ([("/ä/\udcff/x", False), ("/ä/\udcff/y/", True)], "/ä/\udcff/"),
    ],
)
def test_the_deepest_common_folder(paths: list[tuple[str, bool]], expected: str) -> None:
    assert common(paths) == expected


def test_what_is_no_utf_8_is_replaced() -> None:
    assert printable("/ä/\udcff/") == "/ä/\ufffd/"
