"""`waybill saml refresh`: metadata are read now by the checks of the hourly reading, and changes are counted."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.serialization import Encoding
from lxml import etree

from deploy import cli
from deploy.doctor import settings as doctor
from deploy.doctor.findings import Severity
from deploy.stack.errors import StackError
from identity.federation import saml_directory
from identity.federation.errors import ProofRefusedError
from identity.models import Institution
from tests.identity_providers.lying_saml import ENTITY, LyingInstitution, certificate_of, moment
from tests.integration.pages.sign_in.test_institutions import feed
from transferapi.config import load
from workers.rounds import JOBS

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("commands_here")]
OTHER = "https://other.example/idp"


def refresh() -> int:
    arguments = cli.parser().parse_args(["saml", "refresh"])
    return cli.carry_out(load({}), arguments)


@pytest.fixture
def file(tmp_path: Path, settings: Any) -> Path:
    """The metadata that this service reads."""
    file = tmp_path / "federation.xml"
    settings.SAML_METADATA, settings.SAML_CERTIFICATE = (str(file),), None
    return file


def test_an_institution_with_the_domain_of_this_service_is_named(
    file: Path, settings: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    file.write_bytes(feed(LyingInstitution("", "").metadata()))
    config = load({"WAYBILL_SAML_METADATA": str(file)})
    assert refresh() == 0
    assert "warning" not in said(capsys)
    assert list(doctor._institutions(config)) == []
    settings.IDENTITY_DOMAIN = "example.edu"
    assert refresh() == 0
    assert "warning: Example University: the metadata have the domain of this service, example.edu." in said(capsys)
    [finding] = doctor._institutions(config)
    assert finding.severity is Severity.WARNING
    assert "the domain of this service (example.edu): Example University." in finding.text
    assert list(doctor._institutions(load({}))) == []


@pytest.fixture
def federation(tmp_path: Path) -> tuple[bytes, Path]:
    """Signed metadata, and the file of the certificate of their key."""
    signer = LyingInstitution("", "")
    data = etree.tostring(signer.signed(etree.fromstring(feed(LyingInstitution("", "").metadata()))))
    file = tmp_path / "federation.pem"
    file.write_bytes(certificate_of(signer.key).public_bytes(Encoding.PEM))
    return data, file


def said(capsys: pytest.CaptureFixture[str]) -> str:
    return capsys.readouterr().out.strip()


def test_what_has_changed_is_counted(file: Path, settings: Any, capsys: pytest.CaptureFixture[str]) -> None:
    # Once each: a certificate holds the time at which it was made.
    first, other = LyingInstitution("", "").metadata(), LyingInstitution("", "", entity_id=OTHER).metadata()
    counts = "{} institutions: {} added, {} removed, {} with other keys or addresses, {} expired"
    for metadata, expected in (
        (feed(first), (1, 1, 0, 0, 0)),
        (feed(first), (1, 0, 0, 0, 0)),
        (feed(first, other), (2, 1, 0, 0, 0)),
        # It has a new key.
        (feed(LyingInstitution("", "").metadata(), other), (2, 0, 0, 1, 0)),
        (feed(other), (1, 0, 1, 0, 0)),
    ):
        file.write_bytes(metadata)
        assert refresh() == 0
        assert said(capsys) == f"{file}: {counts.format(*expected)}"
    second = file.with_name("second.xml")
    second.write_bytes(first)
    settings.SAML_METADATA = (str(second),)
    assert refresh() == 0
    assert said(capsys).splitlines() == [
        f"{second}: {counts.format(1, 1, 0, 0, 0)}",
        f"{file}: no longer named. {counts.format(0, 0, 1, 0, 0)}",
    ]


def test_metadata_that_are_refused_change_nothing(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file.write_bytes(feed(LyingInstitution("", "").metadata()))
    assert refresh() == 0
    keys = saml_directory.by_entity_id(ENTITY).certificates
    file.write_bytes(feed(LyingInstitution("", "").metadata(), more=f'validUntil="{moment(-5)}"'))
    capsys.readouterr()
    assert refresh() == 1
    assert "not taken over. The metadata have expired. 1 institutions: 0 added, 0 removed, 0 with" in said(capsys)
    assert saml_directory.by_entity_id(ENTITY).certificates == keys
    # The end of what was read before comes.
    Institution.objects.update(valid_until=moment(-5))
    file.unlink()
    assert refresh() == 1
    assert "cannot be read: No such file or directory. 1 institutions" in (line := said(capsys))
    assert line.endswith("1 expired")


def test_metadata_without_the_signature_of_the_federation_are_refused(
    file: Path, settings: Any, capsys: pytest.CaptureFixture[str], federation: tuple[bytes, Path]
) -> None:
    signed, settings.SAML_CERTIFICATE = federation
    file.write_bytes(feed(LyingInstitution("", "").metadata()))
    assert refresh() == 1
    assert "The metadata are not signed. 0 institutions" in said(capsys)
    file.write_bytes(signed.replace(b"idp.example.edu/sso", b"evil.example/sso"))
    assert refresh() == 1
    with pytest.raises(ProofRefusedError):
        saml_directory.by_entity_id(ENTITY)
    file.write_bytes(signed)
    capsys.readouterr()
    assert refresh() == 0
    assert "1 institutions: 1 added" in said(capsys)


def test_without_a_source_the_institutions_of_before_are_forgotten(
    file: Path, settings: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    file.write_bytes(feed(LyingInstitution("", "").metadata()))
    assert refresh() == 0
    capsys.readouterr()
    settings.SAML_METADATA = ()
    assert refresh() == 0
    assert said(capsys).startswith(f"{file}: no longer named. 0 institutions: 0 added, 1 removed")
    assert not Institution.objects.exists()


@pytest.mark.django_db(transaction=True)
def test_workers_forget_the_institutions_of_before_where_no_source_is_named(file: Path, settings: Any) -> None:
    file.write_bytes(feed(LyingInstitution("", "").metadata()))
    [steps] = [job.steps for job in JOBS if job.name == "institutions"]
    [step() for step in steps]
    assert Institution.objects.count() == 1
    settings.SAML_METADATA = ()
    [step() for step in steps]
    assert not Institution.objects.exists()


def test_a_file_that_was_renamed_keeps_its_institutions(file: Path, settings: Any) -> None:
    """The rows of the former name do not keep the same institutions from the new one."""
    file.write_bytes(feed(LyingInstitution("", "").metadata()))
    assert refresh() == 0
    settings.SAML_METADATA = (str(file.rename(file.with_name("renamed.xml"))),)
    assert refresh() == 0
    assert saml_directory.by_entity_id(ENTITY).source.endswith("renamed.xml")


def test_without_metadata_the_command_says_what_to_set(file: Path, settings: Any) -> None:
    settings.SAML_METADATA = ()
    with pytest.raises(StackError, match="WAYBILL_SAML_METADATA"):
        refresh()
