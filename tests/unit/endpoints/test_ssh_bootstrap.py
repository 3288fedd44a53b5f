"""The program that is sent to accounts: what is in it, and that what was hashed runs."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import zlib
from io import BufferedReader
from pathlib import Path

import pytest

from endpoints.gridftp.agent.tunnel import frames, octet_stream
from endpoints.gridftp.agent.tunnel.frames import FrameType
from endpoints.ssh.accounts import bootstrap, remote_shell
from endpoints.ssh.accounts.packed_server import MODULE, closure, program


def _pythons() -> list[str]:
    """Our interpreter, and those beside it, as pyenv installs them."""
    beside = Path(sys.base_prefix).parent.glob("3.*/bin/python3")
    return [sys.executable, *(str(path) for path in beside if int(path.parts[-3].split(".")[1]) >= 8)]


def test_the_program_has_our_server_and_nothing_of_the_service():
    paths = closure()
    assert {"endpoints/gridftp/agent/ssh_account.py", "endpoints/gridftp/facts.py", "endpoints/__init__.py"} <= paths
    rooms = {"/".join(path.split("/")[:2]) for path in paths}
    assert rooms <= {"endpoints/__init__.py", "endpoints/gridftp", "identity/__init__.py", "identity/gsi"}
    assert len(program().blob) < 128 * 1024


def test_the_same_sources_make_the_same_program():
    assert zlib.compress(zlib.decompress(program().blob), 9) == program().blob
    assert json.loads(zlib.decompress(program().blob)).keys() == closure()


def test_what_was_hashed_runs_though_the_file_is_swapped(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    sent = program()
    cache = bootstrap.Cache(sent.digest)
    cache.write(sent.blob)

    def swap(report: str) -> None:
        assert report == "cached"
        Path(cache.path).write_bytes(zlib.compress(b"{}"))

    assert bootstrap.obtain(len(sent.blob), sent.digest, swap) == sent.blob


def test_a_program_that_arrives_damaged_does_not_run(tmp_path):
    sent = program()
    damaged = sent.blob[:-1] + bytes([sent.blob[-1] ^ 1])
    assert (
        run(sys.executable, remote_shell.SFTP_INIT + damaged, tmp_path)[-1] == "mark failed the program arrived damaged"
    )
    assert not list(tmp_path.rglob("server-*"))


def test_a_program_that_arrives_by_half_does_not_run(tmp_path):
    sent = program()
    assert (
        run(sys.executable, remote_shell.SFTP_INIT + sent.blob[:1000], tmp_path)[-1]
        == "mark failed the program did not arrive"
    )


@pytest.mark.parametrize("python", _pythons())
def test_every_python_that_is_here_runs_it(tmp_path, python):
    said = b"USER x\r\nPASS x\r\nPWD\r\nQUIT\r\n"
    talk = remote_shell.SFTP_INIT + program().blob
    for frame in (
        frames.document(FrameType.OPEN, 1, {"kind": "control"}),
        frames.encode(FrameType.DATA, 1, said),
        frames.credit(1, 4096),
    ):
        talk += octet_stream.packed(frame)
    with begin(python, tmp_path) as process:
        assert process.stdin is not None
        assert isinstance(process.stdout, BufferedReader)
        process.stdin.write(talk)
        process.stdin.flush()
        reports = [process.stdout.readline().decode().strip() for _ in range(4)]
        channel = b""
        unpacker = octet_stream.Unpacker()
        while b"221" not in channel:
            arrived = [frames.decode(frame) for frame in unpacker.feed(process.stdout.read1(4096))]
            channel += b"".join(frame.payload for frame in arrived if frame.type is FrameType.DATA)
        process.stdin.close()
        assert process.wait(20) == 0
    assert reports[1:] == ["mark send new", "mark kept", "mark ready"]
    lines = channel.decode().splitlines()
    assert lines[0] == "220 Waybill GridFTP server ready."
    assert any(line.startswith(f'257 "{os.path.realpath(tmp_path)}"') for line in lines)


def test_arguments_that_a_shell_could_misread_are_refused():
    for word in ("a b", "$(id)", "'", "a;b", "`id`", "a\n"):
        with pytest.raises(ValueError, match="misread"):
            remote_shell.command("mark", program(), (word,))


def test_the_command_is_one_line_for_every_shell():
    line = remote_shell.command("mark", program(), ("50000-50010",))
    assert line.count("'") == 2
    assert not set(line) & set("\n!\\")
    assert len(line) < 16 * 1024
    for shell in filter(None, map(shutil.which, ("sh", "bash", "dash", "zsh", "csh", "tcsh", "fish", "ksh"))):
        done = subprocess.run(
            [shell, "-c", line], input=remote_shell.SFTP_INIT, capture_output=True, timeout=30, check=False,
            env={"PATH": "/usr/bin:/bin", "HOME": "/nonexistent", "XDG_CACHE_HOME": "/nonexistent"},
        )  # fmt: skip
        # No SSH_CONNECTION: no address.
        assert done.stdout.startswith(b"mark python - python3 +"), (shell, done)


def run(python: str, given: bytes, home: Path) -> tuple[str, ...]:
    """The lines of the whole command, whose input ends after `given`."""
    with begin(python, home) as process:
        out, _ = process.communicate(given, timeout=60)
    return tuple(out.decode().splitlines())


def begin(python: str, home: Path) -> subprocess.Popen[bytes]:
    """The whole command, in a shell whose only python3 is this one."""
    folder = home / "bin"
    folder.mkdir()
    for name in ("sh", "dd", "tail"):
        (folder / name).symlink_to(str(shutil.which(name)))
    (folder / "python3").write_text(f'#!/bin/sh\nexec {python} "$@"\n')
    (folder / "python3").chmod(0o755)
    line = remote_shell.command("mark", program(), ())
    environment = {"PATH": str(folder), "HOME": str(home)}
    return subprocess.Popen(
        ["/bin/sh", "-c", line], stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=home, env=environment
    )


def test_the_module_that_is_started_is_in_the_program():
    assert MODULE.replace(".", "/") + ".py" in closure()
