"""The part that the account's `python3` runs: it reads our server from the cache or from standard input, and starts it.

This module is sent as text and runs on the remote host, on any Python since 3.8, with the standard library only. The
program is one blob (see `program`). It is read into memory once, compared with the SHA-256 that the service named, and
run from that memory: a file that is changed afterwards is not used. The cache is a help only: where it cannot be
written, or where others could change it, the service sends the program each time.

Before the server speaks, lines go to standard output, each with the mark that the service chose: "MARK cached",
or "MARK send REASON", after which the service sends the blob, and then "MARK kept" or "MARK unkept REASON". At last
"MARK ready", or "MARK failed REASON" where this Python cannot run the server: one that was built without `ssl`.
"""

from __future__ import annotations

import errno
import hashlib
import importlib.abc
import importlib.util
import json
import os
import stat
import sys
import time
import types
import zlib
from collections.abc import Callable, Iterator
from importlib.machinery import ModuleSpec

#: Path entry of the modules in memory, with a prefix that no folder has.
_ROOT = "waybill-memory:"
#: Seconds after which programs of other versions are deleted from the cache.
_OLD_SECONDS = 30 * 86400


class Cache:
    """The folder of programs: `waybill` in the account's cache folder, which only the account can write."""

    def __init__(self, digest: str) -> None:
        base = os.environ.get("XDG_CACHE_HOME", "")
        base = base if base.startswith("/") else os.path.join(os.path.expanduser("~"), ".cache")
        self.folder = os.path.join(base, "waybill")
        self.path = os.path.join(self.folder, f"server-{digest}.zlib")
        self.digest = digest

    def read(self, size: int) -> bytes:
        """The program, if the cache has it unchanged. Raises OSError."""
        self._check()
        descriptor = os.open(self.path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
        with os.fdopen(descriptor, "rb") as file:
            found = os.fstat(file.fileno())
            blob = file.read(size + 1) if stat.S_ISREG(found.st_mode) else b""
        if not matches(blob, size, self.digest):
            os.unlink(self.path)
            raise OSError(errno.EIO, "the cached program was changed")
        return blob

    def write(self, blob: bytes) -> None:
        """Under another name first: nobody reads a half. Raises OSError."""
        os.makedirs(self.folder, 0o700, exist_ok=True)
        self._check()
        draft = f"{self.path}.{os.getpid()}.{os.urandom(4).hex()}"
        descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
        try:
            with os.fdopen(descriptor, "wb") as file:
                file.write(blob)
            os.rename(draft, self.path)
        except BaseException:
            os.unlink(draft)
            raise
        self._forget_old()

    def _check(self) -> None:
        """Raises OSError unless the folder is ours alone."""
        found = os.lstat(self.folder)
        if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.geteuid() or found.st_mode & 0o022:
            raise OSError(errno.EPERM, "the cache folder is not the account's alone")

    def _forget_old(self) -> None:
        for name in os.listdir(self.folder):
            path = os.path.join(self.folder, name)
            if name.startswith("server-") and os.lstat(path).st_mtime < time.time() - _OLD_SECONDS:
                os.unlink(path)


def matches(blob: bytes, size: int, digest: str) -> bool:
    return len(blob) == size and hashlib.sha256(blob).hexdigest() == digest


def obtain(size: int, digest: str, say: Callable[[str], object]) -> bytes:
    """The program, from the cache or from standard input. Raises EOFError, ValueError."""
    cache = Cache(digest)
    try:
        blob = cache.read(size)
    except OSError as error:
        say("send " + ("new" if error.errno == errno.ENOENT else _text(error)))
    else:
        say("cached")
        return blob
    blob = exactly(size)
    if not matches(blob, size, digest):
        raise ValueError("the program arrived damaged")
    try:
        cache.write(blob)
    except OSError as error:
        say("unkept " + _text(error))
    else:
        say("kept")
    return blob


def exactly(size: int) -> bytes:
    """Octets of standard input, and none of those that follow. Raises EOFError."""
    parts = []
    while size:
        part = os.read(0, size)
        if not part:
            raise EOFError("the program did not arrive")
        parts.append(part)
        size -= len(part)
    return b"".join(parts)


def _text(error: OSError) -> str:
    return error.strerror or type(error).__name__


class MemoryFinder(importlib.abc.PathEntryFinder, importlib.abc.Loader):
    """The modules of the program, for `import` and for `pkgutil.iter_modules`. folder: "" or "a/package/"."""

    def __init__(self, sources: dict[str, str], folder: str) -> None:
        self._sources = sources
        self._folder = folder

    def find_spec(self, fullname: str, target: types.ModuleType | None = None) -> ModuleSpec | None:
        name = self._folder + fullname.rpartition(".")[2]
        for path in (name + "/__init__.py", name + ".py"):
            if path in self._sources:
                spec = ModuleSpec(fullname, self, origin=_ROOT + path, is_package=path.endswith("/__init__.py"))
                if spec.submodule_search_locations is not None:
                    spec.submodule_search_locations.append(f"{_ROOT}{name}/")
                return spec
        return None

    def exec_module(self, module: types.ModuleType) -> None:
        assert module.__spec__ is not None
        origin = str(module.__spec__.origin)
        code = compile(self._sources[origin[len(_ROOT) :]], origin, "exec", dont_inherit=True)
        exec(code, module.__dict__)  # noqa: S102 - the program whose hash was compared

    def iter_modules(self, prefix: str = "") -> Iterator[tuple[str, bool]]:
        names = [path[len(self._folder) :] for path in self._sources if path.startswith(self._folder)]
        for name in sorted(names):
            head, _, rest = name.partition("/")
            if rest == "__init__.py":
                yield prefix + head, True
            elif not rest and head != "__init__.py":
                yield prefix + head[: -len(".py")], False


def install(blob: bytes) -> None:
    """Let `import` find the modules of this blob before all others."""
    sources = json.loads(zlib.decompress(blob).decode())

    def hook(entry: str) -> MemoryFinder:
        if not entry.startswith(_ROOT):
            raise ImportError(entry)
        return MemoryFinder(sources, entry[len(_ROOT) :])

    sys.path_hooks.insert(0, hook)
    sys.path.insert(0, _ROOT)


def start(mark: str, digest: str, size: int, module: str, arguments: list[str]) -> int:
    """Run `main` of the module with these arguments; returns the exit status."""

    def say(text: str) -> None:
        os.write(1, f"{mark} {' '.join(text.split())}\n".encode())

    try:
        blob = obtain(size, digest, say)
    except (EOFError, ValueError) as error:
        say(f"failed {error}")
        return 3
    install(blob)
    sys.argv = [module, *arguments]
    try:
        main = importlib.import_module(module).main
    except Exception as error:  # whatever a part of the standard library raises that is missing or broken
        say(f"failed {str(error) or type(error).__name__}")
        return 3
    say("ready")
    return int(main())
