"""The alert rules and the dashboard: they use metrics that the service has."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
import yaml

from docs.draw.imports import ROOT
from transferapi.rest.metrics.families import FAMILIES, Type

FOLDER = ROOT / "deploy" / "monitoring"
RULES: list[dict[str, Any]] = [
    rule for group in yaml.safe_load((FOLDER / "alerts.yml").read_text())["groups"] for rule in group["rules"]
]
NAMES = {one.name: one for one in FAMILIES.values()}

#: For each rule: a series with which it fires, and a value with which it does not; minutes until it fires.
FIRING: dict[str, tuple[str, str, str, int]] = {
    "WaybillAway": ('up{job="waybill"}', "0x90", "1x90", 5),
    "WaybillDatabaseAway": ("waybill_database_answers", "0x90", "1x90", 5),
    "WaybillDatabaseConnectionsFew": ("waybill_database_connections_used", "90x90", "80x90", 10),
    "WaybillDatabaseConnectionsShort": ("waybill_database_connections_needed", "101x90", "95x90", 20),
    "WaybillQuestionUnanswered": ('waybill_question_answered{question="tasks"}', "0x90", "1x90", 20),
    "WaybillNoWorker": ("waybill_workers", "0x90", "2x90", 5),
    "WaybillWorkersFewer": ("waybill_workers", "2x30 1x60", "2x90", 45),
    "WaybillRelayAway": ("waybill_relays", "1x30 0x60", "0x90", 40),
    "WaybillShellAway": ("waybill_shells", "1x30 0x60", "0x90", 40),
    "WaybillSweepLate": ('waybill_round_overdue_seconds{round="sweep"}', "31x90", "3x90", 5),
    "WaybillRoundLate": ('waybill_round_overdue_seconds{round="mails"}', "901x90", "31x90", 20),
    "WaybillQueueOld": ("waybill_oldest_queued_seconds", "1801x90", "1700x90", 20),
    "WaybillLeasesExpired": ("waybill_leases_expired", "1x90", "0x90", 5),
    "WaybillTakeovers": ("waybill_takeovers_total", "0+1x90", "7x90", 60),
    "WaybillFaults": ('waybill_faults_total{kind="TIMEOUT"}', "0+900x90", "0+60x90", 60),
    "WaybillInternalErrors": ('waybill_faults_total{kind="INTERNAL_ERROR"}', "0x10 1x80", "5x90", 30),
    "WaybillEndpointsFail": ("waybill_endpoints_failing", "2x90", "0x90", 40),
    "WaybillDiskFull": ("waybill_database_disk_full_total", "0x10 1x80", "3x90", 15),
    "WaybillDiskFew": ('waybill_disk_free_bytes{folder="home"}', "1000000000x90", "3000000000x90", 20),
    "WaybillMailWaits": ("waybill_mails_oldest_seconds", "3700x90", "60x90", 20),
    "WaybillMailServerAway": ('waybill_mail_failures_total{reason="connection"}', "0x10 1x80", "5x90", 30),
    "WaybillMailGivenUp": ("waybill_mails_given_up_total", "0x10 1x80", "5x90", 30),
    "WaybillWebhooksWait": ("waybill_webhooks_oldest_seconds", "90000x90", "3600x90", 20),
    "WaybillSignInsRefused": ('waybill_sign_ins_last_hour{result="refused"}', "501x90", "20x90", 20),
    "WaybillRelayRefuses": ('waybill_relay_refused_total{reason="busy"}', "0+60x90", "0+1x90", 30),
    "WaybillTracesDropped": ("waybill_spans_dropped_total", "0+9x90", "9x90", 60),
    "WaybillServerErrors": ('waybill_request_seconds_count{route="/",status="5xx"}', "0+12x90", "3x90", 30),
    "WaybillSlow": ('waybill_request_seconds_bucket{route="/",status="2xx",le="5.0"}', "0x90", "0+60x90", 30),
    "WaybillRedisAway": ("waybill_redis_answers", "0x90", "1x90", 5),
    "WaybillCredentialsExpire": ('waybill_credentials_expiring{within="1d"}', "30x1500 90x200", "90x1700", 1600),
    "WaybillCertificateEnds": ("waybill_certificate_expires_seconds", "1209000x90", "1210000x90", 70),
    "WaybillFrontCertificateEnds": ("waybill_front_certificate_expires_seconds", "1209000x90", "1210000x90", 70),
    "WaybillFrontTlsAway": ("waybill_front_tls_answers", "0x90", "1x90", 20),
    "WaybillBackupOld": ("waybill_backup_age_seconds", "130000x90", "90000x90", 70),
}
#: More series that a rule needs.
BESIDE = {
    "WaybillMailServerAway": [("waybill_mails_waiting", "1x90")],
    "WaybillDatabaseConnectionsFew": [("waybill_database_connections_allowed", "100x90")],
    "WaybillDatabaseConnectionsShort": [("waybill_database_connections_allowed", "100x90")],
    "WaybillQuestionUnanswered": [("waybill_database_answers", "1x90")],
    "WaybillSlow": [
        ('waybill_request_seconds_bucket{route="/",status="2xx",le="30.0"}', "0+60x90"),
        ('waybill_request_seconds_bucket{route="/",status="2xx",le="+Inf"}', "0+60x90"),
    ],
}


def expressions() -> list[str]:
    panels = json.loads((FOLDER / "dashboard.json").read_text())["panels"]
    shown = [target["expr"] for panel in panels for target in panel["targets"]]
    return [*shown, *(rule["expr"] for rule in RULES)]


def base(name: str) -> str:
    """The name of the family of a series."""
    stem = re.sub(r"_(bucket|count|sum)\Z", "", name)
    return stem if stem in NAMES and NAMES[stem].type is Type.HISTOGRAM else name


@pytest.mark.parametrize("expression", expressions())
def test_expressions_name_metrics_and_labels_that_exist(expression: str) -> None:
    names = {base(name) for name in re.findall(r"\bwaybill_\w+", expression)}
    assert names <= NAMES.keys()
    labels = {label for name in names for label in NAMES[name].labels} | {"le", "instance", "job"}
    used = set(re.findall(r'(\w+)\s*!?=~?\s*"', expression))
    for group in re.findall(r"(?:by|on) \(([^)]*)\)", expression):
        used |= {word.strip() for word in group.split(",")}
    assert used <= labels


def test_the_dashboard_shows_every_metric() -> None:
    shown = {base(name) for one in expressions() for name in re.findall(r"\bwaybill_\w+", one)}
    assert shown == NAMES.keys()


def test_each_rule_has_a_line_in_the_runbook_and_a_trial() -> None:
    page = (ROOT / "docs" / "operate" / "alerts.md").read_text()
    alerts = [rule["alert"] for rule in RULES]
    assert re.findall(r'^\| <a id="(\w+)"></a>(\w+) \| \w', page, re.M) == [(one.lower(), one) for one in alerts]
    assert list(FIRING) == alerts
    for rule in RULES:
        assert rule["annotations"]["runbook"] == f"docs/operate/alerts.md#{rule['alert'].lower()}"
        assert rule["labels"]["severity"] in ("page", "ticket")
