"""The Debian package of the release: the locked libraries, the command, the units of systemd, and the account.

It belongs to one version of Python, as compiled libraries do: that of the image (`deploy.release.libraries`).
"""

from __future__ import annotations

import hashlib
import platform
import shutil
from pathlib import Path

from . import engines
from .errors import ReleaseError
from .libraries import COMMAND, PYTHON, install
from .oci import ARCHITECTURES
from .source import SourceCopy, run

PROGRAM, LIBRARIES = "opt/waybill/bin/waybill", "opt/waybill/lib"
UNITS, SETTINGS = "usr/lib/systemd/system", "etc/waybill/waybill.env.example"
#: The command of operators, and the files that docs/operate takes from here.
OPERATOR, SHARED = "usr/sbin/waybill", "usr/share/waybill"
SHARED_FOLDERS = ("front", "monitoring")
CONTROL = """Package: waybill
Version: {version}
Architecture: {architecture}
Maintainer: Waybill <waybill@localhost>
Installed-Size: {size}
Depends: python3 (>= {python}), python3 (<< {next}), ca-certificates, passwd
Recommends: openssl, postgresql, redis-server
Section: net
Priority: optional
Description: self-hosted service that moves research data between GridFTP endpoints
 Pages, REST, an ssh shell, workers and a relay of agents, each as a unit of
 systemd. No unit is enabled or started by the installation:
 docs/operate/install.md of the source has the steps.
"""
#: The account, its folders, and compiled modules: the account may not write beside the modules. Nothing is started.
AFTER_INSTALLATION = f"""#!/bin/sh
set -e
if [ "$1" = configure ]; then
    if ! getent passwd waybill >/dev/null; then
        useradd --system --user-group --no-create-home --home-dir /nonexistent --shell /usr/sbin/nologin \\
            --comment Waybill waybill
    fi
    install -d -m 700 -o waybill -g waybill /var/lib/waybill
    chown root:waybill /etc/waybill
    chmod 750 /etc/waybill
    python3 -m compileall -q /{LIBRARIES} || true
    if [ -d /run/systemd/system ]; then systemctl daemon-reload; fi
fi
"""
BEFORE_REMOVAL = f"""#!/bin/sh
set -e
if [ "$1" = remove ] && [ -d /run/systemd/system ]; then
    systemctl disable --now waybill.target 'waybill-*' || true
fi
find /{LIBRARIES} -name __pycache__ -type d -prune -exec rm -r {{}} +
"""
#: The account, the settings and the data stay, also with `purge`: a key of the vault must not be lost by mistake.
AFTER_REMOVAL = """#!/bin/sh
set -e
if [ -d /run/systemd/system ]; then systemctl daemon-reload; fi
"""
SCRIPTS = {"postinst": AFTER_INSTALLATION, "prerm": BEFORE_REMOVAL, "postrm": AFTER_REMOVAL}


def build(source: SourceCopy, wheel: Path, out: Path) -> Path:
    """Write the package for this machine's architecture into the folder. Raises ReleaseError."""
    tree = source.folder.with_name("debian")
    install(source, wheel, tree / LIBRARIES)
    # Debian has PostgreSQL and Redis itself.
    engines.remove(tree / LIBRARIES)
    return pack(source, tree, out)


def pack(source: SourceCopy, tree: Path, out: Path) -> Path:
    """Add what is not a library to the tree, and write the package. Raises ReleaseError.

    `dpkg-deb` gives all files the time of the release at the latest (SOURCE_DATE_EPOCH), and the owner root.
    """
    architecture = ARCHITECTURES.get(platform.machine())
    if architecture is None:
        raise ReleaseError(f"there are no packages for {platform.machine()}")
    _write(tree / PROGRAM, COMMAND.format(folder=f"/{LIBRARIES}", python="/usr/bin/python3"))
    for unit in sorted((source.folder / "deploy" / "systemd").iterdir()):
        place = tree / SETTINGS if unit.suffix == ".example" else tree / UNITS / unit.name
        place.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(unit, place)
    _write(tree / OPERATOR, (source.folder / "deploy" / "operator" / "waybill.sh").read_text())
    for name in SHARED_FOLDERS:
        shutil.copytree(source.folder / "deploy" / name, tree / SHARED / name)
    _write(tree / "usr/share/doc/waybill/copyright", (source.folder / "LICENSE").read_text())
    for cache in sorted(tree.rglob("__pycache__")):
        shutil.rmtree(cache)
    _describe(source, tree, architecture)
    scripts = {tree / PROGRAM, tree / OPERATOR, *(tree / "DEBIAN" / name for name in SCRIPTS)}
    for path in (tree, *tree.rglob("*")):
        runs = path.is_dir() or path in scripts or path.stat().st_mode & 0o100
        path.chmod(0o755 if runs else 0o644)
    package = out / f"waybill_{source.version}_{architecture}.deb"
    options = ["--root-owner-group", "--threads-max=1", "-Zxz"]
    words: list[str | Path] = ["dpkg-deb", *options, "--build", tree, package.resolve()]
    run(words, tree.parent, source.environ)
    return package


def _describe(source: SourceCopy, tree: Path, architecture: str) -> None:
    """The folder DEBIAN: control, the scripts, the list of settings, and the digests of all files (deb-md5sums(5))."""
    files = sorted(path for path in tree.rglob("*") if path.is_file())
    major, minor = PYTHON.split(".")
    control = CONTROL.format(
        version=source.version,
        architecture=architecture,
        size=sum(path.stat().st_size for path in files) // 1024,
        python=PYTHON,
        next=f"{major}.{int(minor) + 1}",
    )
    digests = (hashlib.md5(path.read_bytes(), usedforsecurity=False).hexdigest() for path in files)
    listed = (f"{digest}  {path.relative_to(tree)}\n" for digest, path in zip(digests, files, strict=True))
    for name, text in {
        "control": control,
        **SCRIPTS,
        "conffiles": f"/{SETTINGS}\n",
        "md5sums": "".join(listed),
    }.items():
        _write(tree / "DEBIAN" / name, text)


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
