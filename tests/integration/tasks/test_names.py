"""The names of tasks that have no label."""

from __future__ import annotations

import pytest

from endpoints.models import Endpoint
from identity.languages import speaking
from identity.models import User
from tests.integration.cast import submit, submit_delete
from transferapi.rest.transfer import task_documents
from transferapi.tasks import names, queries
from transferapi.tasks.models import Item, Task

pytestmark = pytest.mark.django_db


@pytest.mark.parametrize(
    ("items", "name"),
    [
        ([("/share/godata/", "/~/results/godata/")], "godata to results"),
        ([("/share/godata/", "/~/godata/")], "godata to alice#ep2"),
        ([("/share/godata/", "/godata/")], "godata to alice#ep2"),
        ([("/share/a.txt", "/~/results/b.txt")], "a.txt to b.txt"),
        ([("/", "/backup/")], "alice#ep1 to backup"),
        ([("/~/", "/backup/")], "alice#ep1 to backup"),
        ([("/a", "/x/a"), ("/b", "/x/b")], "a and 1 more to x"),
        ([("/a", "/x/z"), ("/b", "/x/b"), ("/c", "/x/c")], "a and 2 more to x"),
        ([("/100%/", "/%(what)s/100%/")], "100% to %(what)s"),
    ],
)
def test_a_transfer_is_named_by_its_first_item_and_its_folder(
    alice: User, ep1: Endpoint, ep2: Endpoint, items: list[tuple[str, str]], name: str
) -> None:
    task = submit(alice, ep1, ep2, *items)
    assert names.of(task) == name
    found = Task.objects.get(pk=task.pk)
    names.read([found])
    assert names.of(found) == name
    document = task_documents.task(queries.get(alice, task.pk))
    assert document["label"] is None


def test_a_label_is_the_name(alice: User, ep1: Endpoint, ep2: Endpoint) -> None:
    assert names.of(submit(alice, ep1, ep2, label="Run 1")) == "Run 1"


def test_a_deletion_says_that_it_is_one(alice: User, ep1: Endpoint) -> None:
    assert names.of(submit_delete(alice, ep1)) == "Deletion of old"


def test_a_task_whose_items_are_gone_is_named_by_its_endpoints(alice: User, ep1: Endpoint, ep2: Endpoint) -> None:
    task = submit(alice, ep1, ep2)
    Item.objects.filter(task=task).delete()
    assert names.of(Task.objects.get(pk=task.pk)) == "Transfer from alice#ep1 to alice#ep2"


def test_a_name_is_in_the_language_of_its_reader(alice: User, ep1: Endpoint, ep2: Endpoint) -> None:
    task = submit(alice, ep1, ep2, ("/a", "/x/a"), ("/b", "/x/b"), ("/c", "/x/c"))
    with speaking("de"):
        assert names.of(task) == "a und 2 weitere nach x"
