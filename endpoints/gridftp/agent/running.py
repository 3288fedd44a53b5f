"""The running agent: the server of this machine's folders, the tunnel to the service, and the upkeep of both."""

from __future__ import annotations

import os
import socket
import threading
import time
from pathlib import Path

from endpoints.gridftp.server import GridFtpServer, ServerLimits

from . import journal, service_requests
from .autostart import REFUSED
from .home import AgentHome, AgentSettings
from .journal import log
from .own_address import own_address
from .service_requests import RequestFailedError
from .tunnel.agent_end import AgentFacts
from .tunnel.tunnel import Tunnel, TunnelRefusedError

#: Seconds between two looks at the requests of other processes (stop, pause).
LOOK_SECONDS = 2.0
#: Seconds between two questions to the service about the time and the newest program; and the age of a certificate that
#: is renewed, by the clock of the service.
UPKEEP_SECONDS, RENEW_AFTER = 6 * 3600.0, 30 * 86400.0
#: At least so many after a renewal that was asked for, also where each sign-in is refused: the certificate has expired.
LEAST_UPKEEP_SECONDS = 600.0
#: A laptop has one user: more sessions are not of use, and less memory is.
LIMITS = ServerLimits(sessions=80, sessions_per_address=80)


class AgentProcess:
    """Runs until `stop`, or until the service refuses it for good."""

    def __init__(self, home: AgentHome, version: str) -> None:
        self._home, self._version = home, version
        self._settings: AgentSettings = home.settings()
        self._stopping = threading.Event()
        self._paused = home.pause_request.exists()
        self._status = ""
        self._is_state_written = True
        self._is_due = threading.Event()
        self._server = GridFtpServer(
            roots=[root._replace(may_vanish=True) for root in self._settings.roots],
            port=None,
            limits=LIMITS,
            open_relayed=lambda token: self._tunnel.open_data(token),
            on_file=journal.moved,
            on_progress=journal.ProgressLines().tell,
        )
        self._identity = home.identity()
        facts = AgentFacts(version, service_requests.platform_text())
        self._tunnel = Tunnel(self._settings.service, self._identity, self._serve, self._on_status, facts)
        self._tunnel.pause(self._paused)

    def _serve(self, control: socket.socket) -> None:
        """Serve a control channel, at the address of this moment: a laptop changes its network."""
        self._server.serve_socket(control, own_address(self._settings.service.url))

    def run(self) -> int:
        """The exit status: 0 after `stop`, `REFUSED` where the service refuses this agent for good."""
        self._server.start()
        for work in (self._look, self._keep_up):
            threading.Thread(target=work, daemon=True).start()
        try:
            self._tunnel.run()
        except TunnelRefusedError as error:
            self._on_status(f"refused: {error.reason}")
            return REFUSED
        finally:
            self._stopping.set()
            self._server.stop()
            self._write("stopped" if not self._status.startswith("refused") else self._status)
        return 0

    def stop(self) -> None:
        self._stopping.set()
        self._tunnel.stop()

    # ---- what others see

    def _on_status(self, status: str) -> None:
        if status == self._status:
            return
        self._status = status
        if status.startswith("expired"):
            self._is_due.set()
        self._write(status)
        log.info("%s", _in_words(status, self._settings))

    def _write(self, status: str) -> None:
        """Write the state for `--status`. Raises nothing: without the file `--status` is wrong, and transfers go on."""
        state = {
            "status": status,
            "paused": self._paused,
            "since": time.time(),
            "pid": os.getpid(),
            "version": self._version,
        }
        try:
            self._home.write_state(state)
        except OSError as error:
            if self._is_state_written:
                log.warning("The state for --status cannot be written: %s", error.strerror or error)
            self._is_state_written = False
        else:
            self._is_state_written = True

    # ---- threads

    def _look(self) -> None:
        """Do what `--stop`, `--pause` and `--resume` of other processes ask, and report a folder that is gone."""
        gone: set[str] = set()
        while not self._stopping.wait(LOOK_SECONDS):
            if self._home.stop_request.exists():
                self.stop()
            paused = self._home.pause_request.exists()
            if paused != self._paused:
                self._paused = paused
                self._tunnel.pause(paused)
                self._write(self._status)
                log.info("Paused: transfers wait until you resume." if paused else "Transfers go on.")
            gone = self._report_gone(gone)

    def _report_gone(self, before: set[str]) -> set[str]:
        gone = {root.path for root in self._settings.roots if not Path(root.path).is_dir()}
        for path in sorted(gone - before):
            log.warning("The folder %s is gone: transfers of its files fail until it is back.", path)
        for path in sorted(before - gone):
            log.info("The folder %s is back.", path)
        return gone

    def _keep_up(self) -> None:
        """Renew the certificate in time, by the clock of the service."""
        while not self._stopping.is_set():
            has_expired = self._is_due.is_set()
            self._is_due.clear()
            is_quiet = False
            try:
                is_quiet = not self._renew_if_due(has_expired)
            except RequestFailedError as error:
                log.warning("The certificate cannot be renewed now: %s", error)
            except OSError as error:
                log.warning("The new certificate cannot be stored: %s. It is renewed again later.", error.strerror)
            if not is_quiet:
                self._stopping.wait(LEAST_UPKEEP_SECONDS)
            self._is_due.wait(UPKEEP_SECONDS)

    def _renew_if_due(self, has_expired: bool) -> bool:
        """Renew the certificate if it is due; return whether it was.

        Raises RequestFailedError; OSError if the new one is used, and could not be stored.
        """
        found = service_requests.newest(self._settings.service)
        if str(found["version"]) != self._version:
            log.info("The service offers version %s of this program; this is %s.", found["version"], self._version)
        if not has_expired and float(found["time"]) - self._settings.renewed < RENEW_AFTER:
            return False
        renewed = service_requests.renew(self._settings.service, self._identity, self._version)
        self._identity.chain = str(renewed["chain"])
        self._home.write_chain(self._identity.chain)
        self._settings.renewed = float(renewed["time"])
        self._home.write_settings(self._settings)
        log.info("The certificate of this computer was renewed.")
        return True


def _in_words(status: str, settings: AgentSettings) -> str:
    word, _, reason = status.partition(": ")
    if word == "connecting":
        return f"Connecting to {settings.service.host} ..."
    if word == "connected":
        return f"Connected: this computer is the endpoint {settings.endpoint_name}."
    if word == "away":
        return f"Not connected: {reason}. It is tried again by itself."
    return reason or status
