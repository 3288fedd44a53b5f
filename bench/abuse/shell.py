"""Strangers at the port of the ssh shell, who never sign in, beside a user who does."""

from __future__ import annotations

import contextlib
import subprocess
import threading
import time
from itertools import count

from .harness import Control, Target, attack
from .slow import Crowd

#: Strangers at one time, and the addresses from which they come: other networks than that of the user.
STRANGERS, NETWORKS = 300, 30
#: Seconds between two sign-ins of the user, and for one.
PAUSE, SIGN_IN_SECONDS = 1.0, 15.0


@attack("ssh: 300 strangers connect and leave before sign-in, again and again", seconds=30)
def hurried(target: Target, control: Control) -> None:
    _crowd(target, control, b"SSH-2.0-stranger\r\n")


@attack("ssh: 300 strangers send nonsense in place of a key exchange", seconds=30)
def nonsense(target: Target, control: Control) -> None:
    # A packet that announces 32 KB, and has 1 KB (RFC 4253 section 6).
    _crowd(target, control, b"SSH-2.0-stranger\r\n" + (32768).to_bytes(4, "big") + b"\x14" * 1024, octet=b"\x14")


@attack("ssh: 300 strangers send an octet of their version now and then", seconds=30)
def silent(target: Target, control: Control) -> None:
    _crowd(target, control, b"SSH-2.0-", octet=b"x", leaves=False)


def _crowd(target: Target, control: Control, beginning: bytes, *, octet: bytes = b"", leaves: bool = True) -> None:
    """leaves: each connection is closed, and begun again, as soon as the server has sent something."""
    ssh = target.api.connection["ssh"]
    sources = (f"127.{70 + number % NETWORKS}.0.1" for number in count())
    crowd = Crowd((ssh["host"], ssh["port"]), beginning, STRANGERS, sources=sources)
    times: list[float] = []
    refused: list[str] = []
    user = threading.Thread(target=_sign_in_again_and_again, args=(target, control, times, refused))
    with contextlib.closing(crowd):
        control.begin()
        user.start()
        while not control.wait(0.1):
            if octet:
                crowd.send(octet)
            if leaves:
                crowd.look()
        user.join()
    control.note(f"{crowd.ended} connections of strangers ended")
    worst = f"{max(times):.1f} s at most" if times else "none"
    control.note(f"the user signed in {len(times)} times by ssh, {worst}; {len(refused)} attempts failed {refused[:1]}")
    if refused or not times:
        raise RuntimeError("a user could not sign in by ssh")


def _sign_in_again_and_again(target: Target, control: Control, times: list[float], refused: list[str]) -> None:
    ssh = target.api.connection["ssh"]
    known = target.home / "known-host"
    known.write_text(f"[{ssh['host']}]:{ssh['port']} {ssh['host_key']}\n")
    options = {"BatchMode": "yes", "UserKnownHostsFile": known, "IdentitiesOnly": "yes"}
    words = ["ssh", *(f"-o{name}={value}" for name, value in options.items()), "-i", ssh["identity_file"]]
    words += ["-p", str(ssh["port"]), f"{ssh['user']}@{ssh['host']}", "status"]
    while not control.wait(PAUSE):
        begun = time.monotonic()
        try:
            done = subprocess.run(words, capture_output=True, text=True, timeout=SIGN_IN_SECONDS, check=False)
        except subprocess.TimeoutExpired:
            refused.append(f"no end within {SIGN_IN_SECONDS:.0f} s")
            continue
        if done.returncode == 0:
            times.append(time.monotonic() - begun)
        else:
            refused.append(done.stderr.strip()[-200:])
