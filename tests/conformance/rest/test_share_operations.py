"""ls, stat, mkdir, rename and symlink over REST on a shared folder, on real servers of both kinds, with hostile links.

alice shares; bob has been given something, and has no credential and no account; charlie has nothing.
"""

from __future__ import annotations

import io
import json
import zipfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from operator import itemgetter
from pathlib import Path
from typing import Any

import pytest

from deploy.endpoint.authority import CertificateFiles
from endpoints import registry
from endpoints.addresses.openings import parse_openings
from endpoints.files import archives
from endpoints.gridftp.facts import FACTS
from endpoints.gridftp.server import GridFtpServer
from endpoints.gridftp.server.commands.table import SITE
from endpoints.models import AccessRule, Endpoint
from endpoints.registry import ServerSpec
from endpoints.sharing import access_rules, shares
from endpoints.sharing.access_rules import RuleSpec
from identity.models import User
from tests.gridftp.authority import Authority
from tests.gridftp.toolkit import ToolkitServer
from tests.integration.activated import proxy_of, push
from tests.integration.cast import make_user
from tests.integration.rest import Answer, Api, assert_error

pytestmark = pytest.mark.django_db

DENIED = (403, "EndpointPermissionDenied")


@dataclass
class Share:
    """alice#share, the folder "shared" of what alice#host serves."""

    folder: Path
    #: The prefix of the paths of `folder` on the host.
    root: str
    alice: User
    bob: User
    host: Endpoint
    api: dict[str, Api] = field(default_factory=dict)

    def make(self, path: str = "shared", name: str = "share") -> Endpoint:
        return shares.create(self.alice, str(self.host.pk), f"{self.root}/{path}", {"name": name})

    def give(self, path: str, permissions: str) -> AccessRule:
        return access_rules.create(self.alice, "share", RuleSpec("identity", str(self.bob.pk), path, permissions))

    def ls(self, path: str | None = None, who: str = "bob", **query: Any) -> Answer:
        given = {} if path is None else {"path": path}
        return self.api[who].get("/operation/endpoint/alice%23share/ls", **given, **query)

    def stat(self, path: str, who: str = "bob") -> Answer:
        return self.api[who].get("/operation/endpoint/alice%23share/stat", path=path)

    def mkdir(self, path: str, who: str = "bob") -> Answer:
        return self.api[who].post("/operation/endpoint/alice%23share/mkdir", {"path": path})

    def rename(self, old: str, new: str, who: str = "bob") -> Answer:
        document = {"old_path": old, "new_path": new}
        return self.api[who].post("/operation/endpoint/alice%23share/rename", document)

    def read(self, path: str, who: str = "bob") -> Answer:
        return self.api[who].get("/operation/endpoint/alice%23share/file", path=path)

    def write(self, path: str, data: bytes, who: str = "bob") -> Answer:
        query = {"path": path}
        return self.api[who].call("PUT", "/operation/endpoint/alice%23share/file", query=query, raw=data)

    def symlink(self, target: str, path: str, who: str = "bob", endpoint: str = "alice%23share") -> Answer:
        document = {"DATA_TYPE": "symlink", "symlink_target": target, "path": path}
        return self.api[who].post(f"/operation/endpoint/{endpoint}/symlink", document)


@pytest.fixture
def loopback(settings: Any) -> None:
    """The gate lets these tests through to their own servers, and nowhere else."""
    settings.ALLOW_TARGETS = parse_openings("127.0.0.1/32")


def furnish(folder: Path) -> None:
    """Create the shared folder, files and folders beside it, and links of all kinds."""
    for name in ("shared/in/deep", "shared/ro", "secret", "shared-not"):
        (folder / name).mkdir(parents=True)
    for name in ("shared/file", "shared/in/file", "shared/ro/file", "secret/file", "shared-not/file"):
        (folder / name).write_text(name)
    shared = folder / "shared"
    (shared / "inner").symlink_to("in")
    (shared / "inner-file").symlink_to("in/file")
    (shared / "roundabout").symlink_to("in/../ro")
    (shared / "out").symlink_to("../secret")
    (shared / "out-file").symlink_to("../secret/file")
    (shared / "out-absolute").symlink_to(folder / "secret")
    (shared / "out-twice").symlink_to("out")
    (shared / "out-etc").symlink_to("/etc/passwd")
    (shared / "in" / "up").symlink_to("../../shared-not")
    for path in [shared, *shared.rglob("*")]:
        if path.is_dir() and not path.is_symlink():
            path.chmod(0o777)
    (folder / "secret").chmod(0o777)


OUT = ["out", "out-file", "out-absolute", "out-twice", "out-etc"]


def shared_by(alice: User, folder: Path, root: str, port: int) -> Share:
    host = registry.create(alice, {"name": "host", "display_name": "The host"}, [ServerSpec("127.0.0.1", port, "ftp")])
    bob = make_user("bob")
    users = {"alice": alice, "bob": bob, "charlie": make_user("charlie")}
    share = Share(folder, root, alice, bob, host, {name: Api(user) for name, user in users.items()})
    share.make()
    return share


@pytest.fixture(params=["ours", pytest.param("toolkit", marks=pytest.mark.toolkit)])
def share(
    request: pytest.FixtureRequest,
    db: None,
    loopback: None,
    folder: Path,
    serve: Callable[..., GridFtpServer],
    toolkit_server_factory: Callable[..., ToolkitServer],
) -> Iterator[Share]:
    furnish(folder)
    if request.param == "ours":
        yield shared_by(make_user("alice"), folder, "", serve().port)
    else:
        yield shared_by(make_user("alice"), folder, str(folder), toolkit_server_factory(folder).port)


def names(answer: Answer) -> list[str]:
    assert answer.status == 200, answer.body
    return [row["name"] for row in answer.body["DATA"]]


# ---- rules


def test_without_a_rule_a_share_does_not_exist(share: Share) -> None:
    for who in ("bob", "charlie"):
        assert_error(share.ls("/", who), 404, "EndpointNotFound")
        assert_error(share.stat("/file", who), 404, "EndpointNotFound")
        assert_error(share.mkdir("/new", who), 404, "EndpointNotFound")
    assert not (share.folder / "shared" / "new").exists()


def test_a_rule_below_a_folder_opens_nothing_above_it_or_beside_it(share: Share) -> None:
    share.give("/in/", "rw")
    assert set(names(share.ls("/in/"))) == {"deep", "file", "up"}
    assert names(share.ls("/~/in")) == names(share.ls("/in"))
    for path in ("/", "/~/", "/ro/", "/inn/", None):
        assert_error(share.ls(path), *DENIED)
    assert_error(share.stat("/file"), *DENIED)
    assert_error(share.mkdir("/new"), *DENIED)
    assert_error(share.rename("/in/file", "/file2"), *DENIED)
    assert_error(share.rename("/file", "/in/file2"), *DENIED)
    assert share.mkdir("/in/new").status == 202
    assert share.rename("/in/file", "/in/new/file").status == 200
    assert (share.folder / "shared/in/new/file").read_text() == "shared/in/file"
    assert (share.folder / "shared/file").read_text() == "shared/file"


def test_what_may_be_read_may_not_be_changed(share: Share) -> None:
    share.give("/", "r")
    assert "file" in names(share.ls())
    assert share.ls().body["writable"] is False
    assert share.stat("/ro/file").body["size"] == len("shared/ro/file")
    assert_error(share.mkdir("/new"), 403, "PermissionDenied")
    assert_error(share.rename("/file", "/file2"), 403, "PermissionDenied")
    share.give("/in/", "rw")
    assert_error(share.mkdir("/new"), *DENIED)
    assert [share.ls(path).body["writable"] for path in ("/", "/in/")] == [False, True]
    assert share.mkdir("/in/new").status == 202


def test_files_are_read_and_written_where_rules_allow_it_and_nowhere_else(share: Share) -> None:
    assert_error(share.read("/file"), 404, "EndpointNotFound")
    share.give("/", "r")
    assert share.read("/file").body == b"shared/file"
    assert_error(share.write("/new", b"x"), 403, "PermissionDenied")
    share.give("/in/", "rw")
    assert_error(share.write("/new", b"x"), *DENIED)
    assert share.write("/in/new", b"x").status == 200
    assert (share.folder / "shared/in/new").read_bytes() == b"x"
    assert_error(share.read("/in/../../secret/file"), 400)
    assert_error(share.read("/file", "charlie"), 404, "EndpointNotFound")


def test_files_outside_of_a_share_stay_out_of_reach_of_links(share: Share) -> None:
    share.give("/", "rw")
    secret = (share.folder / "secret" / "file").read_bytes()
    for path in ("/out-file", "/out/file", "/in/up/secret/file", "/out-etc/passwd"):
        assert share.read(path).status in (403, 404), path
        answer = share.write(path, b"mine")
        assert answer.status in (200, 403, 404, 502), path
    assert (share.folder / "secret" / "file").read_bytes() == secret


def test_the_folder_of_a_rule_and_the_one_that_is_shared_stay_where_they_are(share: Share) -> None:
    share.give("/in/", "rw")
    assert_error(share.rename("/in", "/in/deep/in"), *DENIED)
    assert_error(share.rename("/in/", "/in/new"), *DENIED)
    for who in ("alice", "bob"):
        assert_error(share.rename("/", "/in/new", who), *DENIED)
        assert_error(share.rename("/~/", "/in/new", who), *DENIED)
    assert share.rename("/in", "/moved", "alice").status == 200


def test_the_owner_has_no_more_through_the_share_than_what_is_shared(share: Share) -> None:
    assert "file" in names(share.ls("/", "alice"))
    for path in ("/out", "/out-twice", "/in/up", "/out-absolute"):
        assert_error(share.ls(path, "alice"), *DENIED)
    for path in ("/../secret/file", "/in/../../secret/file", "/.."):
        assert_error(share.stat(path, "alice"), 400, "ClientError.BadRequest")
    assert_error(share.stat("/shared-not", "alice"), 404, "NotFound")


def test_percent_signs_in_names_are_names(share: Share) -> None:
    share.give("/", "rw")
    (share.folder / "shared" / "%2e%2e").mkdir()
    assert names(share.ls("/%2e%2e/")) == []
    assert_error(share.ls("/%2e%2e/secret"), 404, "ClientError.NotFound")
    assert share.mkdir("/100%2F").status == 202
    assert (share.folder / "shared" / "100%2F").is_dir()


# ---- links


def test_a_listing_shows_where_links_lead_as_paths_of_the_share_and_nothing_of_what_lies_outside(share: Share) -> None:
    share.give("/", "r")
    rows = {row["name"]: row for row in share.ls("/").body["DATA"]}
    assert rows["inner"]["link_target"] == "/in"
    assert rows["inner-file"]["link_target"] == "/in/file"
    assert rows["roundabout"]["link_target"] == "/ro"
    assert rows["inner"]["type"] == "dir"
    assert rows["file"]["link_target"] is None
    # The toolkit's server leaves out what its session may not see.
    for name in rows.keys() & set(OUT):
        row = rows[name]
        assert (row["type"], row["size"], row["link_target"], row["user"]) == ("link", 0, None, None)
    assert "secret" not in share.ls("/").body["DATA"].__repr__()
    assert str(share.folder) not in share.ls("/").body.__repr__()


def test_a_streamed_listing_of_a_share_shows_the_same(share: Share) -> None:
    share.give("/", "r")
    answer = share.api["bob"].get("/operation/endpoint/alice%23share/listing", path="/")
    rows = [json.loads(line) for line in answer.body.splitlines()]
    by_name = itemgetter("name")
    assert sorted(rows[1:-1], key=by_name) == sorted(share.ls("/").body["DATA"], key=by_name)
    assert rows[0]["absolute_path"] == "/"
    assert "secret" not in str(answer.body)
    refused = share.api["charlie"].get("/operation/endpoint/alice%23share/listing", path="/")
    assert_error(refused, 404, "EndpointNotFound")


def test_nothing_is_done_behind_a_link_that_leads_out(share: Share) -> None:
    share.give("/", "rw")
    for name in OUT:
        for path in (f"/{name}", f"/{name}/", f"/{name}/file"):
            assert_error(share.ls(path), *DENIED)
            assert_error(share.stat(path), *DENIED)
            assert_error(share.mkdir(path), *DENIED)
        assert_error(share.rename(f"/{name}/file", "/got"), *DENIED)
        assert_error(share.rename("/file", f"/{name}/file"), *DENIED)
        assert_error(share.mkdir(f"/{name}/new"), *DENIED)
    assert_error(share.ls("/in/up"), *DENIED)
    assert (share.folder / "secret" / "file").read_text() == "secret/file"
    assert sorted(path.name for path in (share.folder / "secret").iterdir()) == ["file"]


def test_links_that_stay_inside_are_followed(share: Share) -> None:
    share.give("/", "rw")
    assert set(names(share.ls("/inner/"))) == {"deep", "file", "up"}
    assert names(share.ls("/roundabout")) == ["file"]
    assert share.stat("/inner/file").body["size"] == len("shared/in/file")
    seen = share.stat("/inner-file").body
    assert (seen["name"], seen["type"], seen["link_target"]) == ("inner-file", "file", "/in/file")
    assert share.mkdir("/inner/new").status == 202
    assert (share.folder / "shared/in/new").is_dir()


def test_a_link_from_ones_ground_to_anothers_is_a_way_out_too(share: Share) -> None:
    (share.folder / "shared" / "in" / "beside").symlink_to("../ro")
    share.give("/in/", "rw")
    assert_error(share.ls("/in/beside"), *DENIED)
    assert_error(share.stat("/in/beside/file"), *DENIED)
    assert_error(share.mkdir("/in/beside/new"), *DENIED)
    [row] = [row for row in share.ls("/in").body["DATA"] if row["name"] == "beside"] or [None]
    assert row is None or (row["type"], row["link_target"]) == ("link", None)
    share.give("/ro/", "r")
    assert names(share.ls("/in/beside")) == ["file"]


def test_no_link_is_made_or_moved_on_a_share(share: Share) -> None:
    share.give("/", "rw")
    for who in ("alice", "bob"):
        assert_error(share.symlink("in", "/new", who), *DENIED)
        assert_error(share.rename("/inner", "/in/inner", who), *DENIED)
        assert_error(share.rename("/out", "/in/out", who), *DENIED)
    assert not (share.folder / "shared" / "new").is_symlink()
    assert (share.folder / "shared" / "inner").is_symlink()


def test_the_shared_folder_may_be_a_link_itself(share: Share) -> None:
    (share.folder / "way").symlink_to("shared")
    share.make("way", "second")
    api = share.api["alice"]
    answer = api.get("/operation/endpoint/second/ls", path="/inner")
    assert set(names(answer)) == {"deep", "file", "up"}
    assert_error(api.get("/operation/endpoint/second/ls", path="/out"), *DENIED)
    rows = {row["name"]: row for row in api.get("/operation/endpoint/second/ls", path="/").body["DATA"]}
    assert rows["inner"]["link_target"] == "/in"


def test_what_the_host_says_names_none_of_its_paths_to_those_who_only_have_the_share(share: Share) -> None:
    share.give("/", "rw")
    answers = [
        share.ls("/nothing"), share.ls("/file"), share.stat("/nothing"), share.mkdir("/nothing/new"),
        share.mkdir("/file"), share.rename("/nothing", "/new"), share.ls("/out"), share.stat("/out-file"),
        share.ls("/"), share.stat("/"), share.stat("/in/"),
    ]  # fmt: skip
    for answer in answers:
        text = repr(answer.body)
        for secret in (str(share.folder), "alice#host", "The host", "127.0.0.1", "shared/", "'shared'"):
            assert secret not in text, (secret, text)
    assert [answer.status for answer in answers] == [404, 502, 404, 404, 502, 404, 403, 403, 200, 200, 200]
    assert (share.ls("/").body["path"], share.ls("/").body["absolute_path"]) == ("/", "/")
    assert share.ls("/~/in").body["absolute_path"] == "/in/"
    assert share.ls("/").body["endpoint"] == "alice#share"
    by_id = share.api["alice"].get(f"/operation/endpoint/{share.host.pk}/ls", path="/")
    assert by_id.body["endpoint"] == str(share.host.pk)
    assert share.stat("/").body["name"] == "/"


def test_a_listing_without_a_path_is_that_of_the_shares_own_directory(share: Share) -> None:
    share.give("/", "r")
    assert "in" in names(share.ls())
    share.api["alice"].put("/endpoint/share", {"default_directory": "/ro/"})
    assert names(share.ls()) == ["file"]


def test_the_whole_of_a_server_may_be_shared(share: Share) -> None:
    whole = shares.create(share.alice, str(share.host.pk), "/", {"name": "whole"})
    api = share.api["alice"]
    path = f"{share.root}/shared/"
    rows = {row["name"]: row for row in api.get("/operation/endpoint/whole/ls", path=path).body["DATA"]}
    assert {"in", "file", "out"} <= rows.keys()
    access_rules.create(share.alice, str(whole.pk), RuleSpec("identity", str(share.bob.pk), f"{path}in/", "r"))
    bobs = share.api["bob"]
    assert set(names(bobs.get(f"/operation/endpoint/{whole.pk}/ls", path=f"{path}in"))) == {"deep", "file", "up"}
    for out in (path, f"{path}in/up", f"{share.root}/secret", "/~/~/x"):
        assert_error(bobs.get(f"/operation/endpoint/{whole.pk}/ls", path=out), *DENIED)


# ---- links on endpoints that are no shares


def test_a_link_is_made_where_the_server_can(share: Share) -> None:
    answer = share.symlink("in/file", f"{share.root}/shared/made", "alice", "host")
    assert answer.status == 202, answer.body
    assert (answer.body["DATA_TYPE"], answer.body["code"]) == ("symlink_result", "SymlinkCreated")
    assert (share.folder / "shared" / "made").read_text() == "shared/in/file"
    taken = share.symlink("in", f"{share.root}/shared/file", "alice", "host")
    assert_error(taken, 502, "ExternalError.SymlinkFailed.Exists")
    assert_error(share.symlink("a\r\nb", f"{share.root}/x", "alice", "host"), 400, "ClientError.BadRequest")
    assert share.api["alice"].get("/operation/endpoint/host/ls", path=f"{share.root}/").body["symlink_supported"]
    assert share.ls("/", "alice").body["symlink_supported"] is False


HIDING = tuple(fact for fact in FACTS if fact != "UNIX.slink")


def test_a_server_that_reports_no_links_is_shared_whole_or_not_at_all(
    db: None, loopback: None, folder: Path, serve: Callable[..., GridFtpServer]
) -> None:
    furnish(folder)
    share = shared_by(make_user("alice"), folder, "", serve(facts=HIDING).port)
    share.give("/", "rw")
    for answer in (share.ls("/"), share.ls("/out"), share.stat("/file"), share.mkdir("/new")):
        assert_error(answer, *DENIED)
        assert "do not report symbolic links" in answer.body["message"]
    assert_error(share.symlink("in", "/shared/new", "alice", "host"), 502, "ExternalError.SymlinkFailed.Unsupported")
    shares.create(share.alice, str(share.host.pk), "/", {"name": "whole"})
    answer = share.api["alice"].get("/operation/endpoint/whole/ls", path="/shared/in")
    assert {"deep", "file"} <= set(names(answer))


def test_a_server_that_cannot_keep_a_session_in_a_folder_serves_no_share(
    db: None, loopback: None, folder: Path, serve: Callable[..., GridFtpServer], monkeypatch: pytest.MonkeyPatch
) -> None:
    furnish(folder)
    monkeypatch.delitem(SITE, b"RESTRICT")
    share = shared_by(make_user("alice"), folder, "", serve().port)
    share.give("/", "rw")
    assert_error(share.ls("/"), 502, "ExternalError.DirListingFailed.Unsupported")
    assert_error(share.mkdir("/new"), 502, "ExternalError.MkdirFailed.Unsupported")
    assert not (folder / "shared" / "new").exists()


# ---- whose credential it is


@pytest.mark.toolkit
def test_the_owners_credential_serves_all_who_are_given_something(
    db: None,
    loopback: None,
    settings: Any,
    folder: Path,
    authority: Authority,
    identity_of: Callable[..., CertificateFiles],
    gsi_server_factory: Callable[..., ToolkitServer],
) -> None:
    settings.CERTIFICATES = authority.certificates
    furnish(folder)
    server = gsi_server_factory(folder)
    share = shared_by(make_user("alice"), folder, str(folder), server.port)
    registry.update_server(
        share.alice, "host", share.host.servers.get().pk, ServerSpec("127.0.0.1", server.port, "gsiftp")
    )
    share.give("/in/", "rw")
    closed = share.ls("/in")
    assert_error(closed, 400, "ClientError.ActivationRequired")
    assert "alice#share" in closed.body["message"]
    assert "alice#host" not in closed.body["message"]
    assert "alice#host" in share.ls("/in", "alice").body["message"]
    assert push(share.api["alice"], "host", proxy_of(identity_of("alice"))).status == 200
    assert set(names(share.ls("/in"))) == {"deep", "file", "up"}
    assert_error(share.ls("/in/up"), *DENIED)
    assert share.mkdir("/in/new").status == 202
    assert share.rename("/in/file", "/in/new/file").status == 200
    assert_error(share.ls("/in", "charlie"), 404, "EndpointNotFound")
    # bob has no access to the host itself, and the service does not ask for a credential of bob for it.
    assert_error(share.api["bob"].get("/operation/endpoint/alice%23host/ls", path="/"), 404, "EndpointNotFound")
    AccessRule.objects.all().delete()
    assert_error(share.ls("/in"), 404, "EndpointNotFound")


# ---- archives


def archive(share: Share, path: str, who: str = "bob") -> Answer:
    return share.api[who].get("/operation/endpoint/alice%23share/archive", path=path)


def test_an_archive_has_what_is_given_and_nothing_that_links_lead_to(share: Share) -> None:
    share.give("/in/", "r")
    assert_error(archive(share, "/"), *DENIED)
    assert_error(archive(share, "/in/", "charlie"), 404, "EndpointNotFound")
    answer = archive(share, "/in/")
    assert answer.status == 200, answer.body[:1000]
    with zipfile.ZipFile(io.BytesIO(answer.body)) as found:
        assert found.read("in/file") == b"shared/in/file"
        assert not [name for name in found.namelist() if "up" in name.split("/")]
        assert "in/up: a symbolic link" in found.read(archives.LEFT_OUT).decode()
    share.give("/", "r")
    with zipfile.ZipFile(io.BytesIO(archive(share, "/").body)) as found:
        assert "in/file" in found.namelist()
        assert not [name for name in found.namelist() if set(name.split("/")) & {*OUT, "inner", "up"}]


@pytest.mark.parametrize("kind", ["file", "folder"])
def test_what_becomes_a_link_after_it_was_listed_does_not_lead_out(share: Share, kind: str) -> None:
    """A user who may write on the share swaps a file, or its folder, for a link while the archive is on its way."""
    share.give("/", "rw")
    with archives.Archive(share.bob, "alice#share", "/in/") as opened:
        inside = share.folder / "shared" / "in"
        if kind == "file":
            (inside / "file").unlink()
            (inside / "file").symlink_to("../../secret/file")
        else:
            inside.rename(share.folder / "shared" / "was")
            inside.symlink_to("../secret")
        with zipfile.ZipFile(io.BytesIO(b"".join(opened))) as found:
            assert b"secret" not in b"".join(map(found.read, found.namelist()))
            assert "in/file: " in found.read(archives.LEFT_OUT).decode()
