"""The two servers of a box: their configuration, their systemd units, and their foreground commands."""

from __future__ import annotations

import contextlib
import grp
import os
import pwd
import shutil
import socket
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from deploy.endpoint import foreground
from deploy.endpoint.authority import Authority
from deploy.endpoint.boxed.errors import BoxError
from deploy.endpoint.toolkit import MYPROXY_SERVER, SERVER, server_program

from . import settings
from .record import BoxRecord, Owner
from .settings import BoxSettings

UNITS = Path("/etc/systemd/system")
PAM = Path("/etc/pam.d")
GRIDFTP, MYPROXY = "waybill-gridftp", "waybill-myproxy"
#: Debian's package creates this account. It reads /etc/shadow by its group, so that no part of MyProxy runs as root.
MYPROXY_ACCOUNT, SHADOW_GROUP = "myproxy", "shadow"
#: The capabilities that GridFTP needs to become the account of a login, and to use a port below 1024.
GRIDFTP_CAPABILITIES = ("CAP_SETUID", "CAP_SETGID", "CAP_NET_BIND_SERVICE")
SYSTEMCTL_SECONDS = 90

_GRIDFTP = """# Made by `box setup` of Waybill; it writes this file again.
port {port}
port_range {first},{last}
log_level ERROR,WARN,INFO
log_module syslog
connections_max 400
$X509_CERT_DIR "{certificates}"
$X509_USER_CERT "{host}/gridftp.pem"
$X509_USER_KEY "{host}/gridftp.key"
$GRIDMAP "{gridmap}"
{address}"""
_MYPROXY = """# Made by `box setup` of Waybill; it writes this file again.
# An online authority, and nothing else: no credential is accepted, and none is kept.
authorized_retrievers "*"
default_retrievers "*"
cert_dir {certificates}
pam "required"
pam_id "{pam}"
certificate_issuer_cert {authority}/ca.pem
certificate_issuer_key {authority}/ca.key
certificate_serialfile {private}/serial
certificate_mapfile {gridmap}
max_cert_lifetime {hours}
"""
PAM_TEXT = """# Made by `box setup` of Waybill: who may log in here with a password gets a certificate by MyProxy.
@include common-auth
@include common-account
"""
_COMMON = """[Unit]
Description={description}
After=network-online.target nss-user-lookup.target
Wants=network-online.target

[Service]
{service}
Restart=on-failure
RestartSec=2
TimeoutStopSec=20
NoNewPrivileges=yes
ProtectKernelTunables=yes
ProtectKernelModules=yes
ProtectKernelLogs=yes
ProtectControlGroups=yes
ProtectClock=yes
ProtectHostname=yes
RestrictNamespaces=yes
RestrictRealtime=yes
LockPersonality=yes
SystemCallArchitectures=native
RestrictAddressFamilies=AF_UNIX AF_INET AF_INET6 AF_NETLINK

[Install]
WantedBy=multi-user.target
"""
_GRIDFTP_SERVICE = """Type=exec
ExecStart={command}
CapabilityBoundingSet={capabilities}
ProtectSystem=full
TasksMax=infinity
LimitNOFILE=65536"""
_MYPROXY_SERVICE = """Type=forking
PIDFile=/run/waybill-myproxy/pid
RuntimeDirectory=waybill-myproxy
User={account}
SupplementaryGroups={group}
Environment=X509_CERT_DIR={certificates}
Environment=X509_USER_CERT={host}/myproxy.pem
Environment=X509_USER_KEY={host}/myproxy.key
ExecStart={command}
CapabilityBoundingSet={capabilities}
{ambient}ProtectSystem=strict
ReadWritePaths={private} -/run/faillock
ProtectHome=yes
PrivateTmp=yes
DevicePolicy=closed
MemoryDenyWriteExecute=yes
UMask=0077"""


@dataclass(frozen=True)
class Box:
    """The paths of a box, and their owners."""

    folder: Path
    settings: BoxSettings

    @property
    def authority_folder(self) -> Path:
        return self.folder / "authority"

    @property
    def certificates(self) -> Path:
        return authority_certificates(self.folder)

    @property
    def host(self) -> Path:
        return self.folder / "host"

    @property
    def gridmap(self) -> Path:
        return self.folder / "gridmap"

    @property
    def private(self) -> Path:
        return self.folder / "myproxy"

    @property
    def pam_file(self) -> Path:
        return PAM / self.settings.pam_service

    def authority(self, record: BoxRecord) -> Authority:
        return Authority(self.authority_folder, namespace=self.settings.namespace, note=record.note)

    def units(self) -> dict[str, str]:
        """Name -> the text of the systemd unit."""
        return {GRIDFTP: self._gridftp_unit(), MYPROXY: self._myproxy_unit()}

    def _gridftp_unit(self) -> str:
        command = " ".join(self.gridftp_command())
        service = _GRIDFTP_SERVICE.format(command=command, capabilities=" ".join(GRIDFTP_CAPABILITIES))
        return _COMMON.format(description=f"GridFTP server of {self.settings.name} (Waybill)", service=service)

    def _myproxy_unit(self) -> str:
        low = self.settings.myproxy_port < 1024
        service = _MYPROXY_SERVICE.format(
            account=MYPROXY_ACCOUNT,
            group=SHADOW_GROUP,
            certificates=self.certificates,
            host=self.host,
            command=" ".join(self.myproxy_command("/run/waybill-myproxy/pid")),
            private=self.private,
            capabilities="CAP_NET_BIND_SERVICE" if low else "",
            ambient="AmbientCapabilities=CAP_NET_BIND_SERVICE\n" if low else "",
        )
        return _COMMON.format(description=f"MyProxy server of {self.settings.name} (Waybill)", service=service)

    def gridftp_config(self) -> str:
        first, last = self.settings.data_range
        address = self.settings.address
        return _GRIDFTP.format(
            port=self.settings.port,
            first=first,
            last=last,
            certificates=self.certificates,
            host=self.host,
            gridmap=self.gridmap,
            address=f"control_interface {address}\ndata_interface {address}\n" if address else "",
        )

    def myproxy_config(self) -> str:
        return _MYPROXY.format(
            certificates=self.certificates,
            pam=self.settings.pam_service,
            authority=self.authority_folder,
            private=self.private,
            gridmap=self.gridmap,
            hours=self.settings.hours,
        )

    def gridftp_command(self) -> list[str]:
        return [_program(SERVER), "-c", str(self.folder / "gridftp.conf")]

    def myproxy_command(self, pid_file: str | Path) -> list[str]:
        words = [_program(MYPROXY_SERVER), "-c", str(self.folder / "myproxy.conf")]
        words += ["-s", str(self.private / "store"), "-p", str(self.settings.myproxy_port), "-P", str(pid_file)]
        return [*words, *(["-l", self.settings.address] if self.settings.address else [])]

    def foreground_commands(self) -> dict[str, list[str]]:
        """Name -> a command that stays in the foreground, with the same accounts as the units."""
        keeper = [sys.executable, foreground.__file__]
        environment = [
            "env",
            f"X509_CERT_DIR={self.certificates}",
            f"X509_USER_CERT={self.host}/myproxy.pem",
            f"X509_USER_KEY={self.host}/myproxy.key",
        ]
        drop = []
        if os.geteuid() == 0:
            drop = ["setpriv", f"--reuid={MYPROXY_ACCOUNT}", f"--regid={MYPROXY_ACCOUNT}", f"--groups={SHADOW_GROUP}"]
            drop += ["--no-new-privs", "--"]
        return {
            GRIDFTP: self.gridftp_command(),
            MYPROXY: [*keeper, *drop, *environment, *self.myproxy_command(self.private / "pid")],
        }

    def listens(self) -> dict[str, bool]:
        ports = {GRIDFTP: self.settings.port, MYPROXY: self.settings.myproxy_port}
        return {name: _answers(self.settings.address or "127.0.0.1", port) for name, port in ports.items()}


def box_of(folder: Path) -> Box:
    """The box that is set up in this folder. Raises BoxError."""
    found = settings.load(folder)
    if found is None:
        raise BoxError(f"nothing is set up in {folder}: `box setup` does it")
    return Box(folder, found)


def authority_certificates(folder: Path) -> Path:
    """The files of the box in `folder` that others need to trust it."""
    return folder / "authority" / "certificates"


def myproxy_owner() -> Owner | None:
    """The owner of MyProxy's private files; for an ordinary user, that user. Raises BoxError."""
    if os.geteuid() != 0:
        return None
    try:
        account = pwd.getpwnam(MYPROXY_ACCOUNT)
        grp.getgrnam(SHADOW_GROUP)
    except KeyError as error:
        raise BoxError(f"this machine lacks an account that Debian's packages make: {error}") from None
    return account.pw_uid, account.pw_gid


def check_port(option: str, address: str, port: int) -> None:
    """Raises BoxError when the port is not free."""
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    with socket.socket(family) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((address, port))
        except OSError as error:
            raise BoxError(f"{option}: port {port} cannot be used: {error.strerror}") from error


def has_systemd() -> bool:
    """Whether systemd runs this machine; see sd_booted(3)."""
    return Path("/run/systemd/system").is_dir() and shutil.which("systemctl") is not None


def systemctl(*words: str, check: bool = True) -> bool:
    """Run systemctl; returns whether it succeeded. Raises BoxError where it must succeed."""
    done = subprocess.run(
        ["systemctl", *words], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=SYSTEMCTL_SECONDS
    )
    if done.returncode and check:
        raise BoxError(f"systemctl {' '.join(words)}: {(done.stderr or done.stdout).strip()}")
    return done.returncode == 0


def missing_programs() -> Sequence[str]:
    """The paths of the programs that the two servers need."""
    servers = [name for name in (SERVER, MYPROXY_SERVER) if server_program(name) is None]
    return servers if shutil.which("openssl") else [*servers, "openssl"]


def _program(name: str) -> str:
    path = server_program(name)
    if path is None:
        raise BoxError(f"{name} is not installed: sudo deploy/endpoint/install-toolkit.sh --endpoint")
    return path


def _answers(address: str, port: int) -> bool:
    with contextlib.suppress(OSError), socket.create_connection((address, port), timeout=2):
        return True
    return False
