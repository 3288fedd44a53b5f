"""From POST to a settled file of 1 byte on warm sessions: with GSI at both ends, and between anonymous servers.

python -m bench.secured_latency [--rounds 50]
"""

from __future__ import annotations

import argparse
import tempfile
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path

from bench.instance import Api, instance, seconds_until_settled
from bench.table import print_table
from deploy.endpoint.authority import Authority, write_gridmap
from deploy.endpoint.toolkit import GsiFiles, ToolkitServer, hand_over, session_account
from endpoints.gridftp.proxies import make_proxy
from endpoints.gridftp.x509 import Credential

ANONYMOUS, SECURED = "anonymous", "GSI, data channels authenticated"
#: Rounds until both worker processes have warm sessions.
WARM_UP = 10


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=50)
    rounds = parser.parse_args().rounds
    with tempfile.TemporaryDirectory(prefix="waybill-bench-") as folder:
        home = Path(folder)
        home.chmod(0o755)
        root = home / "files"
        root.mkdir()
        (root / "byte").write_bytes(b"x")
        hand_over(root, stop_at=home.parent)
        authority = Authority(home / "authority")
        security = gsi_files(authority)
        with (
            ToolkitServer(root) as one,
            ToolkitServer(root) as two,
            ToolkitServer(root, security=security) as three,
            ToolkitServer(root, security=security) as four,
            instance(WAYBILL_CERTIFICATES=str(authority.certificates)) as api,
        ):
            plain = [api.endpoint(f"plain{server.port}", server.port) for server in (one, two)]
            proxy = user_proxy(authority)
            secured = [gsi_endpoint(api, server.port, proxy) for server in (three, four)]
            runs: dict[str, list[float]] = {ANONYMOUS: [], SECURED: []}
            for index in range(rounds + WARM_UP):
                for name, ids in ((ANONYMOUS, plain), (SECURED, secured)):
                    begun = time.time()
                    task_id = api.transfer(ids[0], f"{root}/byte", ids[1], f"{root}/{name[0]}{index}")
                    ours = seconds_until_settled(api, api.wait(task_id, interval=0.25), begun)
                    if index >= WARM_UP:
                        runs[name].append(ours)
    print_table("One file of 1 byte, two toolkit servers, loopback, sessions warm", "s", runs, ANONYMOUS)


def gsi_files(authority: Authority) -> GsiFiles:
    gridmap = write_gridmap(authority.folder / "gridmap", {authority.user_subject("bench"): session_account()})
    return GsiFiles(authority.certificates, authority.issue_host(["localhost", "127.0.0.1"]), gridmap)


def user_proxy(authority: Authority) -> str:
    user = authority.issue_user("bench")
    credential = Credential.parse(user.certificate.read_bytes() + user.key.read_bytes())
    return make_proxy(credential, lifetime=timedelta(hours=12), now=datetime.now(UTC)).to_pem().decode()


def gsi_endpoint(api: Api, port: int, proxy: str) -> str:
    """Registered and activated; its id."""
    server = {"DATA_TYPE": "server", "hostname": "127.0.0.1", "port": port, "scheme": "gsiftp"}
    document = {"DATA_TYPE": "endpoint", "name": f"gsi{port}", "display_name": f"gsi{port}", "DATA": [server]}
    endpoint = str(api.call("POST", "/endpoint", document)["id"])
    rows = [{"type": "proxy", "name": "proxy", "value": proxy}]
    api.call("POST", f"/endpoint/{endpoint}/activate", {"DATA_TYPE": "activation_requirements", "DATA": rows})
    return endpoint


if __name__ == "__main__":
    main()
