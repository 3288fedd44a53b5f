"""Tasks to servers that refuse the name of a file on its way, or do not do what they confirm; and from odd ones."""

from __future__ import annotations

import os
import posixpath
from collections.abc import Callable
from pathlib import Path

import asyncssh
import pytest

from endpoints.gridftp.server import GridFtpServer
from endpoints.gridftp.streams.data_stream import RestartRefusedError
from endpoints.gridftp.streams.file_streams import OctetBudget
from endpoints.ssh.sftp.login import SftpLogin
from tests.gridftp.ends import End
from tests.gridftp.ftp_servers import NEEDS_FTP_SERVERS, FtpServer
from tests.gridftp.lying_sftp import LyingSftp, lying
from tests.gridftp.odd_ftp import OddFtp, OddSession
from tests.gridftp.streamed_tasks import StreamedTask, tree

FACTS = (*(OddFtp.features or ()), "MLST type*;size*;modify*;")
NAMES = ("a", "b", "sub/c")


class WithFacts(OddFtp):
    features: tuple[str, ...] | None = FACTS


def is_hidden(path: bytes) -> bool:
    return posixpath.basename(path).startswith(b".")


def refusing(verb: str, reply: str, *, only_hidden: bool = False) -> type[OddFtp]:
    class Refusing(WithFacts):
        def answer(self, asked: str, argument: bytes, session: OddSession) -> str | None:
            return reply if asked == verb and (is_hidden(argument) or not only_hidden) else None

    return Refusing


class NoRename(WithFacts):
    unknown = frozenset({"RNFR", "RNTO"})


class Shy(OddFtp):
    """Knows no SIZE and no MLST, and lists no name that begins with a dot."""

    features = None
    unknown = frozenset({"SIZE", "MDTM", "MLST", "MLSD", "FEAT", "REST"})

    def listing(self, folder: bytes, verb: str) -> bytes:
        names = [os.path.join(folder, name) for name in sorted(os.listdir(folder)) if not is_hidden(name)]
        return b"".join(self.line(name, verb) + self.end_of_line for name in names)


REFUSALS: dict[str, type[OddFtp]] = {
    "no rename": NoRename,
    "rename refused without a cause": refusing("RNTO", "550 Rename not possible"),
    "rename refused by Windows": refusing("RNTO", "550 Cannot create a file when that file already exists. "),
    "rename refused for now": refusing("RNTO", "450 File busy"),
    "prohibited": refusing("STOR", "553 Prohibited file name", only_hidden=True),
    "forbidden": refusing("STOR", "550 Forbidden filename", only_hidden=True),
    "denied": refusing("STOR", "550 Access is denied. ", only_hidden=True),
    "without a cause": refusing("STOR", "501 No", only_hidden=True),
    "not shown": Shy,
}


def filled(folder: Path) -> Path:
    for name in NAMES:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(name * 10)
    return folder


@pytest.mark.parametrize("name", REFUSALS)
async def test_a_server_that_refuses_the_names_of_files_on_their_way_gets_real_names(tmp_path: Path, name: str) -> None:
    filled(tmp_path / "from" / "in")
    (tmp_path / "there").mkdir()
    with GridFtpServer(tmp_path / "from") as source, REFUSALS[name](tmp_path / "there") as destination:
        task = StreamedTask(End(source.port), End(destination.port), [("/in/", "/to/", True)])
        await task.run()
    assert task.store.status == "SUCCEEDED"
    assert tree(tmp_path / "there" / "to") == tree(tmp_path / "from" / "in")
    assert len(task.faults()) <= len(NAMES)


@NEEDS_FTP_SERVERS
async def test_pure_ftpd_prohibits_names_that_begin_with_a_dot(tmp_path: Path) -> None:
    filled(tmp_path / "in")
    with GridFtpServer(tmp_path) as source, FtpServer("pure-ftpd", tmp_path / "pure", "-x") as destination:
        items = [("/in/", destination.path(destination.data / "to") + "/", True)]
        task = StreamedTask(End(source.port), destination.end, items)
        await task.run()
        assert task.store.status == "SUCCEEDED"
        assert tree(destination.data / "to") == tree(tmp_path / "in")


async def test_a_file_that_no_name_helps_is_given_up_by_its_own_fault(tmp_path: Path) -> None:
    filled(tmp_path / "from" / "in")
    (tmp_path / "there").mkdir()
    with (
        GridFtpServer(tmp_path / "from") as source,
        refusing("STOR", "553 Prohibited file name")(tmp_path / "there") as destination,
    ):
        task = StreamedTask(End(source.port), End(destination.port), [("/in/", "/to/", True)])
        await task.run()
    assert task.store.status == "FAILED"
    assert task.faults() == ["INVALID_PATH_NAME"] * len(NAMES)
    assert len(destination.log) < 150


# ---- sources by MLSD


def facts_as(form: str) -> type[OddFtp]:
    """A server whose lines of MLSD have this form: {t} type, {s} size."""

    class Facts(WithFacts):
        def line(self, path: bytes, verb: str) -> bytes:
            if verb != "MLSD":
                return super().line(path, verb)
            kind = "dir" if os.path.isdir(path) else "file"
            return form.format(t=kind, s=os.stat(path).st_size).encode() + os.path.basename(path)

    return Facts


def announcing(form: str, facts: str) -> type[OddFtp]:
    made = facts_as(form)
    made.features = (*(OddFtp.features or ()), f"MLST {facts}")
    return made


class OneLine(WithFacts):
    """Answers MLST with a single line."""

    def answer(self, verb: str, argument: bytes, session: OddSession) -> str | None:
        path = self.real(session.path(argument))
        return f"250 {self.line(path, 'MLSD').decode()}" if verb == "MLST" and os.path.exists(path) else None


@pytest.mark.parametrize(
    "kind",
    [
        facts_as("type={t}; size={s}; modify=20200102030405; "),
        announcing("type={t};modify=20200102030405; ", "type*;modify*;"),
        announcing("size={s};modify=20200102030405; ", "size*;modify*;"),
        OneLine,
    ],
    ids=["blanks between facts", "no size", "no type", "MLST in one line"],
)
async def test_facts_in_other_forms_are_read_or_asked_for_otherwise(tmp_path: Path, kind: type[OddFtp]) -> None:
    filled(tmp_path / "from" / "in")
    with kind(tmp_path / "from") as source, GridFtpServer(tmp_path) as destination:
        task = StreamedTask(End(source.port), End(destination.port), [("/in/", "/to/", True)], {"sync_level": 1})
        await task.run()
    assert (task.store.status, task.faults()) == ("SUCCEEDED", [])
    assert tree(tmp_path / "to") == tree(tmp_path / "from" / "in")


@pytest.mark.parametrize("form", ["type={t};modify=20200102030405; ", "size={s};modify=20200102030405; ", " "])
async def test_a_mirror_of_files_without_a_type_or_a_size_replaces_and_deletes_nothing(
    tmp_path: Path, form: str
) -> None:
    """Taken for empty files they would be sent, found to have another size, and removed with what they replaced."""
    filled(tmp_path / "from" / "in")
    filled(tmp_path / "to")
    (tmp_path / "to" / "extra").write_text("extra")
    before = tree(tmp_path / "to")
    options = {"sync_level": 1, "delete_destination_extra": True}
    with facts_as(form)(tmp_path / "from") as source, GridFtpServer(tmp_path) as destination:
        task = StreamedTask(End(source.port), End(destination.port), [("/in/", "/to/", True)], options)
        await task.run()
    assert task.store.status == "FAILED"
    assert tree(tmp_path / "to") == before


# ---- SFTP


def sftp_refusing(method: str, error: Callable[[str], asyncssh.SFTPError]) -> type[LyingSftp]:
    def refuse(self: LyingSftp, *_: object) -> None:
        raise error("no")

    return type("Refusing", (LyingSftp,), {method: refuse})


class WithoutTypes(LyingSftp):
    """Sends permissions only in the line of `ls -l`, and no size of a folder's entries."""

    @staticmethod
    def _cut(found: os.stat_result) -> asyncssh.SFTPAttrs:
        attrs = asyncssh.SFTPAttrs.from_local(found)
        attrs.permissions = None
        return attrs

    def stat(self, path: bytes) -> asyncssh.SFTPAttrs:
        return self._cut(super().stat(path))  # type: ignore[arg-type]

    def lstat(self, path: bytes) -> asyncssh.SFTPAttrs:
        return self._cut(super().lstat(path))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "kind",
    [
        sftp_refusing("readlink", asyncssh.SFTPPermissionDenied),
        sftp_refusing("readlink", asyncssh.SFTPOpUnsupported),
        sftp_refusing("readlink", asyncssh.SFTPFailure),
        sftp_refusing("realpath", asyncssh.SFTPOpUnsupported),
        WithoutTypes,
    ],
    ids=["link denied", "links unknown", "link failed", "no home", "no types"],
)
async def test_facts_that_an_sftp_server_does_not_send_spoil_nothing_else(
    tmp_path: Path, kind: type[LyingSftp]
) -> None:
    folder = filled(tmp_path / "in")
    (folder / "link").symlink_to("a")
    (tmp_path / "keys").mkdir()
    async with lying(tmp_path / "keys", kind) as end:
        with GridFtpServer(tmp_path) as destination:
            task = StreamedTask(end, End(destination.port), [(f"{folder}/", "/to/", True)])
            await task.run()
    assert (task.store.status, task.faults()) == ("SUCCEEDED", [])
    assert tree(tmp_path / "to") == tree(folder)


class Forgetful(LyingSftp):
    """Confirms what it does not store."""

    def write(self, file_obj: object, offset: int, data: bytes) -> int:
        return len(data)


class KeepsTheTail(LyingSftp):
    """Does not truncate a file that is there."""

    def open(self, path: bytes, pflags: int, attrs: asyncssh.SFTPAttrs) -> object:
        return super().open(path, pflags & ~asyncssh.FXF_TRUNC, attrs)


@pytest.mark.parametrize("kind", [Forgetful, KeepsTheTail])
async def test_a_file_with_another_size_than_was_written_is_a_fault(tmp_path: Path, kind: type[LyingSftp]) -> None:
    """A second try within the second of the first one leaves the entry as it was, as far as SFTP shows."""
    filled(tmp_path / "in")
    there = filled(tmp_path / "to")
    (there / "a").write_text("x" * 1000)
    os.utime(there / "a", (1e9, 1e9))
    (tmp_path / "keys").mkdir()
    async with lying(tmp_path / "keys", kind) as end:
        with GridFtpServer(tmp_path) as source:
            task = StreamedTask(End(source.port), end, [("/in/a", f"{there}/a", False)])
            await task.run()
    assert task.store.status == "FAILED"
    assert "FILE_SIZE_CHANGED" in task.faults()
    assert set(task.faults()) <= {"FILE_SIZE_CHANGED", "ENDPOINT_ERROR"}


@pytest.mark.parametrize("error", [asyncssh.SFTPPermissionDenied, asyncssh.SFTPFailure])
async def test_an_sftp_server_may_refuse_names_that_begin_with_a_dot(
    tmp_path: Path, error: Callable[[str], asyncssh.SFTPError]
) -> None:
    class NoDots(LyingSftp):
        def open(self, path: bytes, pflags: int, attrs: asyncssh.SFTPAttrs) -> object:
            if is_hidden(path) and pflags & asyncssh.FXF_WRITE:
                raise error("no")
            return super().open(path, pflags, attrs)

    filled(tmp_path / "in")
    (tmp_path / "keys").mkdir()
    async with lying(tmp_path / "keys", NoDots) as end:
        with GridFtpServer(tmp_path) as source:
            task = StreamedTask(End(source.port), end, [("/in/", f"{tmp_path}/to/", True)])
            await task.run()
    assert task.store.status == "SUCCEEDED"
    assert tree(tmp_path / "to") == tree(tmp_path / "in")


# ---- files that are continued, and files that are stored late


class RestForgotten(WithFacts):
    """Cuts a large file in the middle; then it accepts REST, and sends the file from its beginning."""

    cuts = 2

    def answer(self, verb: str, argument: bytes, session: OddSession) -> str | None:
        if verb != "RETR" or not argument.endswith(b"big"):
            return None
        content = Path(os.fsdecode(self.real(session.path(argument)))).read_bytes()
        session.say("150 here")
        self.cuts -= 1
        with session.data() as data:
            data.sendall(content if self.cuts < 0 else content[: len(content) // 2])
        return "226 done" if self.cuts < 0 else "426 cut"


async def test_a_source_that_forgets_where_to_begin_spoils_no_file(tmp_path: Path) -> None:
    (tmp_path / "from").mkdir()
    (tmp_path / "from" / "big").write_bytes(os.urandom(8_000_000))
    with RestForgotten(tmp_path / "from") as source, GridFtpServer(tmp_path) as destination:
        task = StreamedTask(End(source.port), End(destination.port), [("/big", "/to/big", False)])
        await task.run()
    assert any(verb == "REST" for verb, _ in source.log)
    assert task.store.status == "SUCCEEDED"
    assert "FILE_SIZE_CHANGED" not in task.faults()
    assert tree(tmp_path / "to") == tree(tmp_path / "from")


class RestUnknown(RestForgotten):
    unknown = frozenset({"REST"})


class CutsStores(WithFacts):
    """Cuts what it stores in the middle, three times."""

    cuts = 3

    def answer(self, verb: str, argument: bytes, session: OddSession) -> str | None:
        if verb != "STOR" or self.cuts <= 0:
            return None
        self.cuts -= 1
        offset, session._offset = session._offset, 0
        with open(self.real(session.path(argument)), "r+b" if offset else "wb") as file:
            file.seek(offset)
            session.say("150 here")
            with session.data() as data:
                for _ in range(60):
                    file.write(data.recv(65536))
        return "426 cut"


class ForgetsWhenStoring(CutsStores):
    """Accepts REST, and stores from the beginning of the file."""

    def answer(self, verb: str, argument: bytes, session: OddSession) -> str | None:
        return "350 ok" if verb == "REST" else super().answer(verb, argument, session)


class RefusesWhenStoring(CutsStores):
    unknown = frozenset({"REST"})


@pytest.mark.parametrize("kind", [RestUnknown, ForgetsWhenStoring, RefusesWhenStoring, CutsStores])
async def test_files_arrive_whole_where_a_server_cannot_begin_in_the_middle(tmp_path: Path, kind: type[OddFtp]) -> None:
    (tmp_path / "from").mkdir()
    (tmp_path / "there").mkdir()
    (tmp_path / "from" / "big").write_bytes(os.urandom(24_000_000))
    is_source = kind is RestUnknown
    with (
        kind(tmp_path / ("from" if is_source else "there")) as odd,
        GridFtpServer(tmp_path / ("there" if is_source else "from")) as other,
    ):
        ends = (End(odd.port), End(other.port)) if is_source else (End(other.port), End(odd.port))
        task = StreamedTask(*ends, [("/big", "/to/big", False)])
        await task.run()
    assert task.store.status == "SUCCEEDED"
    assert len(task.faults()) <= 4
    assert tree(tmp_path / "there" / "to") == tree(tmp_path / "from")


class StoresLate(WithFacts):
    """Confirms a file before it is stored: it is when it has been asked for twice."""

    def __init__(self, root: Path) -> None:
        super().__init__(root)
        self.late: dict[Path, bytes] = {}
        self.asked: set[Path] = set()

    def answer(self, verb: str, argument: bytes, session: OddSession) -> str | None:
        path = Path(os.fsdecode(self.real(session.path(argument))))
        if verb == "MLST" and path in self.late and path.exists():
            if path in self.asked:
                path.write_bytes(self.late.pop(path))
            self.asked.add(path)
        elif verb == "RNTO":
            if content := self.late.pop(Path(os.fsdecode(session._renamed)), b""):
                self.late[path] = content
        elif verb == "STOR":
            path.touch()
            session.say("150 here")
            with session.data() as data, data.makefile("rb") as content_of_it:
                self.late[path] = content_of_it.read()
            return "226 done"
        return None


async def test_a_destination_may_show_the_size_of_a_file_a_little_later(tmp_path: Path) -> None:
    filled(tmp_path / "from" / "in")
    (tmp_path / "there").mkdir()
    with GridFtpServer(tmp_path / "from") as source, StoresLate(tmp_path / "there") as destination:
        task = StreamedTask(End(source.port), End(destination.port), [("/in/", "/to/", True)])
        await task.run()
    assert (task.store.status, task.faults()) == ("SUCCEEDED", [])
    assert tree(tmp_path / "there" / "to") == tree(tmp_path / "from" / "in")


class ObjectStore(LyingSftp):
    """Each handle that writes is a new file, which takes its name when it is closed."""

    def open(self, path: bytes, pflags: int, attrs: asyncssh.SFTPAttrs) -> object:
        if not pflags & asyncssh.FXF_WRITE:
            return super().open(path, pflags, attrs)
        part = path + b"." + os.urandom(4).hex().encode()
        file = super().open(part, pflags | asyncssh.FXF_CREAT, attrs)
        self.__dict__.setdefault("parts", {})[file] = (part, path)
        return file

    def close(self, file_obj: object) -> None:
        super().close(file_obj)
        part, path = self.__dict__.get("parts", {}).pop(file_obj, (b"", b""))
        if part:
            os.replace(part, path)


class LosesHandles(ObjectStore):
    """Ends the connection in the middle of the first file."""

    cut = False

    def write(self, file_obj: object, offset: int, data: bytes) -> int:
        if offset > 6_000_000 and not LosesHandles.cut:
            LosesHandles.cut = True
            self.channel.get_connection().abort()
        return super().write(file_obj, offset, data)  # type: ignore[return-value]


@pytest.mark.parametrize("kind", [ObjectStore, LosesHandles])
async def test_a_large_file_arrives_where_each_handle_is_a_file_of_its_own(
    tmp_path: Path, kind: type[LyingSftp]
) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "big").write_bytes(os.urandom(12_000_000))
    (tmp_path / "keys").mkdir()
    LosesHandles.cut = False
    async with lying(tmp_path / "keys", kind) as end:
        with GridFtpServer(tmp_path) as source:
            task = StreamedTask(End(source.port), end, [("/in/big", f"{tmp_path}/to/big", False)])
            await task.run()
    assert task.store.status == "SUCCEEDED"
    assert tree(tmp_path / "to")["big"] == tree(tmp_path / "in")["big"]


async def test_what_an_open_file_does_not_show_is_not_continued(tmp_path: Path) -> None:
    (tmp_path / "keys").mkdir()
    for kind, continued in ((ObjectStore, False), (LyingSftp, True)):
        (tmp_path / "part").write_bytes(b"x" * 1000)
        async with lying(tmp_path / "keys", kind) as end:
            assert isinstance(end.login, SftpLogin)
            session = await end.login.open_session(end.host, end.port)
            try:
                share = OctetBudget(1 << 20).share()
                writer = await session.open_writer(f"{tmp_path}/part", 1000, share)
                await writer.finish()
                assert continued
            except RestartRefusedError:
                assert not continued
            finally:
                await session.close()


class RenamesNothing(WithFacts):
    """Confirms a new name, and does not give it."""

    def answer(self, verb: str, argument: bytes, session: OddSession) -> str | None:
        return "250 ok" if verb == "RNTO" else None


class RenamesNothingWithoutFacts(RenamesNothing):
    features = OddFtp.features


@pytest.mark.parametrize("kind", [RenamesNothing, RenamesNothingWithoutFacts])
async def test_a_file_whose_new_name_is_only_confirmed_is_written_under_its_real_name(
    tmp_path: Path, kind: type[OddFtp]
) -> None:
    filled(tmp_path / "from" / "in")
    (tmp_path / "there").mkdir()
    with GridFtpServer(tmp_path / "from") as source, kind(tmp_path / "there") as destination:
        task = StreamedTask(End(source.port), End(destination.port), [("/in/", "/to/", True)])
        await task.run()
    assert task.store.status == "SUCCEEDED"
    assert tree(tmp_path / "there" / "to").items() >= tree(tmp_path / "from" / "in").items()


@pytest.mark.parametrize("method", ["posix_rename", "rename"])
async def test_a_file_whose_new_name_an_sftp_server_only_confirms_is_written_under_its_real_name(
    tmp_path: Path, method: str
) -> None:
    filled(tmp_path / "in")
    (tmp_path / "keys").mkdir()
    unknown = {"posix_rename": sftp_refusing("posix_rename", asyncssh.SFTPOpUnsupported).posix_rename}
    kind = type("RenamesNothing", (LyingSftp,), {**unknown, method: lambda *_: None})
    async with lying(tmp_path / "keys", kind) as end:
        with GridFtpServer(tmp_path) as source:
            task = StreamedTask(End(source.port), end, [("/in/", f"{tmp_path}/to/", True)])
            await task.run()
    assert task.store.status == "SUCCEEDED"
    assert tree(tmp_path / "to").items() >= tree(tmp_path / "in").items()


# ---- servers that store a file under another name


class StoresElsewhere(WithFacts):
    """Stores a file whose name exists under another name, and says so in no reply, as Pure-FTPd with AutoRename."""

    def answer(self, verb: str, argument: bytes, session: OddSession) -> str | None:
        if verb != "STOR" or not os.path.exists(self.real(session.path(argument))):
            return None
        with session.data() as connection, open(self.real(session.path(argument)) + b".1", "wb") as file:
            session.say("150 here")
            while data := connection.recv(65536):
                file.write(data)
        return "226 done"


class StoresElsewhereWithoutFacts(StoresElsewhere):
    features = OddFtp.features


async def replaced(
    tmp_path: Path, destination: End, to: str, old: dict[str, str], kind: type[OddFtp] | type[GridFtpServer]
) -> tuple[StreamedTask, Path]:
    """A task over these files, which are of 2020. kind: of the source."""
    filled(tmp_path / "from" / "in")
    there = tmp_path / "data" / "to"
    for name, content in old.items():
        (there / name).parent.mkdir(parents=True, exist_ok=True)
        (there / name).write_text(content)
        os.utime(there / name, (1.6e9, 1.6e9))
    with kind(tmp_path / "from") as source:
        task = StreamedTask(End(source.port), destination, [("/in/", to, True)])
        await task.run()
    return task, there


OTHERS = {"a": "x" * 10, "b": "longer than b", "sub/c": "y"}


def check_kept(task: StreamedTask, there: Path) -> list[str]:
    """Each of the old files that is still there has met one fault, and the others were replaced. Returns the former.

    Files that a lane gave back are sent under names of their own, and renamed: those arrive.
    """
    found = {name: (there / name).read_text() for name in OTHERS}
    kept = [name for name in OTHERS if found[name] == OTHERS[name]]
    assert {name: found[name] for name in OTHERS if name not in kept} == {n: n * 10 for n in OTHERS if n not in kept}
    assert task.store.status == "FAILED"
    assert task.faults() == ["ENDPOINT_ERROR"] * len(kept), "none is tried again"
    return kept


@pytest.mark.parametrize("source", [GridFtpServer, WithFacts], ids=["third party", "streamed"])
@pytest.mark.parametrize("kind", [StoresElsewhere, StoresElsewhereWithoutFacts])
async def test_a_file_that_is_stored_under_another_name_has_not_arrived(
    tmp_path: Path, kind: type[OddFtp], source: type[OddFtp] | type[GridFtpServer]
) -> None:
    (tmp_path / "data").mkdir()
    with kind(tmp_path / "data") as server:
        kept = check_kept(*await replaced(tmp_path, End(server.port), "/to/", OTHERS, source))
        assert kept == list(OTHERS) if source is GridFtpServer else "sub/c" in kept


@NEEDS_FTP_SERVERS
async def test_pure_ftpd_with_autorename_is_not_believed(tmp_path: Path) -> None:
    (tmp_path / "data" / "to" / "sub").mkdir(parents=True)
    for name, content in OTHERS.items():
        (tmp_path / "data" / "to" / name).write_text(content)
    with FtpServer("pure-ftpd", tmp_path, "-r") as server:
        task, there = await replaced(tmp_path, server.end, server.path(server.data / "to") + "/", OTHERS, GridFtpServer)
        assert check_kept(task, there) == list(OTHERS)
        assert (there / "a.1").read_text() == "a" * 10, "where the server has put it"


async def test_a_file_whose_entry_looks_as_before_is_compared_by_its_content(tmp_path: Path) -> None:
    """Servers that show no time, and files that are replaced within one second, have arrived all the same."""
    (tmp_path / "data").mkdir()
    with facts_as("type={t};size={s}; ")(tmp_path / "data") as server:
        task, there = await replaced(tmp_path, End(server.port), "/to/", {"a": "x" * 10}, GridFtpServer)
    assert (task.store.status, task.faults()) == ("SUCCEEDED", [])
    assert tree(there) == tree(tmp_path / "from" / "in")


# ---- deletions


def confirming(*verbs: str, form: type[OddFtp] = WithFacts) -> type[OddFtp]:
    """A server that confirms these commands, and does nothing."""

    class Confirming(form):  # type: ignore[valid-type, misc]
        def answer(self, verb: str, argument: bytes, session: OddSession) -> str | None:
            return "250 gone" if verb in verbs else None

    return Confirming


class WithoutFacts(OddFtp):
    """Is listed by LIST."""


class WithLinks(OddFtp):
    features = (*(OddFtp.features or ()), "MLST type*;size*;modify*;UNIX.slink*;")


@pytest.mark.parametrize("form", [WithFacts, WithoutFacts, WithLinks])
@pytest.mark.parametrize("verbs", [("DELE",), ("RMD",), ("DELE", "RMD")])
async def test_a_server_that_confirms_removals_and_removes_nothing_fails_the_deletion(
    tmp_path: Path, verbs: tuple[str, ...], form: type[OddFtp]
) -> None:
    """A folder counts as a hidden link where its DELE is confirmed: then it must be gone."""
    filled(tmp_path / "in")
    with confirming(*verbs, form=form)(tmp_path) as server:
        task = StreamedTask(End(server.port), None, [("/in/", None, True)], {"recursive": True})
        await task.run()
    assert (tmp_path / "in" / "sub").is_dir()
    assert task.store.status == "FAILED"
    assert set(task.faults()) <= {"ENDPOINT_ERROR", "DIRECTORY_NOT_EMPTY"}
    assert "ENDPOINT_ERROR" in task.faults() or form is WithLinks


@pytest.mark.parametrize("form", [WithFacts, WithoutFacts])
@pytest.mark.parametrize("tries", [2, 1000])
async def test_a_deletion_whose_connection_ends_at_each_folder_ends_with_a_fault(
    tmp_path: Path, form: type[OddFtp], tries: int
) -> None:
    """One that ends at some of the tries only is continued."""

    class Ending(form):  # type: ignore[valid-type, misc]
        ended = 0

        def answer(self, verb: str, argument: bytes, session: OddSession) -> str | None:
            if verb == "RMD" and self.ended < tries:
                self.ended += 1
                raise ConnectionResetError
            return None

    filled(tmp_path / "in")
    with Ending(tmp_path) as server:
        task = StreamedTask(End(server.port), None, [("/in/", None, True)], {"recursive": True})
        await task.run(60)
    if tries == 2:
        assert (task.store.status, (tmp_path / "in").exists()) == ("SUCCEEDED", False)
    else:
        assert (task.store.status, (tmp_path / "in" / "sub").is_dir()) == ("FAILED", True)
        assert set(task.faults()) <= {"CONNECTION_BROKEN", "CONNECTION_RESET"}
        assert server.ended <= 25


async def test_a_single_file_whose_removal_is_only_confirmed_fails_the_deletion(tmp_path: Path) -> None:
    filled(tmp_path / "in")
    with confirming("DELE")(tmp_path) as server:
        task = StreamedTask(End(server.port), None, [("/in/a", None, None), ("/in/b", None, None)])
        await task.run()
    assert (task.store.status, set(task.faults())) == ("FAILED", {"ENDPOINT_ERROR"})
    assert len(task.faults()) == 2, "each of the files"


class RemovesLater(WithFacts):
    """Removes what it has confirmed a little later: when it is asked for the third time."""

    def __init__(self, root: Path) -> None:
        super().__init__(root)
        self.asked: dict[bytes, int] = {}

    def answer(self, verb: str, argument: bytes, session: OddSession) -> str | None:
        path = self.real(session.path(argument))
        if verb == "RMD":
            self.asked[path] = 0
            return "250 gone"
        if verb == "MLST" and path in self.asked:
            self.asked[path] += 1
            if self.asked[path] == 3:
                os.rmdir(path)
        return None


async def test_a_folder_may_be_removed_a_little_after_it_was_confirmed(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    with RemovesLater(tmp_path) as server:
        task = StreamedTask(End(server.port), None, [("/in/", None, True)], {"recursive": True})
        await task.run()
    assert (task.store.status, task.faults()) == ("SUCCEEDED", [])
    assert not (tmp_path / "in").exists()


MIRROR = {"delete_destination_extra": True, "sync_level": 1}


@pytest.mark.parametrize(
    ("verbs", "extra"), [(("DELE",), "extra"), (("RMD",), "old/extra"), (("DELE", "RMD"), "old/x")]
)
async def test_a_mirror_says_which_extras_it_could_not_delete_where_the_server_only_confirms_it(
    tmp_path: Path, verbs: tuple[str, ...], extra: str
) -> None:
    filled(tmp_path / "in")
    there = filled(tmp_path / "there" / "to")
    (there / extra).parent.mkdir(exist_ok=True)
    (there / extra).write_text("x")
    with (
        GridFtpServer(tmp_path) as source,
        confirming(*verbs, form=WithLinks)(tmp_path / "there") as destination,
    ):
        task = StreamedTask(End(source.port), End(destination.port), [("/in/", "/to/", True)], MIRROR)
        await task.run()
    assert (there / extra.partition("/")[0]).exists()
    assert "DELETE_DESTINATION_EXTRA_SKIPPED" in task.store.codes()


@pytest.mark.parametrize("methods", [("rmdir",), ("remove",), ("rmdir", "remove")])
async def test_an_sftp_server_that_confirms_removals_and_removes_nothing_fails_the_deletion(
    tmp_path: Path, methods: tuple[str, ...]
) -> None:
    kind = type("Confirming", (LyingSftp,), {method: lambda *_: None for method in methods})
    folder = filled(tmp_path / "in")
    (tmp_path / "keys").mkdir()
    async with lying(tmp_path / "keys", kind) as end:
        task = StreamedTask(end, None, [(f"{folder}/", None, True)], {"recursive": True})
        await task.run()
    assert (folder / "sub").is_dir()
    assert task.store.status == "FAILED"
