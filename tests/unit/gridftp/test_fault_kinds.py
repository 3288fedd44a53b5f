"""The kind of a fault is read from what a server says, and never from the names that it quotes."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from endpoints.gridftp.commands import encode, named_paths
from endpoints.gridftp.control import Answered, ControlChannel
from endpoints.gridftp.faults import _PHRASES, Fault, FaultScope, Kind, Side, classify, reported_shortfall
from endpoints.gridftp.replies import Reply
from endpoints.gridftp.third_party.slots import Slot, Transfer

WORDS = [
    "expired", "timeout", "quota exceeded", "permission denied", "is a directory", "connection reset", "too many",
    "file name too long", "No such file or directory", "maximum", "limit", "busy", "try later", "Directory", "not", "a",
]  # fmt: skip
#: (code, template, kind), as servers write it: {p} is the whole path, {n} its last component.
TEMPLATES = [
    (550, "{p}: Input/output error", Kind.UNKNOWN),
    (550, "{n}: Input/output error", Kind.UNKNOWN),
    (550, "{n}: Stale file handle", Kind.UNKNOWN),
    (550, "{p}: No such file or directory", Kind.FILE_NOT_FOUND),
    (550, "{n}: No such file or directory", Kind.FILE_NOT_FOUND),
    (550, '"{q}": Permission denied', Kind.PERMISSION_DENIED),
    (550, "'{p}': Is a directory", Kind.IS_A_DIRECTORY),
    (550, "Can't open {p}: No space left on device", Kind.NO_SPACE_LEFT),
    (550, "/srv/chroot of alice{p}: Operation not permitted", Kind.PERMISSION_DENIED),
    (550, "/home/alice{p}: Input/output error", Kind.UNKNOWN),
    (550, "{d}: Not a directory", Kind.NOT_A_DIRECTORY),
    (553, "{d}: Read-only file system", Kind.PERMISSION_DENIED),
    (553, "Prohibited file name: {p}", Kind.INVALID_PATH_NAME),
    (550, "{n}: Forbidden filename", Kind.INVALID_PATH_NAME),
    (553, "{n}: File name not allowed", Kind.INVALID_PATH_NAME),
    (550, "The system cannot find the file specified. ", Kind.FILE_NOT_FOUND),
    (550, "{n}: The system cannot find the path specified.", Kind.FILE_NOT_FOUND),
    (550, "File not found", Kind.FILE_NOT_FOUND),
    (550, "{p} does not exist.", Kind.FILE_NOT_FOUND),
    (550, "{p}: Access is denied. ", Kind.PERMISSION_DENIED),
    (550, "{d}: The directory is not empty. ", Kind.DIRECTORY_NOT_EMPTY),
    (550, "{n}: Cannot create a file when that file already exists. ", Kind.PATH_EXISTS),
    (550, "There is not enough space on the disk. ", Kind.NO_SPACE_LEFT),
    (550, "{p}: No such file or permission denied", Kind.UNKNOWN),
    (550, "File does not exist, or access to {p} is denied", Kind.UNKNOWN),
    (530, "Please log in before you ask for {p}", Kind.AUTH),
    (550, "{p}", Kind.UNKNOWN),
    (550, "No such file or directory", Kind.FILE_NOT_FOUND),
    (550, "Is a directory", Kind.IS_A_DIRECTORY),
]


def answer(line: bytes, text: bytes) -> Reply:
    """The reply to a command, as the channel reports it."""
    channel = ControlChannel()
    list(channel.receive(b"220 hello\r\n"))
    channel.send_line(line[:4].decode().strip(), line)
    (event,) = channel.receive(text + b"\r\n")
    assert isinstance(event, Answered)
    return event.reply


def fault_of(path: str, code: int, template: str, *, encoding: str = "utf-8") -> Fault:
    folder, _, name = path.rpartition("/")
    text = template.format(p=path, n=name, q=path.replace('"', '""'), d=folder or "/")
    line = encode("RETR", path.encode("utf-8", "surrogateescape"))
    return classify(answer(line, f"{code} {text}".encode(encoding, "surrogateescape")))


@pytest.mark.parametrize(("code", "template", "kind"), TEMPLATES)
def test_a_name_with_the_words_of_another_fault_changes_no_kind(code: int, template: str, kind: Kind) -> None:
    patterns = ("/in/{}.csv", "/in/{}", "/{}/file", "/a/{} of today/b/{}.txt", '/in/{} "quoted".x')
    paths = [pattern.format(word, word) for pattern in patterns for word in WORDS]
    kinds = {path: fault_of(path, code, template).kind for path in paths}
    assert {path: found for path, found in kinds.items() if found is not kind} == {}


names = st.lists(
    st.one_of(
        st.sampled_from([*WORDS, *(phrase for phrase, _ in _PHRASES)]),
        st.text(st.characters(codec="latin-1", exclude_characters="/", exclude_categories=["Cc"]), max_size=12),
        st.sampled_from(list(" .-_'\"\\:?()")),
    ),
    min_size=1,
    max_size=5,
).map(lambda parts: "".join(parts).strip())
paths = (
    st.lists(names.filter(lambda name: name not in ("", ".", "..")), min_size=1, max_size=4)
    .map(lambda parts: "/" + "/".join(parts))
    .filter(lambda path: len(path) < 300)
)


@given(paths, st.sampled_from([one for one in TEMPLATES if "{d}" not in one[1] and "{n}" not in one[1]]))
@example("/quota exceeded/timeout", (550, "{p}: Input/output error", Kind.UNKNOWN))
def test_no_path_at_all_changes_the_kind(path: str, case: tuple[int, str, Kind]) -> None:
    code, template, kind = case

    assert fault_of(path, code, template).kind is kind


@given(names.filter(lambda name: name not in ("", ".", "..") and ":" not in name))
def test_no_name_without_its_folder_changes_the_kind(name: str) -> None:
    assert fault_of(f"/in/{name}", 550, "{n}: Input/output error").kind is Kind.UNKNOWN
    assert fault_of(f"/in/{name}", 550, "{n}: Permission denied").kind is Kind.PERMISSION_DENIED


def test_a_name_in_another_encoding_than_ours_is_known_again() -> None:
    assert fault_of("/in/é expired é.csv", 550, "{p}: Input/output error", encoding="latin-1").kind is Kind.UNKNOWN


def test_a_refused_rename_quotes_either_name() -> None:
    channel = ControlChannel()
    list(channel.receive(b"220 hello\r\n"))
    for line in (b"RNFR /in/quota exceeded.part\r\n", b"RNTO /in/expired.csv\r\n"):
        channel.send_line(line[:4].decode(), line)
    text = b"350 ok\r\n550 Rename of /in/quota exceeded.part to /in/expired.csv: Input/output error\r\n"
    _, refused = channel.receive(text)
    assert isinstance(refused, Answered)

    assert classify(refused.reply).kind is Kind.UNKNOWN


@pytest.mark.parametrize(
    ("line", "paths"),
    [
        (b"RETR /a b\r\n", (b"/a b",)),
        (b"ERET P 0 100 /a\r\n", (b"/a",)),
        (b"CKSM MD5 0 -1 /a\r\n", (b"/a",)),
        (b"LIST -a /a\r\n", (b"/a",)),
        (b"SITE SYMLINKFROM expired\r\n", (b"expired",)),
        (b"SITE WAYBILL REPLACE 4 /a/b /c d\r\n", (b"/a/b", b"/c d")),
        (b"PASS secret/word\r\n", ()),
        (b"NOOP\r\n", ()),
    ],
)
def test_only_paths_are_remembered_of_a_command(line: bytes, paths: tuple[bytes, ...]) -> None:
    assert named_paths(line) == paths


@pytest.mark.parametrize(
    "text",
    [
        "530 Too many simultaneous logins for this user (2)",
        "530 Sorry, the maximum number of clients (2) from your host are already connected.",
        "530 Sorry, max 3 users -- try again later",
        "530 Only 5 connections allowed per user.",
        "530 Login limit exceeded",
        "530 User limit reached",
        "530 Server is full",
        "421 There are too many connected users, please try later.",
        "421 There are too many connections from your internet address.",
        "421 Too many connections (2) from this IP",
        "421 2 users (the maximum) are already logged in, sorry",
        "421 I can't accept more than 2 connections as the same user",
        "421 Service busy: Connection limit exceeded. Please try again later. Closing control connection.",
        "425 Cannot open data connection: no more connections, try again later",
        "530 Sorry, this server is closed for maintenance",
        "421 Connection refused, max clients",
        "421 Unable to accept connection: server is at capacity",
        "530 There are already 5 users from your host",
        "530 Sorry, you have exceeded the number of allowed sessions",
        "530 Connections exceeded",
        "530 Access denied, only one session allowed",
        "530 Cannot log in: another session is active",
        "530 Zu viele Verbindungen",
        "530 Trop de connexions",
        "530 Demasiadas conexiones",
        "550 Too many connections",
        "503 too many users",
        "452 Too many simultaneous connections",
        "426 Too many users",
    ],
)
def test_a_full_server_is_busy_and_asks_nobody_for_a_credential(text: str) -> None:
    fault = classify(Reply(int(text[:3]), (text[4:].encode(),)))

    assert (fault.kind, fault.scope, fault.retryable) == (Kind.ENDPOINT_TOO_BUSY, FaultScope.ENDPOINT, True)


@pytest.mark.parametrize(
    "text",
    [
        "530 Login incorrect.",
        "530 Too many failed login attempts, try again later",
        "530 Too many login failures",
        "530 Authentication failed, please try later",
        "530 Maximum number of login attempts reached",
        "530 Account temporarily locked",
        "530 User alice cannot log in.",
        "530 Not logged in.",
        "530 Permission denied.",
        "530 Access denied.",
        "530 Zu viele fehlgeschlagene Anmeldungen",
        "430 Invalid username or password",
        "530 Login incorrect: no such file or directory",
    ],
)
def test_a_refused_credential_stays_one(text: str) -> None:
    assert classify(Reply(int(text[:3]), (text[4:].encode(),))).kind is Kind.AUTH


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        # vsftpd, ProFTPD and Pure-FTPd on a full disk, and on a read-only one.
        ("451 Failure writing to local file.", Kind.NO_SPACE_LEFT),
        ("451 Error during write to file", Kind.NO_SPACE_LEFT),
        ("452 Transfer aborted. No space left on device", Kind.NO_SPACE_LEFT),
        ("553 Could not create file.", Kind.PERMISSION_DENIED),
        ("550 Create directory operation failed.", Kind.PERMISSION_DENIED),
        ("550 Rename failed.", Kind.PERMISSION_DENIED),
        ("451 Rename/move failure: Read-only file system", Kind.PERMISSION_DENIED),
        ("550 /in/file: Read-only file system", Kind.PERMISSION_DENIED),
    ],
)
def test_full_and_read_only_disks_are_known_by_the_words_of_each_server(text: str, kind: Kind) -> None:
    assert classify(Reply(int(text[:3]), (text[4:].encode(),))).kind is kind


@pytest.mark.parametrize(
    ("source", "destination", "blamed"),
    [
        # The receiver is the cause, and the sender only meets its end.
        ("426 Broken pipe", "451 Failure writing to local file.", Side.DESTINATION),
        ("426 Connection reset by peer", "451 Local error in processing", Side.DESTINATION),
        ("426 Failure writing network stream.", "552 Disk full", Side.DESTINATION),
        ("426 Broken pipe", "425 Can't open data connection: it came from another account", Side.DESTINATION),
        ("550 No such file or directory", "426 Connection closed; transfer aborted.", Side.SOURCE),
        ("451 Input/output error", "426 Connection closed; transfer aborted.", Side.SOURCE),
    ],
)
def test_the_side_that_met_the_cause_is_blamed(source: str, destination: str, blamed: Side) -> None:
    slot = Slot(Transfer("file", b"/in/file", b"/out/file"))
    for side, text in ((Side.SOURCE, source), (Side.DESTINATION, destination)):
        slot.side(side).answered(Reply(int(text[:3]), (text[4:].encode(),)), side)

    assert slot.cause.side is blamed


def test_vsftpd_says_of_a_folder_that_it_may_not_read_that_the_transfer_is_done() -> None:
    reply = Reply(226, (b"Transfer done (but failed to open directory).",))
    assert reported_shortfall(reply, 0)
    assert not reported_shortfall(Reply(226, (b"Directory send OK.",)), 0)


@pytest.mark.parametrize(
    "told",
    [
        "Transfer complete, but could not read 3 entries",
        "Closing data connection; unable to open folder",
        "Directory send OK, access is denied to some files.",
        "Listing completed with errors",
        "Transfer complete (Input/output error)",
    ],
)
def test_a_success_that_names_an_error_is_no_complete_listing(told: str) -> None:
    assert reported_shortfall(Reply(226, (told.encode(),)), 3)


def test_the_text_of_rfc_959_for_success_speaks_of_an_abort_and_is_none() -> None:
    text = b"Closing data connection. Requested file action successful (for example, file transfer or file abort)."
    assert not reported_shortfall(Reply(226, (text,)), 3)
    for told in (b"ABOR command successful", b"Transfer aborted.", b"Listing interrupted"):
        assert reported_shortfall(Reply(226, (told,)), 3)


@pytest.mark.parametrize(
    "text",
    [
        "530 Non-anonymous sessions must use encryption.",
        "550 SSL/TLS required on the control channel",
        "522 SSL/TLS required on the data channel",
        "534 Policy requires SSL.",
        "421 TLS required",
        "503 Use AUTH first.",
        "530 Sorry, only encrypted sessions are allowed",
    ],
)
def test_a_server_that_wants_tls_asks_nobody_for_a_credential_and_ends_the_task(text: str) -> None:
    fault = classify(Reply(int(text[:3]), (text[4:].encode(),)))

    assert (fault.kind, fault.scope, fault.retryable) == (Kind.UNSUPPORTED, FaultScope.ENDPOINT, False)
    assert "ftpes" in fault.advice


def test_a_file_named_after_tls_is_only_a_file() -> None:
    assert fault_of("/in/tls required.txt", 550, "{p}: Permission denied").kind is Kind.PERMISSION_DENIED
    assert fault_of("/in/too many users", 550, "{p}: Input/output error").kind is Kind.UNKNOWN
