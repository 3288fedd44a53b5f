"""Output and checks of the first transfer: progress line, sample data, differences."""

from __future__ import annotations

from pathlib import Path

from deploy.sample.data import FOLDER, LARGE_SIZE, SMALL_FILES, make_sample_data, sizes
from deploy.sample.first_transfer import differences, progress


def test_the_progress_line_reports_files_bytes_rate_and_what_is_left() -> None:
    assert progress(30, 90, 30_000_000, 90_000_000, 2.0) == "30/90 files, 30.0/90.0 MB, 15.0 MB/s, 4 s to go"


def test_the_progress_line_promises_nothing_before_the_first_byte() -> None:
    assert progress(0, 301, 0, 90_000_000, 0.0) == "0/301 files, 0.0/90.0 MB, 0.0 MB/s, starting"


def test_the_sample_data_is_made_once_and_is_the_same_everywhere(tmp_path: Path) -> None:
    for name in ("one", "two"):
        make_sample_data(tmp_path / name / "source", tmp_path / name / "destination")
    one, two = (tmp_path / name / "source" / FOLDER.strip("/") for name in ("one", "two"))
    assert sizes(one)[0] == SMALL_FILES + 1
    assert (one / "large.dat").stat().st_size == LARGE_SIZE
    assert differences(one, two) == []
    assert (tmp_path / "one" / "source" / "share" / "godata" / "file3.txt").read_text().startswith("This is file 3")
    (one / "large.dat").write_text("changed by the user")
    make_sample_data(tmp_path / "one" / "source", tmp_path / "one" / "destination")
    assert differences(one, two) == ["large.dat"]


def test_a_file_that_did_not_arrive_or_arrived_wrong_is_found(tmp_path: Path) -> None:
    for side in ("a", "b"):
        (tmp_path / side / "folder").mkdir(parents=True)
        (tmp_path / side / "folder" / "same").write_text("same")
    (tmp_path / "a" / "folder" / "missing").write_text("x")
    (tmp_path / "a" / "wrong").write_text("1")
    (tmp_path / "b" / "wrong").write_text("2")
    assert differences(tmp_path / "a", tmp_path / "b") == ["folder/missing", "wrong"]
