"""One agent's tunnel, until SIGTERM: `python -m bench.connect.one_tunnel URL FOLDER`, for `bench.connect.relay`."""

from __future__ import annotations

import signal
import sys
from pathlib import Path

from endpoints.gridftp.agent.keys import AgentIdentity, AgentKey
from endpoints.gridftp.agent.tunnel.service import ServiceAddress
from endpoints.gridftp.agent.tunnel.tunnel import Tunnel


def say(status: str) -> None:
    sys.stdout.write(status + "\n")
    sys.stdout.flush()


def main(url: str, folder: Path) -> None:
    key = AgentKey(_scalar((folder / "key").read_text()))
    identity = AgentIdentity(key, (folder / "chain").read_text())
    tunnel = Tunnel(ServiceAddress(url), identity, lambda sock: sock.close(), say)
    signal.signal(signal.SIGTERM, lambda *_: tunnel.stop())
    tunnel.run()


def _scalar(pem: str) -> int:
    """The number in a PKCS #8 key of OpenSSL, which also holds the public key; `AgentKey` reads the short form only."""
    import base64

    der = base64.b64decode("".join(pem.splitlines()[1:-1]))
    begin = der.index(b"\x02\x01\x01\x04\x20") + 5
    return int.from_bytes(der[begin : begin + 32], "big")


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
