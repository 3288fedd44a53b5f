"""The documents that globus-sdk tests itself with: ours have all of their fields."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests import real_clients
from transferapi.rest.openapi import components

#: The package wants `responses`, by which it would pretend to be a server: only its documents are looked at.
CODE = """
from unittest.mock import MagicMock
sys.modules["responses"] = sys.modules["responses.matchers"] = MagicMock()
from globus_sdk.testing import get_response_set
found = {}
for name in NAMES.split():
    for one in get_response_set("transfer." + name):
        whole = one.json if isinstance(one.json, dict) else {}
        for document in [whole, *whole.get("DATA", [])]:
            kind = document.get("DATA_TYPE", "task" if "task_id" in document else None)
            if kind and one.status < 400:
                found.setdefault(kind, set()).update(document)
print(json.dumps({name: sorted(fields) for name, fields in found.items()}))
"""
NAMES = (
    "get_endpoint task_list operation_mkdir operation_rename operation_stat submit_transfer submit_delete cancel_task"
)


@pytest.mark.real_clients
def test_our_documents_have_all_fields_that_the_sdk_tests_itself_with(tmp_path: Path) -> None:
    ran = real_clients.run_python("sdk4", CODE, url="http://127.0.0.1:1", home=tmp_path, names=NAMES)
    assert {"endpoint", "task", "task_list", "transfer_result"} <= set(ran.json)
    for name, fields in ran.json.items():
        assert set(fields) - set(components.RESPONSE_EXAMPLES[name]) == set(), name
