"""Files of a box: its list of created paths, its settings, and its options."""

from __future__ import annotations

import dataclasses
import os
import shutil
from pathlib import Path

import pytest

from deploy.endpoint.authority import fits, serves
from deploy.endpoint.boxed.command import main
from deploy.endpoint.boxed.errors import BoxError
from deploy.endpoint.boxed.record import BoxRecord
from deploy.endpoint.boxed.services import Box
from deploy.endpoint.boxed.settings import BoxSettings, load
from deploy.endpoint.boxed.setup import _what_now
from tests.gridftp.authority import Authority

GOOD = BoxSettings(name="dtn", host="dtn.example.org", waybill="https://waybill.example.org")


@pytest.fixture
def record(tmp_path: Path) -> BoxRecord:
    return BoxRecord(tmp_path / "box", create=True)


def test_what_was_made_is_removed_and_nothing_else(record: BoxRecord) -> None:
    record.folder(record.root / "inside")
    record.file(record.root / "inside" / "file", "text", 0o600)
    (record.root / "theirs").write_text("precious")

    assert record.remove_all() == [record.root]
    assert [path.name for path in record.root.iterdir() if path.name != "made"] == ["theirs"]


def test_a_path_is_on_the_list_before_it_is_there(record: BoxRecord) -> None:
    record.note(record.root / "never-made")
    record.close()
    again = BoxRecord(record.root, create=False)

    assert again.has(record.root / "never-made")
    assert again.remove_all() == []
    assert not record.root.exists()


def test_a_line_that_a_crash_cut_off_is_forgotten(record: BoxRecord) -> None:
    record.file(record.root / "file", "text")
    record.close()
    with record.path.open("ab") as file:
        file.write(b"/etc/pass")
    again = BoxRecord(record.root, create=True)
    again.note(record.root / "other")

    assert again.path.read_text().splitlines()[-1] == str(record.root / "other")
    assert not again.has(Path("/etc/pass"))


def test_files_of_others_are_neither_written_nor_claimed(record: BoxRecord) -> None:
    (record.root / "theirs").write_text("precious")
    with pytest.raises(BoxError, match="not of this box"):
        record.file(record.root / "theirs", "ours")

    assert not record.has(record.root / "theirs")


def test_a_symlink_at_our_place_is_not_followed(record: BoxRecord, tmp_path: Path) -> None:
    (tmp_path / "victim").write_text("precious")
    record.file(record.root / "file", "ours")
    (record.root / "file").unlink()
    (record.root / "file").symlink_to(tmp_path / "victim")
    record.file(record.root / "file", "ours again")
    record.remove_all()

    assert (tmp_path / "victim").read_text() == "precious"


def test_two_at_once_are_distinguished(record: BoxRecord) -> None:
    with pytest.raises(BoxError, match="another `box` is running"):
        BoxRecord(record.root, create=True)


def test_unchanged_content_is_not_written_again(record: BoxRecord) -> None:
    assert record.file(record.root / "file", "text")
    record.changed = False
    inode = (record.root / "file").stat().st_ino

    assert not record.file(record.root / "file", "text")
    assert not record.changed
    assert (record.root / "file").stat().st_ino == inode


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("host", "two words"),
        ("host", ""),
        ("host", "name/CN=root"),
        ("name", "a name"),
        ("waybill", "file:///etc/passwd"),
        ("waybill", ""),
        ("port", 0),
        ("port", 7512),
        ("myproxy_port", 65536),
        ("data_ports", "51000-50000"),
        ("data_ports", "many"),
        ("data_ports", "2000-3000"),
        ("address", "localhost"),
        ("pam_service", "../passwd"),
        ("hours", 0),
    ],
)
def test_options_that_cannot_be_meant_are_refused_by_name(option: str, value: object) -> None:
    with pytest.raises(BoxError, match=f"--{option.replace('_', '-')}"):
        GOOD.with_options({option: value}).checked()


def test_settings_are_what_they_were_and_hold_no_token(tmp_path: Path) -> None:
    after = GOOD.with_options({"port": 2812, "host": None, "token_file": Path("secret")})
    (tmp_path / "settings.json").write_text(after.text())

    assert load(tmp_path) == after
    assert (after.host, after.port) == ("dtn.example.org", 2812)
    assert "secret" not in after.text()
    assert after.with_options({"host": "other.example.org"}).namespace == after.namespace


def test_no_two_boxes_may_certify_the_same_names(tmp_path: Path) -> None:
    """Two boxes of one host, a box that is set up again, and boxes of older versions must not share names."""
    names = [GOOD.with_options({}).namespace for _ in range(20)]
    assert len(set(names)) == 20
    assert not any(name.startswith("/O=Waybill Endpoint/OU=dtn.example.org") for name in names)
    authorities = [Authority(tmp_path / str(number), namespace=name) for number, name in enumerate(names[:2])]
    assert not set(authorities[0].hashes()) & set(authorities[1].hashes())


def test_a_box_from_before_keeps_its_name_and_says_what_may_be_in_the_way(tmp_path: Path) -> None:
    before = BoxSettings(**{**dataclasses.asdict(GOOD), "namespace": "/O=Waybill Endpoint/OU=dtn.example.org"})
    (tmp_path / "settings.json").write_text(before.text())
    known = load(tmp_path)
    assert known is not None
    assert known.with_options({"port": 2812}).namespace == before.namespace
    assert not known.has_own_name
    box = Box(tmp_path, known)
    authority = Authority(tmp_path / "authority", namespace=before.namespace)
    said = " ".join(_what_now(known, box, authority, "the files"))
    assert f"Older files there whose names begin with {authority.hashes()[0]}" in said
    assert "Older files" not in " ".join(_what_now(GOOD.with_options({}), box, authority, "the files"))


def test_settings_that_cannot_be_read_are_an_error_and_no_fresh_start(tmp_path: Path) -> None:
    (tmp_path / "settings.json").write_text("{")

    with pytest.raises(BoxError, match=r"settings\.json cannot be read"):
        load(tmp_path)


def test_a_box_that_is_not_there_is_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["status", "--folder", str(tmp_path / "none")]) == 1
    assert "nothing is set up" in capsys.readouterr().err


#: `openssl x509 -checkhost` of Debian 13 (OpenSSL 3.5) has status 1 where the name is another one.
NEWER_OPENSSL = """#!/bin/sh
said=$({openssl} "$@") || exit
printf '%s\\n' "$said"
case $said in *"does NOT match"*) exit 1 ;; esac
"""


def test_another_host_is_another_one_for_newer_versions_of_openssl_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = Authority(tmp_path / "authority").issue_host(["dtn.example.org"], stem="one")
    program = tmp_path / "openssl"
    program.write_text(NEWER_OPENSSL.format(openssl=shutil.which("openssl")))
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    assert serves(one, "dtn.example.org", days=60)
    assert not serves(one, "else.example.org", days=60)


def test_a_host_certificate_is_for_its_host_and_its_key(tmp_path: Path) -> None:
    authority = Authority(tmp_path / "authority")
    one, other = (authority.issue_host(["dtn.example.org"], stem=stem) for stem in ("one", "other"))

    assert serves(one, "dtn.example.org", days=60)
    assert not serves(one, "else.example.org", days=60)
    assert not serves(one, "dtn.example.org", days=10_000)
    one.key.write_bytes(other.key.read_bytes())
    assert not fits(one)
