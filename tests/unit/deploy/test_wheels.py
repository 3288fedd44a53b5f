"""The check that each pinned library has a wheel for each Python and processor, against an index of the test's own."""

from __future__ import annotations

import base64
from pathlib import Path
from typing import Any

import pytest

from deploy.release import package_index, wheels
from deploy.stack.free_ports import free_port
from transferapi.config import CHECKOUT

from .package_index import PackageIndex, index  # noqa: F401 - a fixture

DIGESTS = {name: format(number, "064x") for number, name in enumerate(("pure", "one", "other", "strange"))}


@pytest.fixture
def lock(tmp_path: Path) -> str:
    path = tmp_path / "requirements.lock"
    path.write_text(
        "".join(f"{line} \\\n    --hash=sha256:{DIGESTS['pure']} \\\n    --hash=sha256:{DIGESTS['one']} \\\n"
                f"    --hash=sha256:{DIGESTS['other']}\n" for line in ("pure==1.0", "built==2.0"))
    )  # fmt: skip
    return str(path)


def offer(index: PackageIndex, project: str, **files: str) -> None:  # noqa: F811
    """Files by the name of their digest."""
    listed = [{"filename": file, "hashes": {"sha256": DIGESTS[name]}} for name, file in files.items()]
    index.pages[f"/root/simple/{project}/"] = {"files": listed}


def run(index: PackageIndex, lock: str) -> int:  # noqa: F811
    return wheels.main(["--index", index.address, lock])


def test_a_wheel_of_python_code_serves_all(index: PackageIndex, lock: str, capsys: Any) -> None:  # noqa: F811
    offer(index, "pure", pure="pure-1.0-py3-none-any.whl")
    offer(index, "built", one="built-2.0-py3-none-any.whl")
    assert run(index, lock) == 0
    assert capsys.readouterr().out == "2 packages: 0 without a wheel for some of 8 systems.\n"


def test_each_python_and_processor_without_a_wheel_is_named(
    index: PackageIndex,  # noqa: F811
    lock: str,
    capsys: Any,
) -> None:
    offer(index, "pure", pure="pure-1.0-py3-none-any.whl")
    offer(
        index,
        "built",
        pure="built-2.0-cp312-abi3-manylinux_2_28_x86_64.whl",
        one="built-2.0-cp311-cp311-manylinux_2_17_aarch64.manylinux2014_aarch64.whl",
    )
    assert run(index, lock) == 1
    missing = ", ".join(("Python 3.11 on x86_64", *(f"Python 3.{minor} on aarch64" for minor in (12, 13, 14))))
    assert capsys.readouterr().out.splitlines()[0] == f"built 2.0: no wheel for {missing}"


@pytest.mark.parametrize(
    "file",
    [
        "built-2.0.tar.gz",
        "built-2.0-cp311-cp311-win_amd64.whl",
        "built-2.0-cp311-cp311-musllinux_1_2_x86_64.whl",
        "built-2.0-cp314-cp314t-manylinux_2_28_x86_64.whl",
        "built-2.0-cp314-cp314-manylinux_2_39_x86_64.whl",
        "no wheel.whl",
    ],
)
def test_a_file_that_no_such_system_takes_does_not_count(
    index: PackageIndex,  # noqa: F811
    lock: str,
    capsys: Any,
    file: str,
) -> None:
    offer(index, "pure", pure="pure-1.0-py3-none-any.whl")
    offer(index, "built", one=file)
    assert run(index, lock) == 1
    assert capsys.readouterr().out.count("Python 3.") == 8


def test_a_file_whose_hash_is_not_in_the_lock_does_not_count(index: PackageIndex, lock: str) -> None:  # noqa: F811
    offer(index, "pure", pure="pure-1.0-py3-none-any.whl")
    offer(index, "built", strange="built-2.0-py3-none-any.whl")
    assert run(index, lock) == 1


def test_an_index_that_is_away_is_named(lock: str, capsys: Any) -> None:
    words = ["--index", f"http://127.0.0.1:{free_port()}/simple", lock]
    assert (wheels.main(words), wheels.main(["--strict", *words])) == (0, 2)
    assert "Nothing was checked" in capsys.readouterr().err


def test_the_lock_files_are_checked_where_they_are_written() -> None:
    recipe = (CHECKOUT / "Makefile").read_text().partition("\nlock:")[2].partition("\n\n")[0]
    assert "-m deploy.release.wheels --strict requirements.lock requirements-test.lock" in recipe


@pytest.mark.parametrize("page", [500, 403, b"<html>", b"[]", b"[" * 100_000, b"x" * 2000])
def test_an_index_that_does_not_speak_the_api_is_named_as_such(
    index: PackageIndex,  # noqa: F811
    lock: str,
    capsys: Any,
    monkeypatch: pytest.MonkeyPatch,
    page: Any,
) -> None:
    monkeypatch.setattr(package_index, "MOST_OCTETS", 1000)
    offer(index, "pure", pure="pure-1.0-py3-none-any.whl")
    index.pages["/root/simple/built/"] = page
    assert (run(index, lock), wheels.main(["--index", index.address, "--strict", lock])) == (0, 2)
    assert "Nothing was checked: the package index's files are not reachable" in capsys.readouterr().err


def test_a_password_in_the_address_is_sent_and_not_shown(index: PackageIndex, lock: str, capsys: Any) -> None:  # noqa: F811
    index.address = index.address.replace("//", "//alice:pass%20word@")
    assert run(index, lock) == 1
    assert {sent for _, sent in index.asked} == {f"Basic {base64.b64encode(b'alice:pass word').decode()}"}
    assert "pass" not in "".join(capsys.readouterr())


def test_the_index_is_the_one_that_pip_uses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PIP_INDEX_URL", "https://index.example.org/simple")
    assert package_index.configured_index() == "https://index.example.org/simple"
    monkeypatch.delenv("PIP_INDEX_URL")
    assert package_index.configured_index().startswith("http")
