"""A submission can be checked without making a task; a refusal is that of the submission."""

from __future__ import annotations

import pytest

from endpoints.models import Endpoint
from identity.models import User
from tests.integration.cast import make_endpoint
from tests.integration.rest import Api, assert_error
from transferapi.tasks.models import Task

pytestmark = pytest.mark.django_db
SUBMISSION = "3f4a4a1c-7d3f-4b43-9f5c-3a1f3d1a5b11"


@pytest.fixture
def mine(alice: User) -> Endpoint:
    return make_endpoint(alice, "mine")


def transfer(source: Endpoint, destination: Endpoint, **item: str) -> dict[str, object]:
    return {
        "submission_id": SUBMISSION,
        "source_endpoint": str(source.pk),
        "destination_endpoint": str(destination.pk),
        "DATA": [{"source_path": "/a", "destination_path": "/b", **item}],
    }


def test_a_request_that_could_be_submitted_makes_no_task(alice: User, mine: Endpoint) -> None:
    api = Api(alice)
    for path, body in (
        ("/transfer/check", transfer(mine, mine)),
        ("/delete/check", {"submission_id": SUBMISSION, "endpoint": str(mine.pk), "DATA": [{"path": "/a"}]}),
    ):
        answer = api.call("POST", path, body)
        assert (answer.status, answer.body["code"], answer.body["items"]) == (200, "Possible", 1)
    assert not Task.objects.exists()


def test_the_refusals_are_those_of_the_submission(alice: User, charlie: User, mine: Endpoint) -> None:
    wrong = transfer(mine, mine, destination_path="/../b")
    assert_error(Api(alice).call("POST", "/transfer/check", wrong), 400, "ClientError.BadRequest")
    assert_error(Api(charlie).call("POST", "/transfer/check", transfer(mine, mine)), 404, "EndpointNotFound")
    root = {"submission_id": SUBMISSION, "endpoint": str(mine.pk), "DATA": [{"path": "/"}]}
    assert_error(Api(alice).call("POST", "/delete/check", root), 400, "ClientError.BadRequest")
