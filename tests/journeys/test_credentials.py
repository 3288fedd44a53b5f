"""Many identities, by REST alone: sites with their own authorities, and what becomes of a task whose credential ends.

The servers are the toolkit's and MyProxy's own. The last test looks for every secret that was used.
"""

from __future__ import annotations

import contextlib
import os
import re
import secrets
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from deploy.endpoint.authority import CertificateFiles
from deploy.stack.embedded import embedded_environment
from identity.gsi.proxies import make_proxy
from tests.browsers import chromium
from tests.browsers.chromium import ENTER, Chromium
from tests.gridftp import myproxy
from tests.gridftp.authority import Authority
from tests.gridftp.grid import credential_of
from tests.gridftp.toolkit import ToolkitServer
from tests.instance import Api, instance
from tests.secrets_search import search
from tests.servers.mail_server import MailServer
from tests.waiting import eventually

pytestmark = [pytest.mark.toolkit, pytest.mark.own_interpreter, pytest.mark.timeout(180)]

ADDRESS = "carol@example.org"
PASSPHRASE = "a passphrase that nobody else has"
MB = 1 << 20


@dataclass
class Known:
    """Secrets and answers of the journey, for the search at its end."""

    secrets: dict[str, bytes | str] = field(default_factory=dict)
    answers: list[str] = field(default_factory=list)


class Carol(Api):
    """A user with a mail address; remembers every answer that she was given."""

    def __init__(self, home: Path, token: str, known: Known) -> None:
        super().__init__(home)
        self._headers["Authorization"] = f"Bearer {token}"
        self.known = known

    def call(self, method: str, path: str, document: object = None) -> Any:
        answer = super().call(method, path, document)
        self.known.answers.append(str(answer))
        return answer

    def gsi_endpoint(self, server: ToolkitServer, **more: object) -> str:
        address = {"DATA_TYPE": "server", "hostname": "127.0.0.1", "port": server.port, "scheme": "gsiftp"}
        name = f"gsi-{secrets.token_hex(4)}"
        document = {"DATA_TYPE": "endpoint", "name": name, "display_name": name, "DATA": [address], **more}
        return str(self.call("POST", "/endpoint", document)["id"])

    def push_proxy(self, endpoint: str, identity: CertificateFiles, *, seconds: float = 3600) -> None:
        """Activate with a new proxy of this identity."""
        proxy = make_proxy(credential_of(identity), lifetime=timedelta(seconds=seconds), now=datetime.now(UTC))
        pem = proxy.to_pem().decode()
        self.known.secrets[f"proxy {len(self.known.secrets)}"] = pem
        assert self.activate(endpoint, "proxy", proxy=pem)["code"] == "Activated.ClientProxyCredential"

    def task(self, task_id: str) -> dict[str, Any]:
        found: dict[str, Any] = self.call("GET", f"/task/{task_id}")
        return found

    def codes(self, task_id: str) -> list[str]:
        return [event["code"] for event in self.events(task_id)]

    def events(self, task_id: str) -> list[dict[str, Any]]:
        """The latest first."""
        found: list[dict[str, Any]] = self.call("GET", f"/task/{task_id}/event_list?limit=1000")["DATA"]
        return found

    def until(self, task_id: str, status: str, *, seconds: float = 60) -> dict[str, Any]:
        eventually(lambda: self.task(task_id)["status"] == status, seconds=seconds)
        return self.task(task_id)


@pytest.fixture(scope="module")
def known() -> Known:
    return Known()


@pytest.fixture(scope="module")
def mail_server() -> Iterator[MailServer]:
    server = MailServer()
    yield server
    server.close()


@pytest.fixture(scope="module")
def trusted(grid_home: Path, authority: Authority, other_authority: Authority) -> Path:
    """The service's folder of authorities."""
    folder = grid_home / "trusted"
    folder.mkdir(mode=0o755)
    for issuer in (authority, other_authority):
        for path in issuer.certificates.iterdir():
            shutil.copy(path, folder)
    return folder


@pytest.fixture(scope="module")
def carol(
    trusted: Path, mail_server: MailServer, known: Known, give_schema: Callable[[Path], object]
) -> Iterator[Carol]:
    """The service, which trusts both authorities and has a mail server; and a user of it."""
    mail = f"smtp://127.0.0.1:{mail_server.port}?starttls=no"
    with instance(before=give_schema, WAYBILL_CERTIFICATES=str(trusted), WAYBILL_MAIL=mail) as api:
        waybill(api.home, "user", "add", "carol", "--email", ADDRESS)
        token = waybill(api.home, "token", "carol").split()[-1]
        yield Carol(api.home, token, known)


def waybill(home: Path, *words: str) -> str:
    command = [sys.executable, "-m", "deploy.cli", *words]
    environment = {**os.environ, "WAYBILL_HOME": str(home)}
    return subprocess.run(command, env=environment, check=True, capture_output=True, text=True, timeout=60).stdout


@dataclass
class Sites:
    """Two sites that know nothing of each other: at each a folder, a server, an endpoint, and who the user is."""

    here: Path
    there: Path
    source_server: ToolkitServer
    source: str
    destination: str
    at_source: CertificateFiles
    at_destination: CertificateFiles


@pytest.fixture
def workspace() -> Iterator[Path]:
    """A folder in memory where there is one."""
    folder = Path(f"/dev/shm/waybill-credentials-{secrets.token_hex(4)}")
    if not folder.parent.is_dir():
        folder = Path("/tmp") / folder.name
    folder.mkdir(mode=0o755)
    yield folder
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture
def sites(
    carol: Carol,
    gsi_server_factory: Callable[..., ToolkitServer],
    identity_of: Callable[..., CertificateFiles],
    other_authority: Authority,
    workspace: Path,
) -> Sites:
    here, there = workspace / "here", workspace / "there"
    for folder in (here, there):
        folder.mkdir()
    source_server = gsi_server_factory(here)
    destination_server = gsi_server_factory(there, issuer=other_authority)
    return Sites(
        here,
        there,
        source_server,
        carol.gsi_endpoint(source_server),
        carol.gsi_endpoint(destination_server),
        identity_of("alice"),
        identity_of("bob", other_authority),
    )


@contextlib.contextmanager
def slowed(sites: Sites) -> Iterator[None]:
    """The source's processes run for moments only: 8 MB a second arrive, however fast the machine is."""
    assert sites.source_server.process is not None
    group, over = sites.source_server.process.pid, threading.Event()

    def slow() -> None:
        pause, had = 0.3, arrived(sites)
        while not over.is_set():
            os.killpg(group, signal.SIGSTOP)
            over.wait(pause)
            os.killpg(group, signal.SIGCONT)
            over.wait(0.005)
            now = arrived(sites)
            pause, had = min(3.0, max(0.3, (now - had) / (8 * MB))), now

    thread = threading.Thread(target=slow)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


def arrived(sites: Sites) -> int:
    """The octets that the files at the destination occupy."""
    octets = 0
    for path in sites.there.iterdir():
        with contextlib.suppress(FileNotFoundError):  # renamed or removed meanwhile
            octets += 512 * path.stat().st_blocks
    return octets


def random_file(path: Path, size: int) -> None:
    path.write_bytes(secrets.token_bytes(MB) * (size // MB))


def same(sites: Sites, name: str) -> bool:
    return (sites.here / name).read_bytes() == (sites.there / name).read_bytes()


# ---- the journey


@pytest.mark.parametrize("encrypted", [False, True])
def test_files_go_between_sites_with_a_different_credential_at_each_end(
    carol: Carol, sites: Sites, encrypted: bool
) -> None:
    for number in range(20):
        random_file(sites.here / f"file{number}", MB)
    carol.push_proxy(sites.source, sites.at_source)
    carol.push_proxy(sites.destination, sites.at_destination)
    task_id = carol.transfer(
        sites.source, f"{sites.here}/", sites.destination, f"{sites.there}/",
        recursive=True, encrypt_data=encrypted, verify_checksum=True,
    )  # fmt: skip
    task = carol.wait(task_id, timeout=60)
    assert task["status"] == "SUCCEEDED", carol.events(task_id)
    assert task["encrypt_data"] is encrypted
    assert all(same(sites, f"file{number}") for number in range(20))


def test_a_task_without_a_credential_is_not_begun(carol: Carol, sites: Sites) -> None:
    carol.push_proxy(sites.source, sites.at_source)
    task_id = carol.transfer(
        sites.source, f"{sites.here}/x", sites.destination, f"{sites.there}/x", skip_activation_check=True
    )
    task = carol.until(task_id, "INACTIVE", seconds=60)
    name = carol.call("GET", f"/endpoint/{sites.destination}")["canonical_name"]
    assert task["nice_status"] == "NO_CREDENTIALS"
    assert f"{name} (the destination)" in task["nice_status_details"]
    random_file(sites.here / "x", MB)
    carol.push_proxy(sites.destination, sites.at_destination)
    assert carol.wait(task_id, timeout=30)["status"] == "SUCCEEDED", carol.events(task_id)
    assert same(sites, "x")


def test_an_identity_that_the_server_does_not_know_waits_for_another_one(
    carol: Carol, sites: Sites, identity_of: Callable[..., CertificateFiles]
) -> None:
    random_file(sites.here / "x", MB)
    carol.push_proxy(sites.source, identity_of("somebody else"))
    carol.push_proxy(sites.destination, sites.at_destination)
    task_id = carol.transfer(sites.source, f"{sites.here}/x", sites.destination, f"{sites.there}/x")
    task = carol.until(task_id, "INACTIVE", seconds=60)
    assert task["nice_status"] == "AUTH"
    assert "(the source) refused the login" in task["nice_status_details"]
    carol.push_proxy(sites.source, sites.at_source)
    assert carol.wait(task_id, timeout=30)["status"] == "SUCCEEDED", carol.events(task_id)
    assert same(sites, "x")


def test_a_user_who_was_revoked_after_giving_a_credential_waits_for_another_one(
    carol: Carol, sites: Sites, trusted: Path, other_authority: Authority, tmp_path: Path
) -> None:
    """The list comes to the service alone: the sites' servers would go on."""
    random_file(sites.here / "x", MB)
    carol.push_proxy(sites.source, sites.at_source)
    lost = other_authority.issue_user("bob")
    carol.push_proxy(sites.destination, lost)
    ask = (sites.source, f"{sites.here}/x", sites.destination, f"{sites.there}/x")
    assert carol.wait(carol.transfer(*ask), timeout=30)["status"] == "SUCCEEDED"
    # In a copy: the authority of all other tests is left as it is.
    revoking = Authority(
        Path(shutil.copytree(other_authority.folder, tmp_path / "ca")),
        name="Other Authority",
        namespace=other_authority.namespace,
    )
    revoking.revoke([lost])
    lists = [Path(shutil.copy(path, trusted)) for path in revoking.certificates.glob("*.r0")]
    try:
        task_id = carol.transfer(*ask)
        task = carol.until(task_id, "INACTIVE", seconds=60)
        assert task["nice_status"] == "NO_CREDENTIALS"
        assert "(the destination). The credential was revoked by its authority." in task["nice_status_details"]
        carol.push_proxy(sites.destination, sites.at_destination)
        assert carol.wait(task_id, timeout=30)["status"] == "SUCCEEDED", carol.events(task_id)
    finally:
        for path in lists:
            path.unlink()


def test_a_server_with_the_certificate_of_another_host_is_not_believed(
    carol: Carol, sites: Sites, gsi_server_factory: Callable[..., ToolkitServer], authority: Authority
) -> None:
    random_file(sites.there / "x", MB)
    other = carol.gsi_endpoint(gsi_server_factory(sites.here, host=authority.issue_host(["dtn.example.org"])))
    carol.push_proxy(other, sites.at_source)
    carol.push_proxy(sites.destination, sites.at_destination)
    task_id = carol.transfer(sites.destination, f"{sites.there}/x", other, f"{sites.here}/x")
    eventually(lambda: "GSI_DN_MISMATCH" in carol.codes(task_id))
    assert carol.task(task_id)["status"] == "ACTIVE", "its owner may mend it"
    carol.call("POST", f"/task/{task_id}/cancel")
    assert carol.wait(task_id, timeout=20)["status"] == "FAILED"
    assert not (sites.here / "x").exists()


def test_what_cannot_be_encrypted_is_not_moved(
    carol: Carol, sites: Sites, toolkit_server_factory: Callable[..., ToolkitServer], workspace: Path
) -> None:
    random_file(sites.here / "x", MB)
    (workspace / "open").mkdir()
    plain = carol.endpoint(f"plain-{secrets.token_hex(4)}", toolkit_server_factory(workspace / "open").port)
    carol.push_proxy(sites.source, sites.at_source)
    ask = (sites.source, f"{sites.here}/x", plain, f"{workspace}/open/x")
    task = carol.wait(carol.transfer(*ask, encrypt_data=True), timeout=30)
    assert (task["status"], task["fatal_error"]["code"]) == ("FAILED", "UNSUPPORTED")
    assert "destination server is reached in clear text" in task["fatal_error"]["description"]
    assert not (workspace / "open" / "x").exists()
    assert carol.wait(carol.transfer(*ask), timeout=30)["status"] == "SUCCEEDED"


def test_a_credential_ends_in_mid_transfer_and_a_new_one_finishes_it(
    carol: Carol, sites: Sites, mail_server: MailServer
) -> None:
    random_file(sites.here / "large", 1024 * MB)
    carol.push_proxy(sites.source, sites.at_source, seconds=34)
    carol.push_proxy(sites.destination, sites.at_destination)
    before = len(mail_server.mails)
    with slowed(sites):
        task_ids = [
            carol.transfer(
                sites.source, f"{sites.here}/large", sites.destination, f"{sites.there}/{name}",
                encrypt_data=True, label=f"long {name}", perf_p=2,
            )
            for name in ("large", "again")
        ]  # fmt: skip
        tasks = [carol.until(task_id, "INACTIVE", seconds=60) for task_id in task_ids]
        assert len({task["nice_status_details"] for task in tasks}) == 1
    for task in tasks:
        assert task["nice_status"] == "NO_CREDENTIALS"
        assert f"/v0.10/endpoint/{sites.source}/activate" in task["nice_status_details"]
        assert task["bytes_transferred"] > 0, "it was under way"
        assert task["files_transferred"] == 0
    eventually(lambda: waiting_mails(mail_server, before))
    carol.push_proxy(sites.source, sites.at_source)
    renewed = datetime.now(UTC)
    eventually(lambda: all("UNPAUSED" in carol.codes(task_id) for task_id in task_ids))
    for task_id in task_ids:
        (told,) = (event["time"] for event in carol.events(task_id) if event["code"] == "UNPAUSED")
        assert datetime.fromisoformat(told) - renewed < timedelta(seconds=4), "within 5 s; times are whole seconds"
    for task_id, had in zip(task_ids, tasks, strict=True):
        task = carol.wait(task_id, timeout=60)
        assert task["status"] == "SUCCEEDED", carol.events(task_id)
        assert task["bytes_transferred"] >= had["bytes_transferred"]
    assert same(sites, "large")
    assert (sites.there / "again").read_bytes() == (sites.here / "large").read_bytes()
    foreseen = [one for one in mail_server.mails[before:] if "will need a new credential" in one["Subject"]]
    assert len(foreseen) <= 1, "whether it is, is the forecast's matter"
    (mail,) = waiting_mails(mail_server, before)
    assert mail["To"] == ADDRESS
    assert f"/v0.10/endpoint/{sites.source}/activate" in mail.get_content()
    eventually(
        lambda: (
            [m["Subject"] for m in mail_server.mails[before:]].count('Waybill: the transfer "long again" succeeded')
            == 1
        )
    )


def waiting_mails(server: MailServer, after: int) -> list[Any]:
    return [mail for mail in server.mails[after:] if "waits for a credential" in mail["Subject"]]


def test_a_deactivation_stops_what_is_under_way_and_a_new_activation_goes_on(carol: Carol, sites: Sites) -> None:
    random_file(sites.here / "large", 512 * MB)
    carol.push_proxy(sites.source, sites.at_source)
    carol.push_proxy(sites.destination, sites.at_destination)
    with slowed(sites):
        task_id = carol.transfer(sites.source, f"{sites.here}/large", sites.destination, f"{sites.there}/large")
        eventually(lambda: carol.task(task_id)["bytes_transferred"] > 0)
        assert carol.call("POST", f"/endpoint/{sites.destination}/deactivate")["code"] == "Deactivated"
        task = carol.until(task_id, "INACTIVE", seconds=60)
    assert "(the destination)" in task["nice_status_details"]
    carol.push_proxy(sites.destination, sites.at_destination)
    assert carol.wait(task_id, timeout=60)["status"] == "SUCCEEDED", carol.events(task_id)
    assert same(sites, "large")


def test_a_credential_that_is_renewed_in_time_interrupts_nothing(carol: Carol, sites: Sites) -> None:
    random_file(sites.here / "large", 512 * MB)
    carol.push_proxy(sites.source, sites.at_source, seconds=40)
    carol.push_proxy(sites.destination, sites.at_destination)
    with slowed(sites):
        task_id = carol.transfer(sites.source, f"{sites.here}/large", sites.destination, f"{sites.there}/large")
        eventually(lambda: carol.task(task_id)["bytes_transferred"] > 0)
        carol.push_proxy(sites.source, sites.at_source)
    assert carol.wait(task_id, timeout=60)["status"] == "SUCCEEDED", carol.events(task_id)
    assert same(sites, "large")
    assert not {"NO_CREDENTIALS", "AUTH", "UNPAUSED"} & {*carol.codes(task_id)}


@pytest.mark.skipif(not myproxy.installed(), reason="MyProxy is not installed")
def test_one_passphrase_serves_all_endpoints_of_a_myproxy_server(
    carol: Carol,
    gsi_server_factory: Callable[..., ToolkitServer],
    myproxy_server_factory: Callable[..., myproxy.MyProxyServer],
    identity_of: Callable[..., CertificateFiles],
    workspace: Path,
) -> None:
    portal = myproxy_server_factory()
    portal.keep("carol", PASSPHRASE, identity_of("alice"))
    carol.known.secrets["passphrase"] = PASSPHRASE
    for name in ("one", "two"):
        (workspace / name).mkdir()
    server = {"myproxy_server": f"127.0.0.1:{portal.port}"}
    one, two = (carol.gsi_endpoint(gsi_server_factory(workspace / name), **server) for name in ("one", "two"))
    random_file(workspace / "one" / "file", MB)
    task_id = carol.transfer(one, f"{workspace}/one/file", two, f"{workspace}/two/file", skip_activation_check=True)
    task = carol.until(task_id, "INACTIVE", seconds=60)
    assert f"MyProxy server 127.0.0.1:{portal.port}" in task["nice_status_details"]
    answer = carol.activate(one, "myproxy", hostname=server["myproxy_server"], username="carol", passphrase=PASSPHRASE)
    assert answer["code"] == "Activated.MyProxyCredential"
    assert carol.call("GET", f"/endpoint/{two}")["activated"] is True
    assert carol.wait(task_id, timeout=30)["status"] == "SUCCEEDED", carol.events(task_id)
    assert (workspace / "two" / "file").read_bytes() == (workspace / "one" / "file").read_bytes()


@pytest.mark.skipif(not myproxy.installed(), reason="MyProxy is not installed")
def test_a_credential_that_has_ended_is_renewed_from_the_mail_by_one_form(
    carol: Carol,
    sites: Sites,
    gsi_server_factory: Callable[..., ToolkitServer],
    myproxy_server_factory: Callable[..., myproxy.MyProxyServer],
    mail_server: MailServer,
    tmp_path: Path,
) -> None:
    """The link of the mail, then one press: the task goes on. The browser is signed in already."""
    if not chromium.installed():
        (pytest.fail if os.environ.get("CI") == "true" else pytest.skip)("there is no chromedriver")
    portal = myproxy_server_factory()
    portal.keep("carol", PASSPHRASE, sites.at_source)
    carol.known.secrets["passphrase"] = PASSPHRASE
    # Begun for this test alone: no earlier mail about this wave.
    source = carol.gsi_endpoint(sites.source_server, myproxy_server=f"127.0.0.1:{portal.port}")
    random_file(sites.here / "large", 512 * MB)
    carol.push_proxy(sites.destination, sites.at_destination)
    before, password = len(mail_server.mails), waybill(carol.home, "password", "carol", "--generate").split()[-1]
    carol.known.secrets["password"] = password
    with Chromium(tmp_path) as browser:
        browser.open(f"{carol.url}/signin?next=/activity")
        browser.type("#username", "carol")
        browser.type("#password", password + ENTER)
        eventually(lambda: urlsplit(browser.address).path == "/activity")
        carol.push_proxy(source, sites.at_source, seconds=34)
        with slowed(sites):
            task_id = carol.transfer(source, f"{sites.here}/large", sites.destination, f"{sites.there}/large")
            carol.until(task_id, "INACTIVE", seconds=60)
        # A mail of an earlier test may still arrive: this test's mail is the one that names its endpoint.
        link_of_source = re.compile(rf"\S+/endpoints/{source}/activate")

        def links() -> list[str]:
            mails = waiting_mails(mail_server, before)
            return [found for mail in mails for found in link_of_source.findall(mail.get_content())]

        eventually(links)
        [link] = links()
        browser.open(link)
        browser.type("input[name='myproxy.username']", "carol")
        browser.type("input[name='myproxy.passphrase']", PASSPHRASE + ENTER)
        eventually(lambda: carol.task(task_id)["status"] != "INACTIVE")
    assert carol.wait(task_id, timeout=60)["status"] == "SUCCEEDED", carol.events(task_id)
    assert same(sites, "large")


def test_none_of_the_secrets_is_anywhere(carol: Carol, mail_server: MailServer, known: Known) -> None:
    """Files and logs of the instance, every row of its database, all mails and all answers."""
    assert known.secrets
    texts = {"answers": "\n".join(known.answers), "mails": "\n".join(str(mail) for mail in mail_server.mails)}
    # The database is asked for its rows: its own files are hundreds of MB of the same.
    folders = [path for path in carol.home.iterdir() if path.is_dir() and path.name != "postgres"]
    texts |= {path.name: path.read_bytes().decode("latin-1") for path in carol.home.iterdir() if path.is_file()}
    database = embedded_environment(carol.home)["DATABASE_URL"]
    pids = list(carol.connection["pids"].values())
    assert search(known.secrets, folders=folders, database=database, texts=texts, processes=pids) == []
