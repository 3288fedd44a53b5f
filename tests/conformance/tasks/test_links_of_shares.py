# ruff: noqa: F811 - fixtures of another module
"""The folder of a rule that is, or becomes, a symbolic link: tasks and operations get nothing that was not shared."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest

from endpoints import registry
from endpoints.gridftp.facts import FACTS
from endpoints.gridftp.server import GridFtpServer
from endpoints.models import Endpoint
from endpoints.registry import ServerSpec
from identity.models import User
from tests.conformance.gridftp.test_striped_servers import DataNode
from tests.conformance.tasks.slices import in_thread, run, status, told, try_once
from tests.conformance.tasks.test_shares import Site, _instance, alice, bob, everything_in, home, site  # noqa: F401
from tests.gridftp.proxy import Deed, MisbehavingProxy, Plan, Step, Watch
from tests.gridftp.toolkit import ToolkitServer
from tests.integration.cast import make_user, submit, submit_delete
from tests.integration.rest import Api, assert_error
from tests.integration.shared import give, make_share
from transferapi.tasks.models import Event, Task

pytestmark = pytest.mark.django_db(transaction=True)

FILES = 40
DENIED = (403, "EndpointPermissionDenied")


def to_the_secret(shared: Path) -> None:
    (shared / "inbox").symlink_to("../secret")


def by_its_full_path(shared: Path) -> None:
    (shared / "inbox").symlink_to(shared.parent / "secret")


def by_a_chain(shared: Path) -> None:
    (shared / "inbox").symlink_to("one")
    (shared / "one").symlink_to("./two")
    (shared / "two").symlink_to("../shared/../secret")


def further_up(shared: Path) -> None:
    """The rule is for /way/inbox/."""
    (shared / "way").symlink_to("../above")
    (shared.parent / "above").mkdir()
    (shared.parent / "secret").rename(shared.parent / "above" / "inbox")
    (shared.parent / "secret").symlink_to("above/inbox")


def to_nothing_yet(shared: Path) -> None:
    (shared.parent / "secret").rename(shared.parent / "later")
    (shared / "inbox").symlink_to("../secret")


def to_another_folder_of_the_share(shared: Path) -> None:
    (shared.parent / "secret").rename(shared / "private")
    (shared.parent / "secret").symlink_to("shared/private")
    (shared / "inbox").symlink_to("private")


@pytest.mark.parametrize(
    "link", [to_the_secret, by_its_full_path, by_a_chain, further_up, to_another_folder_of_the_share]
)
def test_a_rule_for_a_link_gives_nothing(site: Site, home: Site, bob: User, link: Callable[[Path], None]) -> None:
    link(site.folder / "shared")
    site.open_to_all()
    inbox = "/way/inbox" if link is further_up else "/inbox"
    share = site.share()
    give(share, bob, f"{inbox}/", write=True)
    home.write(evil="evil")
    tasks = [
        submit(bob, share, home.endpoint, (f"{inbox}/file", "/stolen")),
        submit(bob, share, home.endpoint, (f"{inbox}/", "/stolen/")),
        submit(bob, home.endpoint, share, ("/evil", f"{inbox}/evil")),
        submit_delete(bob, share, f"{inbox}/file"),
    ]
    for task in tasks:
        assert run(task) == "FAILED", told(task)
        assert task.fatal_error_code == "ACL_CHANGED"
        assert "symbolic link" in str(task.fatal_error_description)
        assert str(site.folder) not in told(task)
    assert everything_in(home.folder) == {"evil": "evil"}
    assert everything_in(site.folder / "secret") == {"file": "secret"}
    api = Api(bob)
    at = f"/operation/endpoint/{share.pk}"
    assert_error(api.get(f"{at}/ls", path=f"{inbox}/"), *DENIED)
    assert_error(api.post(f"{at}/mkdir", {"path": f"{inbox}/new"}), *DENIED)


def test_a_rule_for_a_link_gives_what_the_rules_give_of_its_target(site: Site, home: Site, bob: User) -> None:
    """Rules add up: /inbox/ may be written, and leads to what may be read only."""
    (site.folder / "shared" / "private").mkdir()
    (site.folder / "shared" / "inbox").symlink_to("private")
    site.write(shared__private__file="1")
    site.open_to_all()
    share = site.share()
    give(share, bob, "/inbox/", write=True)
    give(share, bob, "/private/")
    there = submit(bob, share, home.endpoint, ("/inbox/", "/copy/"))
    assert run(there) == "SUCCEEDED", told(there)
    assert everything_in(home.folder) == {"copy/file": "1"}
    back = submit(bob, home.endpoint, share, ("/copy/file", "/inbox/new"))
    assert run(back) == "FAILED"
    gone = submit_delete(bob, share, "/inbox/file")
    assert run(gone) == "FAILED"
    assert everything_in(site.folder / "shared" / "private") == {"file": "1"}
    give(share, bob, "/all/", write=True)
    (site.folder / "shared" / "all").symlink_to(".")
    out = submit(bob, home.endpoint, share, ("/copy/file", "/all/new"))
    assert run(out) == "FAILED" or status(out) == "ACTIVE"
    assert not (site.folder / "shared" / "new").exists()


def test_a_share_that_begins_behind_a_link_is_used_by_its_own_names(site: Site, home: Site, bob: User) -> None:
    (site.folder / "way").symlink_to("shared")
    site.write(shared__data__one="1")
    (site.folder / "shared" / "data" / "also").symlink_to("one")
    (site.folder / "shared" / "data" / "out").symlink_to("../../secret/file")
    site.open_to_all()
    share = site.share(folder="way/")
    give(share, bob, write=True)
    options = {"recursive_symlinks": "copy", "skip_source_errors": True}
    there = submit(bob, share, home.endpoint, ("/data/", "/copy/"), options=options)
    assert run(there) == "SUCCEEDED", told(there)
    assert everything_in(home.folder) == {"copy/one": "1", "copy/also": "1"}
    back = submit(bob, home.endpoint, share, ("/copy/", "/deep/copy/"), options={"verify_checksum": True})
    assert run(back) == "SUCCEEDED", told(back)
    assert everything_in(site.folder / "shared" / "deep") == {"copy/one": "1", "copy/also": "1"}
    gone = submit_delete(bob, share, "/deep", options={"recursive": True})
    assert run(gone) == "SUCCEEDED", told(gone)
    assert not (site.folder / "shared" / "deep").exists()
    for task in (there, back, gone):
        assert str(site.folder) not in told(task)


def test_a_file_does_not_take_the_place_of_a_rules_folder(site: Site, home: Site, bob: User) -> None:
    share = site.share()
    give(share, bob, "/inbox/", write=True)
    site.open_to_all()
    home.write(file="1")
    task = submit(bob, home.endpoint, share, ("/file", "/inbox"))
    assert run(task) == "FAILED", told(task)
    assert "a file cannot be written there" in told(task)
    assert everything_in(site.folder / "shared") == {}


def test_who_gives_access_gets_none_that_was_not_shared(site: Site, home: Site, alice: User) -> None:
    """An access manager may read and write all of the share; a rule on a link that stands there adds nothing."""
    (site.folder / "shared" / "ssh").symlink_to("../secret")
    site.open_to_all()
    share = site.share()
    charlie = make_user("charlie")
    share.roles.create(principal_type="identity", principal=charlie.pk, role="access_manager")
    answer = Api(charlie).post(
        f"/endpoint/{share.pk}/access",
        {"DATA_TYPE": "access", "principal_type": "identity", "principal": str(charlie.pk), "path": "/ssh/",
         "permissions": "rw"},
    )  # fmt: skip
    assert answer.status == 201, answer.body
    theirs = registry.create(charlie, {"name": "theirs"}, [ServerSpec("127.0.0.1", home.port, "ftp")])
    home.write(evil="evil")
    task = submit(charlie, theirs, share, ("/evil", "/ssh/authorized_keys"))
    asyncio.run(try_once(task))
    assert status(task) == "ACTIVE"
    assert everything_in(site.folder / "secret") == {"file": "secret"}


def test_a_rules_folder_that_leads_nowhere_gives_nothing_once_it_does(site: Site, home: Site, bob: User) -> None:
    to_nothing_yet(site.folder / "shared")
    site.open_to_all()
    share = site.share()
    give(share, bob, "/inbox/", write=True)
    home.write(evil="evil")
    task = submit(bob, home.endpoint, share, ("/evil", "/inbox/evil"))
    asyncio.run(try_once(task))
    (site.folder / "later").rename(site.folder / "secret")
    later = submit(bob, home.endpoint, share, ("/evil", "/inbox/evil2"))
    assert run(later) == "FAILED", told(later)
    assert everything_in(site.folder / "secret") == {"file": "secret"}


# ---- a folder that is swapped for a link while a task runs


async def swapped_meanwhile(site: Site, make: Callable[[], Task], swap: Callable[[], object], step: Step) -> Task:
    """Run a task until something of it is refused; at this step of the site's server the folder is swapped."""
    tasks: list[Task] = []

    def begin(port: int) -> None:
        site.endpoint.servers.update(port=port)
        tasks.append(make())

    async def hold(_: int) -> None:
        await asyncio.to_thread(swap)

    async with MisbehavingProxy(site.port, Plan(step, Deed.CALL), hold) as proxy:
        await asyncio.to_thread(in_thread, lambda: begin(proxy.port))
        await try_once(tasks[0])
        assert proxy.deeds == 1
    await asyncio.to_thread(in_thread, lambda: site.endpoint.servers.update(port=site.port))
    return tasks[0]


STEPS = {"RETR": Step(Watch.COMMANDS, "RETR", 4), "STOR": Step(Watch.COMMANDS, "STOR", 4)}
AT_THE_FENCE = Step(Watch.COMMANDS, "SITE", 0)


@pytest.mark.parametrize("step", [STEPS["RETR"], AT_THE_FENCE], ids=["files", "fence"])
def test_no_file_comes_from_where_a_swapped_folder_leads(site: Site, home: Site, bob: User, step: Step) -> None:
    names = [f"file{number:02}" for number in range(FILES)]
    site.write(**{f"shared__inbox__{name}": "shared" for name in names})
    site.write(**{f"secret__{name}": "secret" for name in names})
    site.open_to_all()
    share = site.share()
    give(share, bob, "/inbox/", write=True)
    options = {"perf_cc": 1, "perf_pp": 2, "verify_checksum": False}
    task = asyncio.run(
        swapped_meanwhile(
            site,
            lambda: submit(bob, share, home.endpoint, ("/inbox/", "/copy/"), options=options),
            lambda: swap(site.folder / "shared" / "inbox"),
            step,
        )
    )
    arrived = everything_in(home.folder)
    assert set(arrived.values()) <= {"shared"}, arrived
    assert len(arrived) < FILES
    ends_with_a_word(task, share)


@pytest.mark.parametrize("step", [STEPS["STOR"], AT_THE_FENCE], ids=["files", "fence"])
def test_no_file_goes_where_a_swapped_folder_leads(site: Site, home: Site, bob: User, step: Step) -> None:
    home.write(**{f"many__file{number:02}": "evil" for number in range(FILES)})
    (site.folder / "shared" / "inbox").mkdir()
    site.open_to_all()
    share = site.share()
    give(share, bob, "/inbox/", write=True)
    options = {"perf_cc": 1, "perf_pp": 2, "verify_checksum": False}
    task = asyncio.run(
        swapped_meanwhile(
            site,
            lambda: submit(bob, home.endpoint, share, ("/many/", "/inbox/"), options=options),
            lambda: swap(site.folder / "shared" / "inbox"),
            step,
        )
    )
    assert everything_in(site.folder / "secret") == {"file": "secret"}
    ends_with_a_word(task, share)


def swap(folder: Path) -> None:
    folder.rename(folder.with_name("away"))
    folder.symlink_to("../secret")


def ends_with_a_word(task: Task, share: Endpoint) -> None:
    """The next session that is opened finds the link, and no other one is opened for it."""
    if status(task) == "ACTIVE":
        assert run(task) == "FAILED"
    assert task.fatal_error_code == "ACL_CHANGED", told(task)
    assert Event.objects.filter(task=task, code="ACL_CHANGED", is_error=True).exists()
    assert "symbolic link" in str(task.fatal_error_description)
    assert "alice#share" in str(task.fatal_error_description)


# ---- links that lead nowhere


def test_nothing_is_made_where_a_dangling_link_leads(site: Site, home: Site, bob: User) -> None:
    """To open such a link makes a file; a rename replaces the link, and our own server leaves it as it is."""
    shared = site.folder / "shared"
    full = str(site.folder / "secret" / "full")
    for name, text in {"new": "../secret/new", "full": full, "dir": "../secret/dir"}.items():
        (shared / name).symlink_to(text)
    (shared / "chain").symlink_to("new")
    site.open_to_all()
    share = site.share()
    give(share, bob, write=True)
    home.write(many__new="1", many__full="22", many__chain="333", many__empty="")
    options = {"preserve_timestamp": True}
    task = submit(bob, home.endpoint, share, ("/many/", "/"), options=options)
    if site.kind == "toolkit":
        assert run(task) == "SUCCEEDED", told(task)
        assert everything_in(shared) == {"new": "1", "full": "22", "chain": "333", "empty": ""}
    else:
        asyncio.run(try_once(task))
        assert "PERMISSION_DENIED" in told(task)
        assert (shared / "empty").exists()
        assert all((shared / name).is_symlink() for name in ("new", "full", "chain"))
    deeper = submit(bob, home.endpoint, share, ("/many/", "/dir/"), options={"skip_source_errors": True})
    asyncio.run(try_once(deeper))
    api = Api(bob)
    for path in ("/dir", "/dir/new"):
        assert api.post(f"/operation/endpoint/{share.pk}/mkdir", {"path": path}).status in (403, 404, 502)
    assert everything_in(site.folder / "secret") == {"file": "secret"}
    assert not (site.folder / "secret" / "dir").exists()


@pytest.mark.toolkit
def test_a_server_that_stands_before_data_nodes_is_not_shared_in_part(
    folder: Path,
    toolkit_server_factory: Callable[..., ToolkitServer],
    alice: User,
    bob: User,
    home: Site,
) -> None:
    """It compares the words of paths, and its nodes follow every link."""
    (folder / "shared").mkdir()
    (folder / "secret").write_text("secret")
    (folder / "shared" / "leak").symlink_to("../secret")
    node = DataNode(folder, "-dn")
    node.start()
    port = toolkit_server_factory(folder, "-r", f"127.0.0.1:{node.port}").port
    host = registry.create(alice, {"name": "host"}, [ServerSpec("127.0.0.1", port, "ftp")])
    share = make_share(host, "share", f"{folder}/shared/")
    give(share, bob)
    task = submit(bob, share, home.endpoint, ("/leak", "/stolen"))
    outcome = run(task)
    node.stop()
    assert outcome == "FAILED", told(task)
    assert (task.fatal_error_code, everything_in(home.folder)) == ("UNSUPPORTED", {})
    assert "data nodes" in str(task.fatal_error_description)


def test_a_server_that_reports_no_links_is_not_shared_in_part(
    folder: Path, serve: Callable[..., GridFtpServer], alice: User, bob: User, home: Site
) -> None:
    (folder / "shared").mkdir()
    (folder / "shared" / "one").write_text("1")
    port = serve(facts=[fact for fact in FACTS if fact != "UNIX.slink"]).port
    host = registry.create(alice, {"name": "host"}, [ServerSpec("127.0.0.1", port, "ftp")])
    share = make_share(host, "share", "/shared/")
    give(share, bob)
    task = submit(bob, share, home.endpoint, ("/one", "/one"))
    assert run(task) == "FAILED", told(task)
    assert task.fatal_error_code == "UNSUPPORTED"
    assert "do not report symbolic links" in str(task.fatal_error_description)
