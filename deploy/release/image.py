"""The image of the release, made of Debian's packages and the locked wheels, without a container engine."""

from __future__ import annotations

import io
import platform
import tarfile
from pathlib import Path

from . import engines
from .archives import file_member, write_tar
from .errors import ReleaseError
from .libraries import COMMAND, SUITE, install
from .oci import ARCHITECTURES, Image
from .source import SourceCopy, run

PACKAGES = "python3,ca-certificates,tzdata"
#: The account of all processes. Kubernetes checks by the number that it is not root.
ACCOUNT = 10001
HOME = "/home/waybill"
LIBRARIES = "/opt/waybill"


def build(source: SourceCopy, wheel: Path, out: Path, mirror: str = "") -> Path:
    """Write the image archive of this machine's architecture into the folder. Raises ReleaseError.

    Args:
        mirror: the address of Debian's packages; that of this machine if empty.
    """
    architecture = ARCHITECTURES.get(platform.machine())
    if architecture is None:
        raise ReleaseError(f"there are no images for {platform.machine()}")
    work = source.folder.with_name("image")
    work.mkdir()
    base = _base(source, work, mirror)
    image = Image(
        name=f"waybill:{source.version}",
        architecture=architecture,
        layers=[base, _application(source, wheel, work, _accounts(base))],
        config={
            "User": f"{ACCOUNT}:{ACCOUNT}",
            "WorkingDir": HOME,
            "Env": [
                "PATH=/usr/local/bin:/usr/bin:/bin",
                "LANG=C.UTF-8",
                f"PYTHONPATH={LIBRARIES}",
                "PYTHONUNBUFFERED=1",
                f"WAYBILL_HOME={HOME}/.waybill",
            ],
            # No entry point: docker-compose.yml gives whole commands, as for the image of deploy/Dockerfile.
            "Cmd": ["waybill", "--help"],
            "Labels": {"org.opencontainers.image.revision": source.commit},
        },
        moment=source.moment,
    )
    path = out / f"waybill-{source.version}-image-{architecture}.tar.gz"
    image.write(path)
    return path


def _base(source: SourceCopy, work: Path, mirror: str) -> bytes:
    """The layer of Debian: `mmdebstrap` writes the same octets for the same packages and SOURCE_DATE_EPOCH."""
    path = work / "debian.tar"
    words = ["mmdebstrap", "--quiet", "--variant=minbase", f"--include={PACKAGES}", SUITE, str(path)]
    run([*words, mirror] if mirror else words, work, source.environ)
    return path.read_bytes()


def _accounts(base: bytes) -> dict[str, bytes]:
    """The lists of accounts of the lower layer, with the account of the service."""
    more = {
        "etc/passwd": f"waybill:x:{ACCOUNT}:{ACCOUNT}::{HOME}:/usr/sbin/nologin\n",
        "etc/group": f"waybill:x:{ACCOUNT}:\n",
    }
    with tarfile.open(fileobj=io.BytesIO(base)) as tar:
        found = {name: tar.extractfile(f"./{name}") for name in more}
        return {name: file.read() + more[name].encode() for name, file in found.items() if file}


def _application(source: SourceCopy, wheel: Path, work: Path, accounts: dict[str, bytes]) -> bytes:
    """The layer of the service: its wheel and those of its libraries, the command, the account and its home."""
    libraries = work / "libraries"
    install(source, wheel, libraries)
    engines.remove(libraries)
    members = [_file(f"{LIBRARIES}/{found.relative_to(libraries)}", found) for found in sorted(libraries.rglob("*"))]
    members += [file_member(name, content) for name, content in accounts.items()]
    command = COMMAND.format(folder=LIBRARIES, python="python3")
    members.append(file_member("usr/local/bin/waybill", command.encode(), 0o755))
    for name in (HOME, f"{HOME}/.waybill"):
        folder, _ = file_member(name, b"", 0o700)
        folder.type, folder.uid, folder.gid = tarfile.DIRTYPE, ACCOUNT, ACCOUNT
        members.append((folder, b""))
    path = work / "application.tar"
    write_tar(members, path, source.moment)
    return path.read_bytes()


def _file(name: str, path: Path) -> tuple[tarfile.TarInfo, bytes]:
    if path.is_dir():
        folder, _ = file_member(name, b"", 0o755)
        folder.type = tarfile.DIRTYPE
        return folder, b""
    return file_member(name, path.read_bytes(), 0o755 if path.stat().st_mode & 0o100 else 0o644)
