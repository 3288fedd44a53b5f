"""The command line of `waybill-connect.pyz`."""

from __future__ import annotations

import argparse
import contextlib
import os
import shutil
import signal
import subprocess
import sys
import time
import zipfile
from collections.abc import Callable
from functools import partial
from pathlib import Path

from endpoints.gridftp.server import RootPart

from . import autostart, journal, roots, service_requests
from .autostart import AutostartError
from .home import AgentHome, AgentHomeError, AgentSettings, Lock, default_folder, wait_for
from .keys import AgentIdentity
from .roots import RootError
from .running import AgentProcess
from .service_requests import RequestFailedError
from .setup_key import SetupKey, SetupKeyFormatError

#: Seconds in which an agent that was started must report, and in which one that was stopped must end.
START_SECONDS, STOP_SECONDS = 20.0, 20.0
#: Exit statuses: all is well; it failed; the command line makes no sense; no agent runs; see `autostart.REFUSED`.
OK, FAILED, USAGE, NOT_RUNNING = 0, 1, 2, 3


class ProgramError(Exception):
    """The command cannot be done; the text is for the person."""


def main(version: str, arguments: list[str] | None = None) -> int:
    options = parser(version).parse_args(arguments)
    home = AgentHome(Path(options.config).expanduser() if options.config else default_folder())
    try:
        command: Callable[[argparse.Namespace, AgentHome, str], int] = (
            options.command if options.setup is None else _set_up
        )
        return command(options, home, version)
    except (ProgramError, AgentHomeError, RootError, SetupKeyFormatError, RequestFailedError, AutostartError) as error:
        _say(str(error))
    except OSError as error:
        _say(f"{error.strerror or error}{': ' + str(error.filename) if error.filename else ''}")
    except KeyboardInterrupt:
        _say("Stopped.")
    return FAILED


def parser(version: str) -> argparse.ArgumentParser:
    found = argparse.ArgumentParser(
        prog="waybill-connect.pyz",
        description="Makes this computer an endpoint of Waybill. It connects to the service and opens no port.",
    )
    found.add_argument("--version", action="version", version=version)
    what = found.add_mutually_exclusive_group()
    choose = partial(what.add_argument, action="store_const", dest="command", default=_run)
    what.add_argument("--setup", metavar="KEY", help="set this computer up with a setup key (-: from the input)")
    choose("--run", const=_run, help="run until Ctrl-C (the default, once it is set up)")
    choose("--start", const=_start, help="run in the background")
    choose("--status", const=_status, help="is it running, and connected?")
    choose("--stop", const=_stop, help="stop it")
    choose("--pause", const=_pause, help="let transfers wait")
    choose("--resume", const=_resume, help="let transfers go on")
    choose("--install-service", const=_install, help="start it whenever you sign in")
    choose("--uninstall", const=_uninstall, help="stop it, and forget key and settings; no file of yours")
    found.add_argument("--root", action="append", metavar="DIR", default=[], help="a folder to serve; may be repeated")
    found.add_argument(
        "--read-only", action="append", metavar="DIR", default=[], help="a folder to serve without changes to it"
    )
    found.add_argument("--config", metavar="DIR", help="folder of key, settings and log (for a second endpoint)")
    return found


# ---- setup


def _set_up(options: argparse.Namespace, home: AgentHome, version: str) -> int:
    key = SetupKey.parse(sys.stdin.read() if options.setup == "-" else options.setup)
    served = _served(options)
    home.make()
    with _locked(home):
        _refuse_other(home, key)
        pair = home.next_key()
        found = service_requests.set_up(key, pair, version)
        home.keep(AgentIdentity(pair, str(found["chain"])))
        settings = AgentSettings(
            key.service, str(found["endpoint_id"]), str(found["endpoint_name"]), served, float(found["time"])
        )
        home.write_settings(settings)
        _keep_program(home)
    _say(f"This computer is now the endpoint {settings.endpoint_name} of {settings.service.host}.")
    _say_roots(settings, home)
    me = f"{Path(sys.executable).name} {_word(sys.argv[0])}"
    if options.config:
        me += f" --config {_word(options.config)}"
    _say(f"\nNext:  {me} --start             run it in the background")
    _say(f"       {me} --install-service   start it whenever you sign in")
    return OK


def _served(options: argparse.Namespace) -> list[RootPart]:
    """The folders of the command line; without one, a folder that is made for this."""
    if not options.root and not options.read_only:
        folder = roots.default_folder()
        folder.mkdir(exist_ok=True)
        return roots.parts([str(folder)])
    return roots.parts(options.root, options.read_only)


def _refuse_other(home: AgentHome, key: SetupKey) -> None:
    if not home.exists:
        return
    with contextlib.suppress(AgentHomeError):
        settings = home.settings()
        if settings.endpoint_id != key.endpoint:
            raise ProgramError(
                f"This computer is already the endpoint {settings.endpoint_name}. Use --config DIR for a second one, "
                "or --uninstall to forget the first."
            )


def _keep_program(home: AgentHome) -> None:
    """A copy of this program beside its settings, for --start and --install-service."""
    here = Path(sys.argv[0])
    if zipfile.is_zipfile(str(here)) and here.resolve() != home.program.resolve():
        shutil.copyfile(str(here), str(home.program))


def _word(text: str) -> str:
    """As it is typed in a shell, also that of Windows."""
    return f'"{text}"' if " " in text else text


def _say_roots(settings: AgentSettings, home: AgentHome) -> None:
    _say("It serves, and nothing else:")
    for line in roots.shown(settings.roots):
        _say(f"  {line}")
    inside = str(home.folder.resolve())
    if any(inside == root.path or inside.startswith(root.path.rstrip(os.sep) + os.sep) for root in settings.roots):
        _say(f"Note: {home.folder} is inside; it has the key of this agent. Share no folder that contains it.")


# ---- running


def _run(options: argparse.Namespace, home: AgentHome, version: str) -> int:
    settings = home.settings()
    if options.root or options.read_only:
        settings.roots = roots.parts(options.root, options.read_only)
        home.write_settings(settings)
    with _locked(home):
        _forget(home.stop_request)
        journal.begin(home, on_terminal=sys.stderr is not None and sys.stderr.isatty())
        agent = AgentProcess(home, version)
        for name in ("SIGTERM", "SIGINT", "SIGHUP"):
            if hasattr(signal, name):
                signal.signal(getattr(signal, name), lambda *_: agent.stop())
        status = agent.run()
    if status:
        _say(str(home.state().get("status", "")).partition(": ")[2])
    return status


def _start(options: argparse.Namespace, home: AgentHome, version: str) -> int:
    home.settings()
    if Lock(home).is_held():
        raise ProgramError("It runs already.")
    begun = time.time()
    program = home.program if home.program.exists() else Path(sys.argv[0])
    words = [sys.executable, str(program), "--config", str(home.folder), "--run"]
    for name in ("root", "read_only"):
        for folder in getattr(options, name):
            words += [f"--{name.replace('_', '-')}", str(Path(folder).expanduser().resolve())]
    child = _detached(words)
    wait_for(lambda: child.poll() is not None or _has_reported(home, begun), START_SECONDS, 0.1)
    if child.poll() is not None:
        raise ProgramError(_ended(home))
    return _status(options, home, version)


def _has_reported(home: AgentHome, begun: float) -> bool:
    """Whether the agent that was started is connected, or will try again. One that is refused ends."""
    state = home.state()
    return state.get("since", 0) >= begun and str(state.get("status")).startswith(
        ("connected", "away", "cloned", "busy")
    )


def _ended(home: AgentHome) -> str:
    reason = str(home.state().get("status", "")).partition(": ")[2]
    return reason or f"It did not start; the log is {home.log}."


def _detached(words: list[str]) -> subprocess.Popen[bytes]:
    """A process that goes on when the terminal is closed."""
    flags = 0
    if sys.platform == "win32":
        flags = subprocess.DETACHED_PROCESS | subprocess.CREATE_NEW_PROCESS_GROUP
    null = subprocess.DEVNULL
    return subprocess.Popen(
        words, stdin=null, stdout=null, stderr=null, creationflags=flags, start_new_session=os.name == "posix"
    )


def _status(options: argparse.Namespace, home: AgentHome, version: str) -> int:
    settings = home.settings()
    _say(f"Endpoint:  {settings.endpoint_name} ({settings.endpoint_id})")
    _say(f"Service:   {settings.service.url}")
    for line in roots.shown(settings.roots):
        _say(f"Serves:    {line}")
    _say(f"Log:       {home.log}")
    if not Lock(home).is_held():
        _say("State:     not running")
        return NOT_RUNNING
    state = home.state()
    status = str(state.get("status", "starting"))
    _say(f"State:     {status}{', paused' if state.get('paused') else ''}")
    return OK if status == "connected" else FAILED


def _stop(options: argparse.Namespace, home: AgentHome, version: str) -> int:
    lock = Lock(home)
    if not lock.is_held():
        _say("It does not run.")
        return OK
    home.stop_request.touch()
    try:
        if not wait_for(lambda: not lock.is_held(), STOP_SECONDS, 0.1):
            raise ProgramError(f"It has not ended within {STOP_SECONDS:.0f} s.")
    finally:
        _forget(home.stop_request)
    _say("Stopped.")
    return OK


def _pause(options: argparse.Namespace, home: AgentHome, version: str) -> int:
    home.settings()
    home.pause_request.touch()
    _say("Paused: transfers wait until --resume.")
    return OK


def _resume(options: argparse.Namespace, home: AgentHome, version: str) -> int:
    _forget(home.pause_request)
    _say("Transfers go on.")
    return OK


# ---- service of the system


def _install(options: argparse.Namespace, home: AgentHome, version: str) -> int:
    home.settings()
    if Lock(home).is_held():
        _stop(options, home, version)
    _say(autostart.install(home))
    return OK


def _uninstall(options: argparse.Namespace, home: AgentHome, version: str) -> int:
    settings = home.settings() if home.exists else None
    removed = autostart.remove(home)
    if home.folder.exists():
        _stop(options, home, version)
        home.remove()
    _say("Forgotten: the key, the settings and the log" + (", and the start at sign-in." if removed else "."))
    if settings:
        _say(
            f"Your files are as they were. The endpoint itself: {settings.service.url}/endpoints/{settings.endpoint_id}"
        )
    return OK


# ---- small things


@contextlib.contextmanager
def _locked(home: AgentHome):  # type: ignore[no-untyped-def]
    home.make()
    lock = Lock(home)
    if not lock.take():
        raise ProgramError("An agent runs with these settings already: --status shows it, --stop ends it.")
    try:
        yield
    finally:
        lock.release()


def _forget(path: Path) -> None:
    with contextlib.suppress(FileNotFoundError):
        path.unlink()


def _say(text: str) -> None:
    if sys.stdout is not None:
        print(text, flush=True)
