"""Rows of the drill without a fault: secrets in the output of the engine; a backup, and a restore of it."""

from __future__ import annotations

import time

from bench.drill.host import Host
from bench.drill.load import digest, insist, submission, submit, wait_done
from bench.drill.measure import submission_ids
from tests.secrets_search import search

#: A line of a source file in the image, and a variable of each container: a search that does not see them sees nothing.
IN_IMAGE, IN_CONTAINERS = "Gunicorn's threaded worker, changed so that threads", "WAYBILL_VAULT_KEY_FILE"
#: Seconds in which a task that is held must not begin.
HELD_SECONDS = 5.0


def no_secrets(host: Host) -> str:
    """Raises AssertionError where a secret is found, or the search does not see what is there."""
    secrets, texts, image = host.secrets(), host.shown(), host.image()
    control = {"the control of the image": IN_IMAGE, "the control of the containers": IN_CONTAINERS}
    found = search(secrets | control, folders=[image], texts=texts)
    seen = {one.secret for one in found} & control.keys()
    assert seen == control.keys(), f"the search sees no content: {sorted(control.keys() - seen)}"
    leaks = [f"{one.secret} ({one.form}) in {one.where}" for one in found if one.secret in secrets]
    assert not leaks, f"{len(leaks)} secrets are shown: {leaks[:5]}"
    size = sum(path.stat().st_size for path in image.rglob("*")) >> 20
    return f"none of {len(secrets)} secrets in {size} MB of the image and {len(texts)} other places"


def backup_and_restore(host: Host) -> str:
    """Two tasks wait for a pause rule, and one is canceled after the backup. After the restore both are held, though
    the rule is deleted, and both go on when they are released. Raises AssertionError."""
    rule = {"DATA_TYPE": "pause_rule", "endpoint_id": host.endpoints[0], "identity_id": None, "message": "drill"}
    rule_id = insist(lambda: str(host.api.call("POST", "/endpoint_manager/pause_rule", rule)["id"]))
    folder, names = f"restored-{time.time():.0f}", ("kept", "canceled")
    documents = [
        submission(host, id_, "/tree/1/00001", f"/{folder}/{name}", folder)
        for id_, name in zip(submission_ids(len(names)), names, strict=True)
    ]
    tasks = [submit(host.api, document) for document in documents]
    host.follow("backup")
    insist(lambda: host.api.call("POST", f"/task/{tasks[1]}/cancel", {}))
    held = host.follow("restore")
    host.wait_ready()
    assert all(task in held for task in tasks), f"not in the list of held tasks: {tasks}, {held[-300:]}"
    insist(lambda: host.api.call("DELETE", f"/endpoint_manager/pause_rule/{rule_id}"))
    time.sleep(HELD_SECONDS)
    copies = [host.folders[1] / folder / name for name in names]
    assert not any(copy.exists() for copy in copies), "a file was sent before its task was released"
    host.follow("release")
    assert [wait_done(host.api, task) for task in tasks] == ["SUCCEEDED"] * 2, "a released task has not succeeded"
    wanted = digest(host.folders[0] / "tree/1/00001")
    assert all(digest(copy) == wanted for copy in copies), "the file of a released task is wrong"
    files = host.follow("keys").split()
    return f"2 tasks held until they were released, then right; {len(files)} keys as files"
