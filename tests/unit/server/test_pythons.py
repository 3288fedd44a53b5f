"""The server on every Python from 3.8 on that this machine has, and on a system that lacks what Windows lacks."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from docs.draw.imports import ROOT

OLDEST = (3, 8)
#: All that the server imports, besides the standard library.
FILES = [
    "endpoints/gridftp/server",
    *(f"endpoints/gridftp/{name}.py" for name in ("facts", "ranges", "markers", "commands")),
    *(f"{folder}/__init__.py" for folder in ("endpoints", "endpoints/gridftp", "identity", "identity/gsi")),
    *(f"identity/gsi/{name}.py" for name in ("name_spelling", "printable", "signing_policy")),
]

#: Serves a real transfer to itself, in both modes, with TLS and without, and prints what it has imported.
SCRIPT = r"""
import base64, os, socket, sys, tempfile
from endpoints.gridftp.server import GridFtpServer, RootPart
from pathlib import Path

class Client:
    def __init__(self, port):
        self.sock = socket.create_connection(("127.0.0.1", port), timeout=20)
        self.file = self.sock.makefile("rb")
        self.reply()
    def reply(self):
        line = self.file.readline()
        lines = [line]
        while lines[-1][:4] != line[:3] + b" ":
            lines.append(self.file.readline())
        return line[:3].decode(), b"".join(lines)
    def final(self):
        code, text = self.reply()
        while code[0] == "1":
            code, text = self.reply()
        return code, text
    def ask(self, line, wanted="2"):
        self.sock.sendall(line + b"\r\n")
        code, text = self.final()
        assert code[0] in wanted, (line, text)
        return text

def address(text):
    return text.split(b"(")[1].split(b")")[0]

def transfer(source, destination, old, new):
    source.ask(b"PORT " + address(destination.ask(b"PASV")))
    destination.sock.sendall(b"STOR " + new + b"\r\n")
    source.sock.sendall(b"RETR " + old + b"\r\n")
    for client in (source, destination):
        code, text = client.final()
        assert code == "226", text

folder = Path(tempfile.mkdtemp())
content = os.urandom(3 * 2**20 + 77)
(folder / "a").mkdir(); (folder / "b").mkdir()
(folder / "a" / "f").write_bytes(content)
blob = sys.argv[1].encode()
roots = [RootPart(str(folder / name), name, name == "b") for name in ("a", "b")]
with GridFtpServer(roots=roots) as server:
    clients = [Client(server.port) for _ in range(2)]
    for client in clients:
        client.ask(b"USER anonymous", "3"); client.ask(b"PASS x"); client.ask(b"TYPE I")
    for number, mode in enumerate((b"S", b"E", b"P")):
        for client in clients:
            client.ask(b"MODE " + (b"S" if mode == b"S" else b"E"))
            client.ask(b"OPTS RETR Parallelism=2,2,2;")
            if mode == b"P":
                client.ask(b"DCSC " + blob); client.ask(b"DCAU A"); client.ask(b"PROT P")
        transfer(*clients, b"/a/f", b"/b/%d" % number)
        assert (folder / "b" / str(number)).read_bytes() == content, mode
    one = clients[0]
    one.ask(b"MKD /b/new"); one.ask(b"RNFR /b/0", "3"); one.ask(b"RNTO /b/new/0"); one.ask(b"SITE CHMOD 600 /b/1")
    one.ask(b"MFMT 20200101000000 /b/1"); one.ask(b"DELE /b/new/0"); one.ask(b"RMD /b/new")
    one.ask(b"SITE TRNC 5 /b/2")
    assert int(one.ask(b"AVBL /b").split()[1]) > 0
    (folder / "b" / "old").write_bytes(b"old"); (folder / "b" / "new").write_bytes(b"new")
    one.ask(b"RNFR /b/new", "3"); one.ask(b"RNTO /b/old")
    assert (folder / "b" / "old").read_bytes() == b"new" and not (folder / "b" / "new").exists()
    assert one.ask(b"MDTM /b/1").strip() == b"213 20200101000000"
    assert b"; 1\r\n" in one.ask(b"MLSC /b") and b"; a\r\n" in one.ask(b"MLSC /")
    assert len(one.ask(b"CKSM SHA256 0 -1 /b/1").split()[1]) == 64
    assert one.ask(b"SIZE /b/2").strip() == b"213 5"
    one.ask(b"DELE /a/f", "5"); one.ask(b"SIZE /a/../../etc/passwd", "5")
    if hasattr(os, "symlink"):
        os.symlink("/etc/passwd", str(folder / "b" / "link"))
        one.ask(b"CKSM MD5 0 -1 /b/link", "5")
    for client in clients:
        client.ask(b"QUIT")
        client.file.close()
        client.sock.close()
print("served")
"""

#: Takes away what Windows has not; the rest of the standard library is imported before.
WITHOUT_POSIX = r"""
import argparse, asyncio, concurrent.futures, errno, os, select, shutil, signal, socket, ssl, subprocess, sys, tempfile
statvfs = os.statvfs
def disk_usage(path):
    assert isinstance(path, str), path
    found = statvfs(path)
    size = found.f_frsize
    return shutil._ntuple_diskusage(found.f_blocks * size, 0, found.f_bavail * size)
shutil.disk_usage = disk_usage
for name in "sendfile splice fork eventfd memfd_create pread pwrite preadv pwritev fchmod geteuid getegid getgroups \
            pipe2 getuid statvfs fstatvfs O_PATH O_DIRECTORY O_NOFOLLOW O_CLOEXEC O_NONBLOCK O_NOCTTY".split():
    if hasattr(os, name):
        delattr(os, name)
for name in ("supports_dir_fd", "supports_fd", "supports_follow_symlinks"):
    setattr(os, name, set())
def by_path(call, *words):
    def checked(*arguments, **options):
        assert not any(options.get(word) is not None for word in words), (call, options)
        assert not isinstance(arguments[0], int) or call.__name__ in ("stat",), call
        return call(*arguments, **options)
    return checked
for name in "mkdir rmdir unlink symlink readlink chmod utime scandir".split():
    setattr(os, name, by_path(getattr(os, name), "dir_fd"))
os.replace = by_path(os.replace, "src_dir_fd", "dst_dir_fd")
rename = by_path(os.rename, "src_dir_fd", "dst_dir_fd")
def rename_without_replacing(old, new, **options):
    if os.path.exists(new):
        raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), new)
    rename(old, new, **options)
os.rename = rename_without_replacing
del select.poll, select.epoll, select.POLLIN, select.POLLOUT
pair = socket.socketpair
unix = socket.AF_UNIX
socket.socketpair = lambda *_: pair(unix)
del socket.AF_UNIX
class Missing:
    def find_spec(self, name, path=None, target=None):
        if name in ("pwd", "grp", "resource", "fcntl"):
            raise ImportError(name)
for name in ("pwd", "grp", "resource", "fcntl"):
    sys.modules.pop(name, None)
sys.meta_path.insert(0, Missing())
sys.platform = "win32-without-windows"
"""


@pytest.fixture(scope="module")
def blob(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The argument of DCSC: a certificate that signs itself, and its key."""
    folder = tmp_path_factory.mktemp("key")
    words = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-subj", "/CN=lane", "-days", "2"]
    words += ["-keyout", str(folder / "key"), "-out", str(folder / "certificate")]
    subprocess.run(words, check=True, capture_output=True)
    pem = (folder / "certificate").read_bytes() + (folder / "key").read_bytes()
    return (
        "P " + subprocess.run(["openssl", "base64", "-A"], input=pem, capture_output=True, check=True).stdout.decode()
    )


def run(python: str, script: str, blob: str, tmp_path: Path) -> None:
    (tmp_path / "script.py").write_text(script)
    environment = {"PATH": os.environ["PATH"], "PYTHONPATH": str(ROOT), "PYTHONDONTWRITEBYTECODE": "1"}
    done = subprocess.run(
        [python, "-W", "error", str(tmp_path / "script.py"), blob],
        capture_output=True, text=True, timeout=120, env=environment, cwd=tmp_path,
    )  # fmt: skip
    assert (done.returncode, done.stdout, done.stderr) == (0, "served\n", "")


def other_pythons() -> list[str]:
    """One program for each version that is here, but for ours: on the PATH, and in the folder of pyenv."""
    names = [f"python3.{minor}" for minor in range(OLDEST[1], 16)]
    found = [shutil.which(name) for name in names]
    versions = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")) / "versions"
    if os.access(versions, os.R_OK):
        found += [str(path) for name in names for path in versions.glob(f"*/bin/{name}")]
    by_version: dict[str, str] = {}
    for program in filter(None, found):
        asked = subprocess.run([program, "-c", "import sys, ssl; print(*sys.version_info[:2])"], capture_output=True)
        if asked.returncode == 0:
            by_version.setdefault(asked.stdout.decode().strip(), program)
    by_version.pop(f"{sys.version_info[0]} {sys.version_info[1]}", None)
    return list(by_version.values())


@pytest.mark.parametrize("python", [*other_pythons(), sys.executable], ids=lambda program: Path(program).name)
def test_every_python_here_serves_a_transfer(python, blob, tmp_path):
    run(python, SCRIPT, blob, tmp_path)


def test_a_system_without_the_calls_of_posix_serves_a_transfer(blob, tmp_path):
    run(sys.executable, WITHOUT_POSIX + SCRIPT, blob, tmp_path)


def test_the_oldest_python_that_the_server_needs():
    """Calls of later Pythons are looked up by their names: vermin does not see those."""
    vermin = str(Path(sys.executable).with_name("vermin"))
    words = ["-t=3.8-", "--violations", "--no-tips", *(str(ROOT / name) for name in FILES)]
    done = subprocess.run([vermin, *words], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout


def test_the_server_imports_nothing_else():
    script = "import sys, endpoints.gridftp.server.__main__; print(*sorted(sys.modules))"
    done = subprocess.run([sys.executable, "-S", "-c", script], capture_output=True, text=True, cwd=ROOT, check=True)
    ours = {name for name in done.stdout.split() if name.split(".")[0] in ("endpoints", "identity")}
    listed = {name.removesuffix("/__init__.py").removesuffix(".py").replace("/", ".") for name in FILES}
    assert {name for name in ours if not name.startswith("endpoints.gridftp.server")} == listed - {
        "endpoints.gridftp.server"
    }
