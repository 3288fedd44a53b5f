"""Tasks from and to shared endpoints: what rules allow, whose credential it takes, and what lies in what."""

from __future__ import annotations

import uuid
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from deploy.endpoint.authority import CertificateFiles
from endpoints.errors import EndpointNotFoundError, NotPermittedError, PathNotPermittedError
from endpoints.models import Endpoint
from identity.models import User
from tests.integration.activated import proxy_of, push
from tests.integration.cast import later, make_endpoint, submit, submit_delete, transfer_request
from tests.integration.rest import Api, assert_error
from tests.integration.shared import give, make_share
from transferapi.tasks import submission
from transferapi.tasks.errors import NoCredentialError, RequestError
from transferapi.tasks.models import Item, Task
from transferapi.tasks.submission import TransferItem
from transferapi.tasks.worker import leases


@pytest.fixture
def share(ep1: Endpoint) -> Endpoint:
    """alice's, of a folder of a private endpoint; bob may read all of it and write below /inbox."""
    return make_share(ep1, "share")


@pytest.fixture
def bobs(share: Endpoint, bob: User) -> Endpoint:
    give(share, bob, "/")
    give(share, bob, "/inbox/", write=True)
    return make_endpoint(bob, "bobs")


def test_a_task_keeps_the_paths_that_its_user_named(bob: User, share: Endpoint, bobs: Endpoint) -> None:
    task = submit(bob, share, bobs, ("/data/", "/~/copy/"))
    assert (task.source, task.source_host, task.destination_host) == (share, share.host, bobs)
    item = Item.objects.get(task=task)
    assert (item.source_path, item.destination_path) == ("/data/", "/~/copy/")


@pytest.mark.parametrize(
    ("path", "allowed"), [("/inbox/a", True), ("/inbox", True), ("/inboxes/a", False), ("/", False)]
)
def test_what_no_rule_lets_a_user_write_is_refused_by_its_path(
    bob: User, share: Endpoint, bobs: Endpoint, path: str, allowed: bool
) -> None:
    items = [("/x", "/inbox/ok"), ("/y", path)]
    if allowed:
        submit(bob, bobs, share, *items)
        submit_delete(bob, share, path)
        return
    with pytest.raises(PathNotPermittedError) as refused:
        submit(bob, bobs, share, *items)
    assert refused.value.path == path
    with pytest.raises((PathNotPermittedError, RequestError)):
        submit_delete(bob, share, path)
    assert not Task.objects.exists()


def test_a_rule_below_a_folder_gives_nothing_beside_it(bob: User, share: Endpoint) -> None:
    give(share, bob, "/open/")
    bobs = make_endpoint(bob, "bobs")
    submit(bob, share, bobs, ("/open/data", "/a"), ("/open/", "/b/"))
    for path in ("/closed", "/opened", "/", "/~/"):
        with pytest.raises(PathNotPermittedError):
            submit(bob, share, bobs, ("/open/x", "/x"), (path, "/y"))
    with pytest.raises(NotPermittedError):
        submit(bob, bobs, share, ("/x", "/open/x"))


def test_nothing_leads_up_out_of_a_share(alice: User, share: Endpoint, ep2: Endpoint) -> None:
    for path in ("/..", "/a/../../b", "/~/.."):
        with pytest.raises(RequestError):
            submit(alice, share, ep2, (path, "/x"))


def test_a_rule_that_has_expired_gives_nothing(bob: User, charlie: User, share: Endpoint) -> None:
    give(share, bob, "/", expires_at=datetime.now(UTC) - timedelta(seconds=1))
    for user in (bob, charlie):
        mine = make_endpoint(user, "mine")
        with pytest.raises(EndpointNotFoundError):
            submit(user, share, mine)


def test_the_refusal_names_the_path_on_the_wire(bob: User, share: Endpoint, bobs: Endpoint) -> None:
    item = {"DATA_TYPE": "transfer_item", "source_path": "/x", "destination_path": "/elsewhere/x"}
    body = {
        "DATA_TYPE": "transfer", "submission_id": str(uuid.uuid4()), "source_endpoint": str(bobs.pk),
        "destination_endpoint": str(share.pk), "DATA": [item],
    }  # fmt: skip
    answer = Api(bob).post("/transfer", body)
    assert_error(answer, 403)
    assert "/elsewhere/x" in answer.body["message"]


# ---- what lies in what


@pytest.mark.parametrize(
    ("source", "destination"), [("/shared/a", "/a"), ("/shared", "/a/b"), ("/shared/a/", "/a"), ("/", "/x")]
)
def test_a_share_and_its_host_are_seen_to_be_one_place(
    alice: User, ep1: Endpoint, share: Endpoint, source: str, destination: str
) -> None:
    with pytest.raises(RequestError) as refused:
        submit(alice, ep1, share, (source, destination))
    assert refused.value.field == "DATA[0].destination_path"
    submit(alice, ep1, share, ("/other/a", "/a"), ("/a", "/b"))


def test_two_shares_of_one_host_are_seen_to_be_one_place(alice: User, ep1: Endpoint, share: Endpoint) -> None:
    inner = make_share(ep1, "inner", "/shared/inner/")
    for source, destination in (("/inner/a", "/a"), ("/", "/a"), ("/inner", "/b")):
        with pytest.raises(RequestError):
            submit(alice, share, inner, (source, destination))
    submit(alice, share, inner, ("/a", "/a"), ("/inner2", "/inner2"))


def test_two_names_of_one_destination_are_one(alice: User, share: Endpoint, ep2: Endpoint) -> None:
    with pytest.raises(RequestError) as refused:
        submit(alice, ep2, share, ("/a", "/x"), ("/b", "/~/x"))
    assert refused.value.field == "DATA[1].destination_path"


@pytest.mark.parametrize("path", ["/", "/~/", "//"])
def test_the_root_of_a_share_is_not_deleted(alice: User, share: Endpoint, path: str) -> None:
    with pytest.raises(RequestError):
        submit_delete(alice, share, path)


def test_no_symbolic_links_go_to_a_share(alice: User, share: Endpoint, ep2: Endpoint) -> None:
    link = TransferItem("/link", "/link", symlink=True)
    for source, destination, refused in ((ep2, share, True), (share, ep2, False)):
        request = transfer_request(source, destination, options={"recursive_symlinks": "keep"})
        links = submission.TransferRequest(uuid.uuid4(), str(source.pk), str(destination.pk), [link])
        for one in (request, links):
            if refused:
                with pytest.raises(RequestError, match="symbolic links"):
                    submission.submit_transfer(alice, one)
            else:
                submission.submit_transfer(alice, one)


# ---- credentials


@pytest.mark.usefixtures("trusting")
def test_it_takes_the_credential_of_the_owner_of_what_is_shared(
    alice: User, bob: User, gsi: Endpoint, ep2: Endpoint, alices: CertificateFiles
) -> None:
    share = make_share(gsi, "share")
    give(share, bob)
    bobs = make_endpoint(bob, "bobs")
    with pytest.raises(NoCredentialError) as refused:
        submit(bob, share, bobs)
    assert refused.value.endpoint == share
    assert "The owner of the shared endpoint alice#share" in refused.value.reason
    assert "gsi" not in refused.value.reason
    with pytest.raises(NoCredentialError) as refused:
        submit(alice, share, ep2)
    assert "alice#gsi" in refused.value.reason
    assert push(Api(alice), gsi.pk, proxy_of(alices)).status == 200
    submit(bob, share, bobs)
    submit(alice, share, ep2)


@pytest.mark.usefixtures("trusting")
def test_the_users_own_credential_for_the_host_is_of_no_use(bob: User, gsi1: Endpoint, identity_of: Any) -> None:
    share = make_share(gsi1, "share")
    give(share, bob)
    assert push(Api(bob), gsi1.pk, proxy_of(identity_of("bob"))).status == 200
    with pytest.raises(NoCredentialError):
        submit(bob, share, make_endpoint(bob, "bobs"))


# ---- whose turn it is


def test_sessions_to_shares_count_as_those_to_their_host(alice: User, bob: User, charlie: User) -> None:
    host = make_endpoint(alice, "host", max_sessions=12)
    shares = [make_share(host, f"share{number}", f"/{number}/") for number in range(2)]
    tasks = []
    for user, share in zip((bob, charlie), shares, strict=True):
        give(share, user)
        tasks.append(submit(user, share, make_endpoint(user, "mine"), now=later(-10)))
    tasks.append(submit(alice, host, make_endpoint(alice, "other"), now=later(-5)))
    grants = [leases.acquire(task.pk, "worker") for task in tasks]
    given = [grant.spec.max_sessions if isinstance(grant, leases.Grant) else 0 for grant in grants]
    assert given == [6, 3, 3]


def test_a_share_and_its_host_in_one_task_need_twice_the_sessions(alice: User) -> None:
    host = make_endpoint(alice, "host", max_sessions=8)
    task = submit(alice, host, make_share(host, "share"), ("/a", "/a"), now=later(-1))
    grant = leases.acquire(task.pk, "worker")
    assert isinstance(grant, leases.Grant)
    assert grant.spec.max_sessions == 3
    assert (grant.spec.source.host_id, grant.spec.source.root) == (str(host.pk), None)
    assert grant.spec.destination is not None
    assert (grant.spec.destination.host_id, grant.spec.destination.root) == (str(host.pk), "/shared")


def test_the_limits_of_a_share_are_those_of_its_host(alice: User, ep2: Endpoint) -> None:
    host = make_endpoint(alice, "host")
    Endpoint.objects.filter(pk=host.pk).update(network_use="minimal")
    share = make_share(Endpoint.objects.get(pk=host.pk), "share")
    grant = leases.acquire(submit(alice, share, ep2, now=later(-1)).pk, "worker")
    assert isinstance(grant, leases.Grant)
    assert grant.spec.source.max_concurrency == 1
