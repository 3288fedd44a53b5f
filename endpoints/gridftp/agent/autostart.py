"""Start at sign-in, by what the system has for it: a systemd user unit, a launchd agent, or a scheduled task."""

from __future__ import annotations

import hashlib
import os
import plistlib
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from xml.sax.saxutils import escape

from .home import NAME, AgentHome, default_folder

LABEL = "org.waybill.connect"
TASK = "Waybill Connect"
#: Seconds for a program of the system.
TIMEOUT = 30.0
#: EX_CONFIG: the service has refused the agent, and starting it again does not help.
REFUSED = 78


class AutostartError(Exception):
    """The system refuses; the text is for the person."""


def command(home: AgentHome) -> list[str]:
    """The command that starts the agent. The program is copied beside its settings: the download may be moved away."""
    if not home.program.exists():
        raise AutostartError("--install-service works with the one-file program waybill-connect.pyz only.")
    return [_python(), str(home.program), "--config", str(home.folder), "--run"]


def suffix(home: AgentHome) -> str:
    """The part of a unit's name by which each folder of settings has a unit of its own; "" for the default folder."""
    folder = home.folder.resolve()
    return "" if folder == default_folder().resolve() else f"-{hashlib.sha256(os.fsencode(folder)).hexdigest()[:8]}"


def install(home: AgentHome) -> str:
    """Install and start it; returns a sentence. Raises AutostartError, OSError."""
    if sys.platform == "win32":
        return _install_task(home)
    return _install_launchd(home) if sys.platform == "darwin" else _install_systemd(home)


def remove(home: AgentHome) -> bool:
    """Remove what starts the agent with these settings; return whether there was anything. Raises OSError."""
    if sys.platform == "win32":
        return _try("schtasks", "/Delete", "/F", "/TN", TASK + suffix(home))
    path = _plist(home) if sys.platform == "darwin" else unit_path(home)
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


def unit_path(home: AgentHome) -> Path:
    base = Path(os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config")
    return base / "systemd" / "user" / f"{NAME}{suffix(home)}.service"


def _install_systemd(home: AgentHome) -> str:
    if shutil.which("systemctl") is None:
        raise AutostartError("This system has no systemd. Use --start, for example from cron at @reboot.")
    path = unit_path(home)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(unit(command(home)), "utf-8")
    _do("systemctl", "--user", "daemon-reload")
    _do("systemctl", "--user", "enable", "--now", path.name)
    return (
        f"Installed as the systemd user unit {path.name}: it starts when you sign in. To let it run while you are "
        "signed out: loginctl enable-linger"
    )


# ---- launchd (macOS)


def plist(words: Sequence[str], log: str, label: str = LABEL) -> bytes:
    return plistlib.dumps(
        {
            "Label": label,
            "ProgramArguments": list(words),
            "RunAtLoad": True,
            "KeepAlive": {"SuccessfulExit": False},
            "ThrottleInterval": 30,
            "ProcessType": "Background",
            "StandardErrorPath": log,
        }
    )


def _plist(home: AgentHome) -> Path:
    return Path.home() / "Library" / "LaunchAgents" / f"{LABEL}{suffix(home)}.plist"


def _install_launchd(home: AgentHome) -> str:
    path = _plist(home)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(plist(command(home), str(home.folder / "launchd.log"), path.stem))
    _do("launchctl", "load", "-w", str(path))
    return f"Installed as the launchd agent {path.stem}: it starts when you sign in."


# ---- Task Scheduler (Windows)


#: Only in XML can a task be that of one user, which needs no administrator, go on without mains power and without a
#: limit of three days, and have a command of more than 262 characters. The schema allows 255 new starts.
_TASK_XML = """<?xml version="1.0" encoding="UTF-16"?>
<Task version="1.2" xmlns="http://schemas.microsoft.com/windows/2004/02/mit/task">
  <RegistrationInfo><Description>Waybill Connect: this computer as an endpoint</Description></RegistrationInfo>
  <Triggers><LogonTrigger><Enabled>true</Enabled><UserId>{user}</UserId></LogonTrigger></Triggers>
  <Principals>
    <Principal id="Author">
      <UserId>{user}</UserId><LogonType>InteractiveToken</LogonType><RunLevel>LeastPrivilege</RunLevel>
    </Principal>
  </Principals>
  <Settings>
    <MultipleInstancesPolicy>IgnoreNew</MultipleInstancesPolicy>
    <DisallowStartIfOnBatteries>false</DisallowStartIfOnBatteries>
    <StopIfGoingOnBatteries>false</StopIfGoingOnBatteries>
    <StartWhenAvailable>true</StartWhenAvailable>
    <IdleSettings><StopOnIdleEnd>false</StopOnIdleEnd><RestartOnIdle>false</RestartOnIdle></IdleSettings>
    <ExecutionTimeLimit>PT0S</ExecutionTimeLimit>
    <RestartOnFailure><Interval>PT1M</Interval><Count>255</Count></RestartOnFailure>
  </Settings>
  <Actions Context="Author">
    <Exec><Command>{program}</Command><Arguments>{arguments}</Arguments></Exec>
  </Actions>
</Task>
"""


def task(words: Sequence[str], user: str) -> bytes:
    """The file for schtasks. user: as Windows writes it, COMPUTER\\name."""
    arguments = subprocess.list2cmdline(words[1:])
    text = _TASK_XML.format(user=escape(user), program=escape(words[0]), arguments=escape(arguments))
    return text.encode("utf-16")


def _windows_user() -> str:
    r"""The name of the user as Windows writes it, COMPUTER\name. Raises AutostartError."""
    domain, name = os.environ.get("USERDOMAIN", ""), os.environ.get("USERNAME", "")
    if not name:
        raise AutostartError("Windows does not say who you are: USERNAME is not set.")
    return f"{domain}\\{name}" if domain else name


def _install_task(home: AgentHome) -> str:
    name, path = TASK + suffix(home), home.folder / "task.xml"
    path.write_bytes(task(command(home), _windows_user()))
    try:
        _do("schtasks", "/Create", "/F", "/TN", name, "/XML", str(path))
    finally:
        path.unlink()
    _do("schtasks", "/Run", "/TN", name)
    return f'Installed as the scheduled task "{name}": it starts when you sign in.'


# ---- all


def _python() -> str:
    """The interpreter that starts the agent; on Windows the one that opens no window."""
    if sys.platform == "win32":
        windowless = Path(sys.executable).with_name("pythonw.exe")
        return str(windowless) if windowless.exists() else sys.executable
    return sys.executable


def _do(*words: str) -> None:
    try:
        done = subprocess.run(words, capture_output=True, text=True, timeout=TIMEOUT, check=False)
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
