"""Start at sign-in, by what the system has for it: a systemd user unit, a launchd agent, or a scheduled task."""

from __future__ import annotations

import os
import plistlib
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from .home import NAME, Home

LABEL = "org.waybill.connect"
TASK = "Waybill Connect"
#: Seconds for a program of the system.
PATIENCE = 30.0
#: EX_CONFIG: the service has refused the agent, and starting it again does not help.
REFUSED = 78


class AutostartError(Exception):
    """The system refuses; the text is for the person."""


def command(home: Home) -> list[str]:
    """The command that starts the agent. The program is copied beside its settings: the download may be moved away."""
    if not home.program.exists():
        raise AutostartError("--install-service works with the one-file program waybill-connect.pyz only.")
    return [_python(), str(home.program), "--config", str(home.folder), "--run"]


def install(home: Home) -> str:
    """Install and start it; returns a sentence. Raises AutostartError, OSError."""
    if sys.platform == "win32":
        return _install_task(home)
    return _install_launchd(home) if sys.platform == "darwin" else _install_systemd(home)


def remove() -> bool:
    """Whether there was anything to remove. Raises OSError."""
    if sys.platform == "win32":
        return _try("schtasks", "/Delete", "/F", "/TN", TASK)
    path = _plist() if sys.platform == "darwin" else _unit()
    if not path.exists():
        return False
    if sys.platform == "darwin":
        _try("launchctl", "unload", "-w", str(path))
    else:
        _try("systemctl", "--user", "disable", "--now", path.name)
    path.unlink()
    return True


# ---- systemd (Linux)


def unit(words: Sequence[str]) -> str:
    """The text of the unit. Paths with blanks, quotes and % are quoted as systemd.service(5) wants it."""
    quoted = " ".join('"' + _escaped(word) + '"' for word in words)
    return f"""[Unit]
Description=Waybill Connect: this computer as an endpoint
After=network-online.target

[Service]
ExecStart={quoted}
Restart=on-failure
RestartSec=10
RestartPreventExitStatus={REFUSED}

[Install]
WantedBy=default.target
"""


def _escaped(word: str) -> str:
    for one, other in (("\\", "\\\\"), ('"', '\\"'), ("%", "%%"), ("$", "$$")):
        word = word.replace(one, other)
    return word


def _unit() -> Path:
    return Path(os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config") / "systemd" / "user" / f"{NAME}.service"


def _install_systemd(home: Home) -> str:
    if shutil.which("systemctl") is None:
        raise AutostartError("This system has no systemd. Use --start, for example from cron at @reboot.")
    path = _unit()
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(unit(command(home)), "utf-8")
    _do("systemctl", "--user", "daemon-reload")
    _do("systemctl", "--user", "enable", "--now", path.name)
    return (
        f"Installed as the systemd user unit {path.name}: it starts when you sign in. To let it run while you are "
        "signed out: loginctl enable-linger"
    )


# ---- launchd (macOS)


def plist(words: Sequence[str], log: str) -> bytes:
    return plistlib.dumps(
        {
            "Label": LABEL,
            "ProgramArguments": list(words),
            "RunAtLoad": True,
            "KeepAlive": {"SuccessfulExit": False},
            "ThrottleInterval": 30,
            "ProcessType": "Background",
            "StandardErrorPath": log,
        }
    )


def _plist() -> Path:
    return Path.home() / "Library" / "LaunchAgents" / f"{LABEL}.plist"


def _install_launchd(home: Home) -> str:
    path = _plist()
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(plist(command(home), str(home.folder / "launchd.log")))
    _do("launchctl", "load", "-w", str(path))
    return f"Installed as the launchd agent {LABEL}: it starts when you sign in."


# ---- Task Scheduler (Windows)


def task(words: Sequence[str]) -> list[str]:
    """The words for schtasks."""
    return [
        *("schtasks", "/Create", "/F", "/SC", "ONLOGON", "/RL", "LIMITED", "/TN", TASK),
        *("/TR", subprocess.list2cmdline(words)),
    ]


def _install_task(home: Home) -> str:
    _do(*task(command(home)))
    _do("schtasks", "/Run", "/TN", TASK)
    return f'Installed as the scheduled task "{TASK}": it starts when you sign in.'


# ---- all


def _python() -> str:
    """On Windows the Python that opens no window."""
    if sys.platform == "win32":
        windowless = Path(sys.executable).with_name("pythonw.exe")
        return str(windowless) if windowless.exists() else sys.executable
    return sys.executable


def _do(*words: str) -> None:
    try:
        done = subprocess.run(words, capture_output=True, text=True, timeout=PATIENCE, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise AutostartError(f"{words[0]} cannot be run: {error}") from None
    if done.returncode:
        raise AutostartError(f"{words[0]} refuses: {(done.stderr or done.stdout).strip()[:500]}")


def _try(*words: str) -> bool:
    try:
        _do(*words)
    except AutostartError:
        return False
    return True
