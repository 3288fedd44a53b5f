"""The served folder: no path, symlink or race leads out of it, with openat2 and without."""

from __future__ import annotations

import errno
import os
import stat
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from endpoints.gridftp.faults import Kind, Side, classify
from endpoints.gridftp.replies import Reply
from endpoints.gridftp.server.errors import os_error_reply
from endpoints.gridftp.server.roots import root as root_module
from endpoints.gridftp.server.roots.by_path import PathRoot
from endpoints.gridftp.server.roots.root import Root, normalize
from endpoints.gridftp.server.roots.several import SeveralRoots
from endpoints.gridftp.server.roots.vanishing import VanishingRoot

paths = st.binary(max_size=40) | st.lists(st.sampled_from([b"..", b".", b"", b"a", b"~", b"b c"])).map(b"/".join)


@given(paths, paths)
def test_a_normal_path_is_absolute_and_has_no_steps_in_it(path, folder):
    found = normalize(path, normalize(folder))
    assert found.startswith(b"/")
    assert not {b"..", b"."} & set(found.split(b"/"))
    assert b"//" not in found
    if not found.startswith(b"/~"):
        assert normalize(found) == found


@pytest.mark.parametrize(
    ("path", "found"),
    [
        (b"/a/b", b"/a/b"),
        (b"a", b"/here/a"),
        (b"../../../etc/passwd", b"/etc/passwd"),
        (b"/~/a", b"/a"),
        (b"~", b"/"),
        (b"/~", b"/"),
        (b"~/a", b"/a"),
        (b"/x/~/a", b"/x/~/a"),
        (b"/~x", b"/~x"),
        (b"a//b/", b"/here/a/b"),
        (b"", b"/here"),
    ],
)
def test_paths_are_read_as_an_ftp_client_means_them(path, found):
    assert normalize(path, b"/here") == found


@pytest.fixture(params=[True, False, None], ids=["openat2", "walk", "by path"])
def root(request, tmp_path):
    served = tmp_path / "served"
    (served / "folder" / "deep").mkdir(parents=True)
    (served / "file").write_bytes(b"inside")
    (served / "folder" / "deep" / "file").write_bytes(b"deep inside")
    (tmp_path / "secret").write_bytes(b"outside")
    (tmp_path / "served-not").mkdir()
    (tmp_path / "served-not" / "file").write_bytes(b"outside")
    root = PathRoot(served) if request.param is None else Root(served, use_openat2=request.param)
    yield root
    root.close()


def read(root: Root, path: bytes) -> bytes:
    with root.opened(path, os.O_RDONLY) as fd:
        return os.read(fd, 100)


def folder_of(root: Root) -> Path:
    return Path(os.fsdecode(root.real))


def test_what_is_inside_is_opened(root):
    assert read(root, b"/file") == b"inside"
    assert read(root, b"/folder/deep/file") == b"deep inside"
    assert root.stat(b"/").st_ino == os.stat(root.real).st_ino
    root.require_folder(b"/folder")
    with pytest.raises(NotADirectoryError):
        root.require_folder(b"/file")
    with pytest.raises(FileNotFoundError):
        root.stat(b"/folder/none")
    with pytest.raises(NotADirectoryError):
        root.stat(b"/file/x")


@pytest.mark.parametrize(
    "target",
    ["../secret", "/etc/passwd", "folder/../../secret", "../served-not/file", "{parent}/secret",
     "{parent}/served-not/file", "{served}/../secret", "{served}", "..", "/", "/proc/self/root/etc/passwd"],
)  # fmt: skip
def test_a_symlink_never_leads_out(root, target):
    served = folder_of(root)
    (served / "folder" / "link").symlink_to(target.format(parent=served.parent, served=served))
    (served / "by").symlink_to("folder/link")
    for path in (b"/folder/link", b"/by", b"/by/passwd", b"/by/secret", b"/by/../secret", b"/folder/link/file"):
        try:
            found = read(root, path)
        except OSError:
            continue
        assert found == b"inside"


@pytest.mark.parametrize(
    ("target", "content"),
    [("file", b"inside"), ("folder/deep/file", b"deep inside"), ("folder/../file", b"inside"),
     ("{served}/file", b"inside"), ("{served}/folder/deep/../../file", b"inside"), ("./././file", b"inside")],
)  # fmt: skip
def test_a_symlink_that_stays_inside_is_followed(root, target, content):
    served = folder_of(root)
    (served / "link").symlink_to(target.format(served=served))
    assert read(root, b"/link") == content
    assert root.stat(b"/link").st_size == len(content)


def test_a_symlink_within_a_path_is_followed_up_and_down(root):
    (folder_of(root) / "folder" / "up").symlink_to("../folder/deep")
    (folder_of(root) / "absolute").symlink_to(folder_of(root) / "folder")
    assert read(root, b"/folder/up/file") == b"deep inside"
    assert read(root, b"/absolute/up/file") == b"deep inside"


def test_a_new_file_appears_where_a_dangling_symlink_points_but_not_outside(root):
    served = folder_of(root)
    (served / "link").symlink_to("folder/new")
    os.close(root.open(b"/link", os.O_WRONLY | os.O_CREAT))
    assert (served / "folder" / "new").is_file()
    (served / "out").symlink_to("../escaped")
    with pytest.raises(PermissionError):
        root.open(b"/out", os.O_WRONLY | os.O_CREAT)
    assert not (served.parent / "escaped").exists()


def test_symlinks_that_run_in_circles_end(root):
    (folder_of(root) / "a").symlink_to("b")
    (folder_of(root) / "b").symlink_to("a")
    with pytest.raises(OSError) as failure:
        root.stat(b"/a")
    assert failure.value.errno == errno.ELOOP


def test_the_root_itself_has_no_parent_to_change(root):
    with pytest.raises(OSError) as failure, root.parent(b"/"):
        pass
    assert failure.value.errno == errno.EBUSY


def test_a_path_without_end_is_refused(root):
    with pytest.raises(OSError) as failure:
        root.stat(b"/a" * 5000)
    assert failure.value.errno == errno.ENAMETOOLONG
    with pytest.raises(OSError) as failure:
        root.stat(b"/" + b"x" * 256)
    assert failure.value.errno == errno.ENAMETOOLONG


def test_only_regular_files_are_opened_as_files(root):
    os.mkfifo(folder_of(root) / "pipe")
    for path, number in ((b"/folder", errno.EISDIR), (b"/pipe", errno.EINVAL)):
        with pytest.raises(OSError) as failure, root.opened_file(path, os.O_RDONLY):
            pass
        assert failure.value.errno == number


#: The two ways that leave no gap between the check of a path and its use.
by_descriptor = pytest.mark.parametrize("root", [True, False], ids=["openat2", "walk"], indirect=True)


@by_descriptor
def test_nobody_slips_out_while_a_folder_is_swapped_for_a_symlink(root):
    """The classic race: between the check of a path and its use."""
    served = folder_of(root)
    trap = served / "trap"
    (served / "honest").mkdir()
    (served / "honest" / "secret").write_bytes(b"inside")
    (served / "evil").symlink_to("..")
    stop = threading.Event()

    def swap() -> None:
        while not stop.is_set():
            os.rename(served / "honest", trap)
            os.rename(trap, served / "honest")
            os.rename(served / "evil", trap)
            os.rename(trap, served / "evil")

    swapper = threading.Thread(target=swap)
    swapper.start()
    try:
        seen: set[bytes | int | None] = set()
        for _ in range(3000):
            try:
                seen.add(read(root, b"/trap/secret"))
            except OSError as error:
                seen.add(error.errno)
    finally:
        stop.set()
        swapper.join()
    assert b"outside" not in seen
    assert seen <= {b"inside", errno.ENOENT, errno.EACCES, errno.EAGAIN, errno.ENOTDIR}


def test_no_descriptor_is_left_open(root):
    served = folder_of(root)
    (served / "link").symlink_to("folder/../folder/deep/../../../out")
    before = len(os.listdir("/proc/self/fd"))
    for path in (b"/link", b"/folder/deep/file/x", b"/none/x", b"/file"):
        with suppress(OSError):
            root.stat(path)
    assert len(os.listdir("/proc/self/fd")) == before


@by_descriptor
@pytest.mark.parametrize("path", [b"/link", b"/link/deep", b"/folder/link", b"/folder/link/deep", b"/up", b"/file"])
def test_a_folder_is_opened_by_its_own_name_or_not_at_all(root, tmp_path, path):
    served = tmp_path / "served"
    (served / "link").symlink_to("folder")
    (served / "folder" / "link").symlink_to("../folder")
    (served / "up").symlink_to("..")
    for plain in (b"/", b"/folder", b"/folder/deep"):
        os.close(root.open_without_links(plain))
    with pytest.raises((OSError, NotADirectoryError)) as refused:
        root.open_without_links(path)
    assert refused.value.errno in (errno.ELOOP, errno.ENOTDIR)


class FoldingRoot(PathRoot):
    """A model of a disk that takes `Data` for `data`: names are looked up as Windows does it."""

    def _resolved(self, path: bytes) -> bytes:
        found = self.real
        for part in filter(None, path.split(b"/")):
            names = os.listdir(found) if os.path.isdir(found) else []
            found = os.path.join(found, next((name for name in names if name.lower() == part.lower()), part))
        return found


def test_a_name_that_differs_by_its_case_only_changes_no_other_file_on_a_disk_that_folds_case(tmp_path: Path) -> None:
    (tmp_path / "Folder").mkdir()
    (tmp_path / "Data.txt").write_bytes(b"first")
    root = FoldingRoot(tmp_path)
    for path in (b"/data.txt", b"/DATA.TXT", b"/folder", b"/folder/new"):
        with pytest.raises(OSError, match="by its case only"):
            root.require_writable(path)
    for path in (b"/Data.txt", b"/Folder/new", b"/new", b"/"):
        root.require_writable(path)
    assert read(root, b"/data.txt") == b"first", "what is only read is found by any case"


def test_by_descriptors_the_name_on_the_disk_counts_too(tmp_path: Path) -> None:
    """As on macOS: here a symlink makes another case lead to the file."""
    (tmp_path / "Data.txt").write_bytes(b"first")
    (tmp_path / "Folder").mkdir()
    (tmp_path / "data.txt").symlink_to("Data.txt")
    (tmp_path / "folder").symlink_to("Folder")
    root = Root(tmp_path)
    try:
        root.require_writable(b"/data.txt")
        root.folds_case = True
        for path in (b"/data.txt", b"/folder", b"/folder/new"):
            with pytest.raises(OSError, match="by its case only"):
                root.require_writable(path)
        for path in (b"/Data.txt", b"/Folder/new", b"/new", b"/", b"/missing/new"):
            root.require_writable(path)
    finally:
        root.close()


@pytest.mark.parametrize(
    "name",
    [
        *("CON", "nul.txt", "com1", "a:b", "what?", "ends.", "ends ", "a\\b", "NUL .tar.gz", "conin$", "CONOUT$"),
        *("a\x01b", "COM\u00b9", "lpt\u00b3.log", "file::$DATA"),
    ],
)
def test_a_name_that_windows_has_not_is_refused_before_anything_is_made(tmp_path: Path, name: str) -> None:
    root = PathRoot(tmp_path, as_windows=True)
    with pytest.raises(OSError, match="Not a file name on Windows") as caught:
        root.require_writable(os.fsencode(f"/{name}"))
    reply = os_error_reply(caught.value, "STOR", naming=True).decode().rstrip().splitlines()
    fault = classify(Reply(553, tuple(line.encode() for line in reply)), Side.DESTINATION)
    assert (fault.kind, fault.retryable) == (Kind.INVALID_PATH_NAME, False)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("name", [b"a\\b", b"..\\secret", b"file:stream", b"C:", b"ends.", b"not utf-8 \xff"])
def test_a_name_that_windows_has_not_is_not_looked_at_either(tmp_path: Path, name: bytes) -> None:
    """Windows would look at another file: MLST asks for the last name in its folder."""
    served = tmp_path / "served"
    (served / "folder").mkdir(parents=True)
    for folder in (served, served / "folder"):
        Path(os.fsdecode(os.path.join(os.fsencode(folder), name))).write_bytes(b"another")
    alone = PathRoot(served, as_windows=True)
    for root in (alone, OneRoot(alone)):
        for path in (b"/" + name, b"/folder/" + name):
            for look in (root.look, root.stat, root.require_writable):
                with pytest.raises(OSError, match="Not a file name on Windows"):
                    look(path)


class OneRoot(SeveralRoots):
    """Another root by its own paths, as a server of several folders and a confined session have it."""

    def __init__(self, root: Root) -> None:
        self.root = root

    @contextmanager
    def at(self, path: bytes, *, changing: bool = False) -> Iterator[tuple[Root, bytes]]:
        yield self.root, path

    def require_writable(self, path: bytes) -> None:
        self.root.require_writable(path)


@pytest.mark.parametrize(
    "target", [b"//evil.example.org/share/file", b"\\\\evil\\share", b"\\\\?\\C:\\x", b"C:/x", b"a/nul", b"a/../CON"]
)
def test_on_windows_no_symlink_is_made_that_leads_to_another_machine_or_device(tmp_path: Path, target: bytes) -> None:
    """Windows signs in at the machine, with the account of the server, as soon as anybody follows the symlink."""
    alone = PathRoot(tmp_path, as_windows=True)
    for root in (alone, OneRoot(alone)):
        with pytest.raises(OSError, match=r"Not a file name on Windows|leads out"):
            root.require_link_target(b"/link", target)
        for plain in (b"file", b"../other/file", b"./a", b"/a"):
            root.require_link_target(b"/link", plain)
    PathRoot(tmp_path).require_link_target(b"/link", target)


def test_the_short_name_of_a_file_is_not_its_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A model of NTFS, which finds "private data" as PRIVAT~1, too."""
    folder = tmp_path / "private data"
    folder.mkdir()
    (folder / "secret.txt").write_bytes(b"secret")
    (tmp_path / "Backup~1").write_bytes(b"named so")
    there = os.path.lexists
    monkeypatch.setattr(os.path, "lexists", lambda path: path.endswith(b"PRIVAT~1") or there(path))
    root = PathRoot(tmp_path, as_windows=True)
    for path in (b"/PRIVAT~1", b"/PRIVAT~1/secret.txt"):
        with pytest.raises(OSError, match="short name of another file"):
            root.stat(path)
        with pytest.raises(OSError, match="short name of another file"):
            root.require_writable(path)
    assert read(root, b"/Backup~1") == b"named so"
    assert read(root, b"/private data/secret.txt") == b"secret"
    root.require_writable(b"/new~2.txt")


@pytest.mark.timeout(60)
def test_a_pipe_is_looked_at_without_a_wait_where_the_system_has_no_o_path(
    root: Root, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As on macOS: a look is an opening."""
    monkeypatch.setattr(root_module, "_PATH", 0)
    os.mkfifo(os.path.join(root.real, b"pipe"))
    assert stat.S_ISFIFO(root.stat(b"/pipe").st_mode)


def test_the_free_space_of_a_folder_is_that_of_its_disk(root: Root) -> None:
    free = os.statvfs(root.real)
    assert abs(root.free_space(b"/folder") - free.f_bavail * free.f_frsize) < 2**30
    with pytest.raises(NotADirectoryError):
        root.free_space(b"/file")


# ---- a folder that may vanish


@pytest.fixture(params=[True, False], ids=["by descriptor", "by path"])
def disk(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where a folder is, and is not. It is used by the ways of Linux and of Windows."""
    if not request.param:
        monkeypatch.setattr(os, "supports_dir_fd", set())
    return tmp_path / "disk"


def test_a_folder_is_served_whenever_it_is_there(disk: Path) -> None:
    root = VanishingRoot(disk)
    for content in (b"first", b"second"):
        with pytest.raises(FileNotFoundError):
            root.require_folder(b"/")
        with pytest.raises(FileNotFoundError):
            read(root, b"/file")
        disk.mkdir()
        (disk / "file").write_bytes(content)
        assert read(root, b"/file") == content
        assert [name for name, _, _ in root.children(b"/")] == ["file"]
        assert root.free_space(b"/") > 0
        root.require_writable(b"/file")
        disk.rename(disk.with_name(content.decode()))
    root.close()


def test_no_folder_in_the_place_of_one_that_vanished_is_reached_by_a_symlink(disk: Path) -> None:
    """A client that may write above it could have made the symlink."""
    disk.mkdir()
    (disk.parent / "secret").mkdir()
    (disk.parent / "secret" / "file").write_bytes(b"outside")
    root = VanishingRoot(disk)
    disk.rmdir()
    disk.symlink_to("secret")
    with pytest.raises(OSError, match=r"symbolic|directory|leads out"):
        read(root, b"/file")
    root.close()


def test_a_folder_that_is_not_used_is_not_held(tmp_path: Path) -> None:
    """A disk with an open folder could not be unmounted."""
    (tmp_path / "disk").mkdir()
    root = VanishingRoot(tmp_path / "disk")
    assert root.stat(b"/").st_ino == (tmp_path / "disk").stat().st_ino
    held = []
    for name in os.listdir("/proc/self/fd"):
        with suppress(FileNotFoundError):  # the one by which they were listed
            held.append(os.readlink(f"/proc/self/fd/{name}"))
    root.close()
    assert not [path for path in held if path.startswith(str(tmp_path))]
