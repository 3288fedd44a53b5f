"""Tasks from and to shared endpoints, run on real servers: whose credential opens them, what rules and links allow."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from deploy.endpoint.authority import CertificateFiles
from endpoints import registry
from endpoints.addresses.openings import parse_openings
from endpoints.gridftp.server import GridFtpServer
from endpoints.gridftp.server.commands.table import SITE
from endpoints.models import AccessRule, Endpoint
from endpoints.registry import ServerSpec
from identity.models import Group, Membership, User
from identity.vault import store as vault
from tests.conformance.tasks.slices import in_thread, run, status, told, try_once, work
from tests.gridftp.authority import Authority
from tests.gridftp.proxy import Deed, MisbehavingProxy, Plan, Step, Watch
from tests.gridftp.toolkit import ToolkitServer
from tests.integration.activated import proxy_of
from tests.integration.cast import submit, submit_delete
from tests.integration.shared import give, make_share
from tests.store_connections import close_connections
from tests.waiting import eventually
from transferapi.tasks.models import Event, Lease, Task
from workers.engine import slice as slice_

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture(autouse=True)
def _instance(settings: Any) -> Iterator[None]:
    """The gate lets these tests through to their own servers; the store's threads give their connections back."""
    settings.ALLOW_TARGETS = parse_openings("127.0.0.1/32")
    close_connections()
    yield
    close_connections()


@dataclass
class Site:
    """A server over `folder`, and alice's endpoint for it. `path`: how the server calls a name in the folder."""

    kind: str
    folder: Path
    port: int
    endpoint: Endpoint

    def path(self, name: str) -> str:
        return f"{self.folder}/{name}" if self.kind == "toolkit" else f"/{name}"

    def share(self, name: str = "share", folder: str = "shared/") -> Endpoint:
        return make_share(self.endpoint, name, self.path(folder))

    def write(self, **files: str) -> None:
        """Names with two underscores for a slash."""
        for name, content in files.items():
            path = self.folder / name.replace("__", "/")
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(content)

    def open_to_all(self) -> None:
        """Sessions of the toolkit's server run as another account."""
        for path in (self.folder, *self.folder.rglob("*")):
            if not path.is_symlink():
                path.chmod(0o777 if path.is_dir() else 0o666)


@pytest.fixture
def alice() -> User:
    return User.objects.create(username="alice", email="alice@example.org")


@pytest.fixture
def bob() -> User:
    return User.objects.create(username="bob", email="bob@example.org")


@pytest.fixture(params=["own", pytest.param("toolkit", marks=pytest.mark.toolkit)])
def site(
    request: pytest.FixtureRequest,
    alice: User,
    folder: Path,
    serve: Callable[..., GridFtpServer],
    toolkit_server_factory: Callable[..., ToolkitServer],
) -> Site:
    """alice's; in it lies what she shares, and a secret beside it."""
    (folder / "shared").mkdir()
    (folder / "secret").mkdir()
    (folder / "secret" / "file").write_text("secret")
    port = serve().port if request.param == "own" else toolkit_server_factory(folder).port
    endpoint = registry.create(alice, {"name": "host"}, [ServerSpec("127.0.0.1", port, "ftp")])
    return Site(request.param, folder, port, endpoint)


@pytest.fixture
def home(bob: User, tmp_path: Path, serve: Callable[..., GridFtpServer]) -> Site:
    """bob's own, with nothing in it."""
    folder = tmp_path / "home"
    folder.mkdir()
    port = serve(folder).port
    endpoint = registry.create(bob, {"name": "home"}, [ServerSpec("127.0.0.1", port, "ftp")])
    return Site("own", folder, port, endpoint)


def everything_in(folder: Path) -> dict[str, str]:
    return {str(path.relative_to(folder)): path.read_text() for path in folder.rglob("*") if path.is_file()}


# ---- what is shared comes and goes


def test_a_folder_comes_from_a_share_and_goes_to_one(site: Site, home: Site, bob: User) -> None:
    site.write(shared__data__one="1", shared__data__inner__two="22")
    site.open_to_all()
    share = site.share()
    give(share, bob, "/data/")
    give(share, bob, "/inbox/", write=True)
    (site.folder / "shared" / "inbox").mkdir()
    site.open_to_all()
    options = {"verify_checksum": True, "preserve_timestamp": True}
    there = submit(bob, share, home.endpoint, ("/data/", "/copy/"), options=options)
    assert run(there) == "SUCCEEDED", told(there)
    assert everything_in(home.folder) == {"copy/one": "1", "copy/inner/two": "22"}
    back = submit(bob, home.endpoint, share, ("/copy/", "/~/inbox/deep/copy/"), options=options)
    assert run(back) == "SUCCEEDED", told(back)
    assert everything_in(site.folder / "shared" / "inbox" / "deep") == {"copy/one": "1", "copy/inner/two": "22"}
    again = submit(bob, home.endpoint, share, ("/copy/", "/inbox/deep/copy/"), options={"sync_level": 3})
    assert run(again) == "SUCCEEDED", told(again)
    again.refresh_from_db()
    assert (again.files_skipped, again.files_transferred) == (2, 0)
    gone = submit_delete(bob, share, "/inbox/deep", options={"recursive": True})
    assert run(gone) == "SUCCEEDED", told(gone)
    assert everything_in(site.folder / "shared" / "inbox") == {}
    for task in (there, back, again, gone):
        assert str(site.folder) not in told(task)


def test_a_share_and_its_host_are_both_ends(site: Site, alice: User) -> None:
    site.write(shared__one="1")
    site.open_to_all()
    share = site.share()
    task = submit(alice, share, site.endpoint, ("/one", site.path("copy")))
    assert run(task) == "SUCCEEDED", told(task)
    assert (site.folder / "copy").read_text() == "1"
    # The same file by another name is seen when it is looked at.
    (site.folder / "alias").symlink_to("shared")
    task = submit(alice, share, site.endpoint, ("/one", site.path("alias/one")))
    assert run(task) == "FAILED"
    assert "AMBIGUOUS_PATH" in told(task)
    assert (site.folder / "shared" / "one").read_text() == "1"


@pytest.mark.toolkit
@pytest.mark.usefixtures("trusting")
def test_the_owners_credential_opens_the_host_for_all_who_may(
    settings: Any,
    authority: Authority,
    gsi_server_factory: Callable[..., ToolkitServer],
    identity_of: Callable[..., CertificateFiles],
    alice: User,
    bob: User,
    home: Site,
    folder: Path,
) -> None:
    (folder / "shared").mkdir()
    (folder / "shared" / "data").write_text("by alice's leave")
    port = gsi_server_factory(folder, subjects=[authority.user_subject("alice")]).port
    host = registry.create(alice, {"name": "gsi"}, [ServerSpec("127.0.0.1", port, "gsiftp")])
    share = make_share(host, "share", f"{folder}/shared/")
    give(share, bob)
    give(share, bob, "/inbox/", write=True)
    task = submit(bob, share, home.endpoint, ("/data", "/data"), options={"skip_activation_check": True})
    assert run(task) == "INACTIVE"
    assert (task.nice_status, task.waits_at) == ("NO_CREDENTIALS", share)
    proxy = proxy_of(identity_of("alice"))
    vault.store(
        alice, vault.endpoint_binding(host.pk), vault.CredentialKind.X509, proxy.to_pem(), subject=proxy.identity,
        expires_at=proxy.expires_at,
    )  # fmt: skip
    assert status(task) == "ACTIVE", "her activation lets it go on"
    assert run(task) == "SUCCEEDED", told(task)
    back = submit(bob, home.endpoint, share, ("/data", "/inbox/data"))
    assert run(back) == "SUCCEEDED", told(back)
    assert (folder / "shared" / "inbox" / "data").read_text() == "by alice's leave"


# ---- links


def hostile(site: Site) -> None:
    """In what is shared lie links to what is not."""
    shared = site.folder / "shared"
    (shared / "leak").symlink_to("../secret/file")
    (shared / "out").symlink_to("../secret")
    (shared / "whole").symlink_to(site.folder / "secret" / "file")
    (shared / "up").symlink_to("..")
    (shared / "inner").symlink_to("data")
    site.open_to_all()


@pytest.mark.parametrize("path", ["/leak", "/out/file", "/whole", "/up/secret/file", "/up/up/etc/hostname"])
def test_no_link_leads_to_what_is_not_shared(site: Site, home: Site, bob: User, path: str) -> None:
    hostile(site)
    share = site.share()
    give(share, bob)
    task = submit(bob, share, home.endpoint, (path, "/x"), options={"skip_source_errors": True})
    assert run(task) == "SUCCEEDED", told(task)
    assert (task.files_transferred, task.skipped_errors) == (0, 1)
    assert everything_in(home.folder) == {}
    assert str(site.folder) not in told(task)


@pytest.mark.parametrize("path", ["/out/", "/up/", "/up/secret/", "/out"])
def test_no_link_leads_to_a_folder_that_is_not_shared(site: Site, home: Site, bob: User, path: str) -> None:
    hostile(site)
    share = site.share()
    give(share, bob)
    task = submit(bob, share, home.endpoint, (path, "/x/"), options={"skip_source_errors": True})
    assert run(task) in ("SUCCEEDED", "FAILED"), told(task)
    assert everything_in(home.folder) == {}
    assert str(site.folder) not in told(task)


def test_links_that_are_followed_stay_within_what_is_shared(site: Site, home: Site, bob: User) -> None:
    site.write(shared__data__one="1")
    hostile(site)
    share = site.share()
    give(share, bob)
    options = {"recursive_symlinks": "copy", "skip_source_errors": True}
    task = submit(bob, share, home.endpoint, ("/", "/copy/"), options=options)
    assert run(task) == "SUCCEEDED", told(task)
    assert everything_in(home.folder) == {"copy/data/one": "1", "copy/inner/one": "1"}
    assert str(site.folder) not in told(task)


def test_a_link_from_one_rule_to_another_folder_gives_nothing(site: Site, home: Site, bob: User) -> None:
    site.write(shared__closed__file="closed", shared__open__file="open")
    (site.folder / "shared" / "open" / "way").symlink_to("../closed")
    site.open_to_all()
    share = site.share()
    give(share, bob, "/open/")
    options = {"recursive_symlinks": "copy", "skip_source_errors": True}
    task = submit(bob, share, home.endpoint, ("/open/", "/copy/"), options=options)
    assert run(task) == "SUCCEEDED", told(task)
    assert everything_in(home.folder) == {"copy/file": "open"}


@pytest.mark.parametrize("path", ["/leak", "/out/file", "/whole", "/out/new", "/up/secret/file"])
def test_nothing_is_written_through_a_link(site: Site, home: Site, bob: User, path: str) -> None:
    hostile(site)
    home.write(evil="evil")
    share = site.share()
    give(share, bob, write=True)
    task = submit(bob, home.endpoint, share, ("/evil", path))
    asyncio.run(try_once(task))
    assert status(task) == "ACTIVE"
    assert everything_in(site.folder / "secret") == {"file": "secret"}
    assert str(site.folder) not in told(task)


def test_nothing_is_deleted_through_a_link(site: Site, bob: User) -> None:
    site.write(shared__tree__file="1")
    hostile(site)
    (site.folder / "shared" / "tree" / "out").symlink_to("../../secret")
    share = site.share()
    give(share, bob, write=True)
    options = {"recursive": True}
    tasks = [submit_delete(bob, share, path, options=options) for path in ("/out/file", "/up/secret", "/tree")]
    for task in tasks:
        asyncio.run(try_once(task))
    assert everything_in(site.folder / "secret") == {"file": "secret"}


def test_extras_and_patterns_stay_within_what_is_shared(site: Site, home: Site, bob: User) -> None:
    site.write(
        shared__inbox__old="old", shared__inbox__stays="old", shared__inbox__gone__deep="old", shared__beside="1"
    )
    home.write(copy__stays="new")
    hostile(site)
    (site.folder / "shared" / "inbox" / "inner").symlink_to("gone")
    share = site.share()
    give(share, bob, "/inbox/", write=True)
    mirror = submit(bob, home.endpoint, share, ("/copy/", "/inbox/"), options={"delete_destination_extra": True})
    assert run(mirror) == "SUCCEEDED", told(mirror)
    assert everything_in(site.folder / "shared" / "inbox") == {"stays": "new"}
    site.write(shared__inbox__a1="1", shared__inbox__a2="2")
    globs = submit_delete(bob, share, "/inbox/a*", options={"interpret_globs": True})
    assert run(globs) == "SUCCEEDED", told(globs)
    assert everything_in(site.folder / "shared" / "inbox") == {"stays": "new"}
    assert (site.folder / "shared" / "beside").exists()
    assert everything_in(site.folder / "secret") == {"file": "secret"}


def test_links_of_a_share_are_kept_without_a_word_of_its_host(site: Site, home: Site, bob: User) -> None:
    site.write(shared__data__one="1")
    (site.folder / "shared" / "data" / "also").symlink_to("one")
    site.open_to_all()
    share = site.share()
    give(share, bob)
    options = {"recursive_symlinks": "keep"}
    task = submit(bob, share, home.endpoint, ("/data/", "/data/"), options=options)
    assert run(task) == "SUCCEEDED", told(task)
    assert (home.folder / "data" / "also").readlink() == Path("one")
    assert (home.folder / "data" / "also").read_text() == "1"


# ---- rules that change while a task runs


Change = Callable[[Endpoint, User, AccessRule], object]


def withdrawn(share: Endpoint, user: User, rule: AccessRule) -> None:
    rule.delete()


def expired(share: Endpoint, user: User, rule: AccessRule) -> None:
    AccessRule.objects.filter(pk=rule.pk).update(expires_at=datetime.now(UTC))


def deleted(share: Endpoint, user: User, rule: AccessRule) -> None:
    Endpoint.objects.filter(pk=share.pk).update(deleted_at=datetime.now(UTC))


def without_host(share: Endpoint, user: User, rule: AccessRule) -> None:
    Endpoint.objects.filter(shares=share).update(deleted_at=datetime.now(UTC))


def without_owner(share: Endpoint, user: User, rule: AccessRule) -> None:
    User.objects.filter(pk=share.owner_id).update(is_active=False)


def removed_from_the_group(share: Endpoint, user: User, rule: AccessRule) -> None:
    Membership.objects.all().delete()


def beat(task: Task) -> None:
    """Wait for a heartbeat: the lease is renewed with each."""
    before = Lease.objects.get(pk=task.pk).expires_at
    eventually(lambda: Lease.objects.get(pk=task.pk).expires_at != before)


async def changed_meanwhile(site: Site, make: Callable[[], Task], change: Callable[[], object], step: Step) -> None:
    """Run a task of files one by one; at this step of the site's server nothing goes on until the change is known."""
    tasks: list[Task] = []

    def do() -> None:
        change()
        # The first one may have begun before the change.
        beat(tasks[0])
        beat(tasks[0])

    def begin(port: int) -> None:
        site.endpoint.servers.update(port=port)
        tasks.append(make())

    async def hold(_: int) -> None:
        await asyncio.to_thread(in_thread, do)

    async with MisbehavingProxy(site.port, Plan(step, Deed.CALL), hold) as proxy:
        await asyncio.to_thread(in_thread, lambda: begin(proxy.port))
        await work(tasks[0])
        assert proxy.deeds == 1


FILES = 60


@pytest.mark.parametrize("change", [withdrawn, expired, deleted, without_host, without_owner, removed_from_the_group])
@pytest.mark.parametrize("to_share", [False, True], ids=["from", "to"])
def test_a_rule_that_goes_stops_the_task_at_its_next_file(
    monkeypatch: pytest.MonkeyPatch, site: Site, home: Site, alice: User, bob: User, change: Change, to_share: bool
) -> None:
    monkeypatch.setattr(slice_, "HEARTBEAT", 0.1)
    source, target = (home, site) if to_share else (site, home)
    prefix = "" if to_share else "shared__"
    source.write(**{f"{prefix}many__file{number:02}": str(number) for number in range(FILES)})
    site.open_to_all()
    share = site.share()
    rule = give(share, bob, write=to_share)
    if change is removed_from_the_group:
        group = Group.objects.create(name="readers")
        Membership.objects.create(group=group, user=bob, status="active", role="member")
        AccessRule.objects.filter(pk=rule.pk).update(principal_type="group", principal=group.pk)
    options = {"perf_cc": 1, "perf_pp": 2, "verify_checksum": False}

    def make() -> Task:
        ends = (home.endpoint, share) if to_share else (share, home.endpoint)
        return submit(bob, *ends, ("/many/", "/many/"), options=options)

    step = Step(Watch.COMMANDS, "STOR" if to_share else "RETR", 5)
    asyncio.run(changed_meanwhile(site, make, lambda: change(share, bob, rule), step))
    task = Task.objects.get(owner=bob)
    assert (task.status, task.fatal_error_code) == ("FAILED", "ACL_CHANGED"), told(task)
    arrived = everything_in(target.folder / ("shared/many" if to_share else "many"))
    whole = {name for name, content in arrived.items() if content == str(int(name[4:]))}
    assert task.files_transferred == len(whole) == len(arrived)
    assert 5 <= len(arrived) <= 5 + 3, "what was under way arrives, and nothing after it"
    assert "alice#share" in str(task.fatal_error_description)
    assert "/many/file" in str(task.fatal_error_description)
    assert Event.objects.filter(task=task, code="ACL_CHANGED", is_error=True).exists()
    assert str(site.folder) not in told(task)


def test_a_rule_that_went_before_a_task_began_ends_it(site: Site, home: Site, bob: User) -> None:
    site.write(shared__one="1")
    site.open_to_all()
    share = site.share()
    rule = give(share, bob)
    task = submit(bob, share, home.endpoint, ("/one", "/one"))
    rule.delete()
    assert run(task) == "FAILED"
    assert task.fatal_error_code == "ACL_CHANGED"
    assert everything_in(home.folder) == {}


def test_a_rule_that_came_instead_lets_it_go_on(site: Site, home: Site, bob: User) -> None:
    site.write(shared__data__one="1")
    site.open_to_all()
    share = site.share()
    rule = give(share, bob)
    task = submit(bob, share, home.endpoint, ("/data/one", "/one"))
    give(share, bob, "/data/")
    rule.delete()
    assert run(task) == "SUCCEEDED", told(task)


def test_a_server_that_cannot_keep_a_session_in_a_folder_serves_no_share(
    monkeypatch: pytest.MonkeyPatch,
    alice: User,
    bob: User,
    home: Site,
    folder: Path,
    serve: Callable[..., GridFtpServer],
) -> None:
    (folder / "shared").mkdir()
    (folder / "shared" / "one").write_text("1")

    monkeypatch.delitem(SITE, b"RESTRICT")
    host = registry.create(alice, {"name": "host"}, [ServerSpec("127.0.0.1", serve().port, "ftp")])
    share = make_share(host, "share")
    give(share, bob)
    task = submit(bob, share, home.endpoint, ("/one", "/one"))
    assert run(task) == "FAILED"
    assert task.fatal_error_code == "UNSUPPORTED"
    assert "keep a session within a folder" in str(task.fatal_error_description)
