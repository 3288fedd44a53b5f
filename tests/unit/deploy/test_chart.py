"""The chart of Helm: its manifests by the schemas of Kubernetes, the compose file's figures, and refused values.

The manifests are those that tests/chart.py keeps; with Helm they are made anew and compared.
"""

from __future__ import annotations

import json
import re
import tomllib
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from deploy.commands.run import EX_CONFIG, ROLES, WAIT_SECONDS
from deploy.release.chart import pack
from deploy.release.image import ACCOUNT
from deploy.stack.roles import STOP_SECONDS
from tests import chart
from transferapi.config import CHECKOUT, SECRETS, load

#: The oldest version that the chart accepts, and the newest one when it was written.
VERSIONS = ("1.31", "1.37")
API = {"v1": "core.v1", "apps/v1": "apps.v1", "batch/v1": "batch.v1", "policy/v1": "policy.v1"} | {
    "networking.k8s.io/v1": "networking.v1",
    "autoscaling/v2": "autoscaling.v2",
}
#: Not of Kubernetes: the Prometheus Operator's.
OTHERS = {"ServiceMonitor"}
SERVICES: dict[str, Any] = yaml.safe_load((CHECKOUT / "docker-compose.yml").read_text())["services"]
VALUES: dict[str, Any] = yaml.safe_load((chart.CHART / "values.yaml").read_text())
SCHEMA: dict[str, Any] = json.loads((chart.CHART / "values.schema.json").read_text())
RSA = rsa.generate_private_key(65537, 2048).private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode()
each_case = pytest.mark.parametrize("case", chart.CASES)
needs_helm = pytest.mark.skipif(chart.HELM is None, reason="needs helm 4.3, which tests/chart.py says how to build")


def manifests(case: str) -> list[dict[str, Any]]:
    return [one for one in yaml.safe_load_all(chart.rendered(case).read_text()) if one]


def of_kind(case: str, kind: str) -> dict[str, dict[str, Any]]:
    """Manifests by the role of which they are."""
    found = (one for one in manifests(case) if one["kind"] == kind)
    return {one["metadata"]["labels"].get("app.kubernetes.io/component", ""): one for one in found}


def pods(case: str) -> dict[str, dict[str, Any]]:
    return {
        role: one["spec"]["template"]["spec"]
        for kind in ("Deployment", "Job")
        for role, one in of_kind(case, kind).items()
    }


@each_case
def test_the_kept_manifests_are_those_of_this_chart(case: str) -> None:
    first = chart.rendered(case).read_text().partition("\n")[0] + "\n"
    assert first == chart.stamp(case), "the chart has changed: python -m tests.chart"


@needs_helm
@each_case
def test_helm_accepts_the_chart_and_makes_the_kept_manifests(case: str) -> None:
    linted = chart.helm("lint", "--strict", chart.CHART, "--values", chart.values_of(case))
    assert linted.returncode == 0, linted.stdout + linted.stderr
    assert chart.render(case) == chart.rendered(case).read_text()


@pytest.mark.parametrize("version", VERSIONS)
@each_case
def test_each_manifest_is_valid_by_the_schema_of_kubernetes(case: str, version: str) -> None:
    schema = json.loads((CHECKOUT / "tests" / "schemas" / f"kubernetes-{version}.json").read_text())
    checked = 0
    for one in manifests(case):
        if one["kind"] in OTHERS:
            continue
        name = f"io.k8s.api.{API[one['apiVersion']]}.{one['kind']}"
        whole = {"$ref": f"#/definitions/{name}", "definitions": schema["definitions"]}
        validator = jsonschema.Draft7Validator(whole)
        assert [error.message for error in validator.iter_errors(one)] == [], one["metadata"]["name"]
        wrong = one | {"spek": {}}
        assert [error.message for error in validator.iter_errors(wrong)], "the schema is in force"
        checked += 1
    assert checked >= 5


@each_case
def test_each_pod_has_few_rights(case: str) -> None:
    for role, pod in pods(case).items():
        account, [container] = pod["securityContext"], pod["containers"]
        assert (account["runAsNonRoot"], account["runAsUser"], account["runAsGroup"]) == (True, ACCOUNT, ACCOUNT), role
        assert account["seccompProfile"] == {"type": "RuntimeDefault"}
        assert container["securityContext"] == {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "privileged": False,
            "capabilities": {"drop": ["ALL"]},
        }
        assert pod["automountServiceAccountToken"] is False
        # Else Kubernetes sets WAYBILL_WEB_PORT and the like, which the configuration refuses.
        assert pod["enableServiceLinks"] is False
        assert not {"hostNetwork", "hostPID", "hostIPC"} & pod.keys()
        assert {"/tmp", "/var/lib/waybill"} <= {one["mountPath"] for one in container["volumeMounts"]}


def test_it_has_all_roles_with_the_commands_memory_and_times_of_the_compose_file() -> None:
    found = pods("full")
    assert found.keys() == ROLES.keys()
    for role, pod in found.items():
        service, [container] = SERVICES[role], pod["containers"]
        assert " ".join(container["command"]) == service["command"]
        limit = re.sub(r"\$\{\w+:-(\d+)g\}", r"\1Gi", service["mem_limit"])
        assert container["resources"]["limits"] == {"memory": VALUES[role]["memory"]} == {"memory": limit}
        if role != "migrate":
            assert VALUES[role]["stopSeconds"] == STOP_SECONDS[role]
            stop = SCHEMA["properties"][role]["properties"]["stopSeconds"]
            assert stop["minimum"] == STOP_SECONDS[role] == int(service["stop_grace_period"].removesuffix("s"))


@each_case
def test_a_pod_gets_the_time_of_its_role_after_the_wait_for_its_service(case: str) -> None:
    given = yaml.safe_load(chart.values_of(case).read_text()) or {}
    for role, pod in pods(case).items():
        if role == "migrate":
            continue
        values = VALUES[role] | given.get(role, {})
        assert pod["terminationGracePeriodSeconds"] == values["stopSeconds"] + values["drainSeconds"], role
        hook = pod["containers"][0].get("lifecycle", {}).get("preStop", {}).get("exec", {}).get("command")
        assert hook == (["sleep", str(values["drainSeconds"])] if values["drainSeconds"] else None)


def test_probes_are_the_checks_of_the_compose_file_and_an_outage_restarts_nothing() -> None:
    for role, pod in pods("full").items():
        [container] = pod["containers"]
        if role == "migrate":
            continue
        check = SERVICES[role]["healthcheck"]["test"]
        ready, alive = container["readinessProbe"], container.get("livenessProbe")
        if role in ("web", "events"):
            words = re.findall(r"--exclude (\w+)", check)
            assert ready["httpGet"]["path"] == "/readyz?" + "&".join(f"exclude={word}" for word in words)
            assert alive["httpGet"]["path"] == "/healthz"
        else:
            assert " ".join(ready["exec"]["command"]) == check
            # The check of a worker asks the database.
            assert (alive is None) == (role == "worker")


def test_a_relay_is_checked_in_its_own_pod() -> None:
    """The Service has no address before the pod is ready."""
    environment = {one["name"]: one["value"] for one in pods("default")["relay"]["containers"][0]["env"]}
    assert environment == {"WAYBILL_RELAY": "127.0.0.1:8003", "WAYBILL_RELAY_LISTEN": "0.0.0.0:8003"}
    for role in ("relay", "shell"):
        spec = of_kind("full", "Deployment")[role]["spec"]
        assert (spec["replicas"], spec["strategy"]) == (1, {"type": "Recreate"})


@each_case
def test_migrations_run_before_the_pods_are_replaced_and_need_nothing_of_the_release(case: str) -> None:
    job = of_kind(case, "Job")["migrate"]
    assert job["metadata"]["annotations"]["helm.sh/hook"] == "pre-install,pre-upgrade"
    [rule] = job["spec"]["podFailurePolicy"]["rules"]
    assert (rule["action"], rule["onExitCodes"]["values"]) == ("FailJob", [EX_CONFIG])
    assert job["spec"]["activeDeadlineSeconds"] > WAIT_SECONDS
    [container] = job["spec"]["template"]["spec"]["containers"]
    assert "envFrom" not in container
    inline = {one["name"]: one["value"] for one in container["env"]}
    [settings] = of_kind(case, "ConfigMap").values()
    assert inline == settings["data"]


@each_case
def test_the_service_accepts_the_settings_and_every_secret_is_a_file(case: str, tmp_path: Path) -> None:
    [settings] = of_kind(case, "ConfigMap").values()
    data: dict[str, str] = settings["data"]
    contents = {
        "DATABASE_URL": "postgresql://waybill@db.example.org/waybill",
        "REDIS_URL": "rediss://:x@redis.example.org:6379/0",
        "WAYBILL_OIDC_KEY": RSA,
        "WAYBILL_MAIL": "smtps://waybill:x@mail.example.org",
    }
    # As Kubernetes mounts it: each name is a link into a folder that is replaced as a whole.
    (tmp_path / "..data").mkdir()
    environ = {}
    for name, value in data.items():
        secret = name.removesuffix("_FILE")
        if name.endswith("_FILE"):
            assert secret in SECRETS
            key = value.removeprefix("/etc/waybill/")
            (tmp_path / "..data" / key).write_text(contents.get(secret, "0123456789abcdef" * 4))
            (tmp_path / key).symlink_to(Path("..data", key))
            value = str(tmp_path / key)
        environ[name] = value
        assert name not in SECRETS
    config = load(environ)
    assert None not in (config.database_url, config.redis_url, config.secret_key, config.vault_key)
    assert str(config.public_url) == data["WAYBILL_PUBLIC_URL"]


def test_the_ingress_waits_for_slow_clients_and_lets_long_bodies_pass() -> None:
    prefix = "nginx.ingress.kubernetes.io/"
    for case, seconds in (("minimal", "60"), ("full", "300")):
        found = of_kind(case, "Ingress")
        assert found.keys() == {"web", "unbuffered"}
        for name, size, buffers in (("web", "4m", "on"), ("unbuffered", "256m", "off")):
            annotations = found[name]["metadata"]["annotations"]
            assert annotations[prefix + "proxy-body-size"] == size
            assert annotations[prefix + "proxy-request-buffering"] == annotations[prefix + "proxy-buffering"] == buffers
            assert annotations[prefix + "proxy-read-timeout"] == seconds
            [rule], [tls] = found[name]["spec"]["rules"], found[name]["spec"]["tls"]
            assert [rule["host"]] == tls["hosts"] == ["data.example.org"]
    assert not of_kind("default", "Ingress")


def test_the_ingress_has_the_paths_of_the_front_server() -> None:
    """Long bodies by the same expression as nginx; tunnels to the relay."""
    template = (CHECKOUT / "deploy" / "front" / "nginx.conf.template").read_text()
    paths = {
        path["path"]: path["backend"]["service"]["name"]
        for one in of_kind("full", "Ingress").values()
        for path in one["spec"]["rules"][0]["http"]["paths"]
    }
    [long] = re.findall(r"location ~ \^(\S+) \{\s+error_page 418", template)
    assert paths == {
        "/": "waybill-web",
        long: "waybill-web",
        "/connect/tunnel": "waybill-relay",
        r"/v0\.1[0-9]/(task/[^/]+/)?event_stream$": "waybill-events",
    }


def test_nothing_but_the_services_own_pods_and_the_ingress_reaches_the_relay() -> None:
    policies = of_kind("full", "NetworkPolicy")
    assert policies.keys() == ROLES.keys()
    assert [role for role, one in policies.items() if not one["spec"]["ingress"]] == ["migrate", "worker"]
    [rule] = policies["relay"]["spec"]["ingress"]
    [web] = policies["web"]["spec"]["ingress"]
    assert rule["from"] == [
        {"podSelector": {"matchLabels": {f"app.kubernetes.io/{key}": "waybill" for key in ("name", "instance")}}},
        *web["from"],
    ]


def test_the_schema_knows_each_value_and_each_secret() -> None:
    def compare(values: dict[str, Any], schema: dict[str, Any], at: str) -> None:
        if schema.get("additionalProperties") is not False or at in ("values.settings", "values.secret.files"):
            return
        assert values.keys() == schema["properties"].keys() - {"global"}, at
        for name, value in values.items():
            if isinstance(value, dict):
                compare(value, schema["properties"][name], f"{at}.{name}")

    compare(VALUES, SCHEMA, "values")
    jsonschema.Draft7Validator.check_schema(SCHEMA)
    secret, settings = SCHEMA["properties"]["secret"], SCHEMA["properties"]["settings"]
    assert secret["properties"]["files"]["properties"].keys() == {*SECRETS}
    refused = {name for name, schema in settings["properties"].items() if schema is False}
    [data] = (one["data"] for one in of_kind("default", "ConfigMap").values())
    assert refused >= {*SECRETS} | {name for name in data if name.startswith("WAYBILL_") and not name.endswith("_FILE")}


WRONG: list[tuple[str, dict[str, Any]]] = [
    ("web.replicas", {"web": {"replicas": 0}}),
    ("web.replica", {"web": {"replica": 2}}),
    ("web.stopSeconds", {"web": {"stopSeconds": 5}}),
    ("worker.stopSeconds", {"worker": {"stopSeconds": 10}}),
    ("worker.memory", {"worker": {"memory": "1g"}}),
    ("settings", {"settings": {"WAYBILL_SECRET_KEY": "x" * 40}}),
    ("settings", {"settings": {"WAYBILL_MAIL": "smtp://me:secret@mail.example.org"}}),
    ("settings", {"settings": {"WAYBILL_PORT": "80"}}),
    ("settings", {"settings": {"DATABASE_URL": "postgresql://me:secret@db.example.org/waybill"}}),
    ("settings.WAYBILL_AUDIT_DAYS", {"settings": {"WAYBILL_AUDIT_DAYS": 365}}),
    ("secret.files", {"secret": {"files": {"WAYBILL_RATE_LIMIT": "rate"}}}),
    ("secret.files", {"secret": {"files": {"WAYBILL_MAIL": "../mail"}}}),
    ("publicUrl", {"publicUrl": "data.example.org"}),
    ("publicUrl", {"ingress": {"enabled": True, "tlsSecret": "tls"}, "frontServers": ["10.0.0.0/8"]}),
    ("frontServers", {"ingress": {"enabled": True, "tlsSecret": "tls"}, "publicUrl": "https://data.example.org"}),
    ("tlsSecret", {"ingress": {"enabled": True}, "publicUrl": "https://a.example.org", "frontServers": ["10.0.0.0/8"]}),
    ("claim", {"shell": {"enabled": True}}),
    ("monitors", {"serviceMonitor": {"enabled": True}}),
    ("migrate.deadlineSeconds", {"migrate": {"deadlineSeconds": 60}}),
    ("postgresql", {"postgresql": {"enabled": True}}),
]


def _with(values: dict[str, Any], more: dict[str, Any]) -> dict[str, Any]:
    both = {
        name: _with(values[name], value) for name, value in more.items() if isinstance(value, dict) and name in values
    }
    return values | more | both


@each_case
def test_the_schema_accepts_the_values_of_the_tests(case: str) -> None:
    jsonschema.validate(_with(VALUES, yaml.safe_load(chart.values_of(case).read_text())), SCHEMA)


@pytest.mark.parametrize(("name", "given"), WRONG)
def test_wrong_values_are_refused_by_their_names(name: str, given: dict[str, Any], tmp_path: Path) -> None:
    with pytest.raises(jsonschema.ValidationError) as refused:
        jsonschema.validate(_with(VALUES, given), SCHEMA)
    assert name.rpartition(".")[2] in str(refused.value.message) + refused.value.json_path


@needs_helm
def test_helm_refuses_wrong_values_with_their_names(tmp_path: Path) -> None:
    for name, given in WRONG:
        (tmp_path / "values.yaml").write_text(yaml.safe_dump(given))
        done = chart.helm("template", "waybill", chart.CHART, "--values", tmp_path / "values.yaml")
        assert done.returncode != 0, given
        assert name.rpartition(".")[2] in done.stderr, done.stderr
        assert "secret@" not in done.stderr


@needs_helm
@pytest.mark.parametrize("release", ["waybill", "7.data-at.example", "a" * 53])
def test_each_release_gets_names_that_services_may_have(release: str) -> None:
    done = chart.helm("template", release, chart.CHART, "--values", chart.values_of("full"))
    names = {one["metadata"]["name"] for one in yaml.safe_load_all(done.stdout) if one}
    assert len(names) >= len(ROLES)
    assert [name for name in names if not re.fullmatch(r"[a-z]([-a-z0-9]{0,61}[a-z0-9])?", name)] == []


@needs_helm
def test_texts_in_settings_reach_the_programs_as_they_are(tmp_path: Path) -> None:
    """Kubernetes replaces $(NAME) in the variables of a Job, unless the dollar sign is doubled."""
    text = 'a "quoted" $(HOME): # {{ x }}'
    (tmp_path / "values.yaml").write_text(yaml.safe_dump({"settings": {"WAYBILL_DELEGATE_TO": text}}))
    done = chart.helm("template", "waybill", chart.CHART, "--values", tmp_path / "values.yaml")
    found = {one["kind"]: one for one in yaml.safe_load_all(done.stdout) if one}
    assert found["ConfigMap"]["data"]["WAYBILL_DELEGATE_TO"] == text
    [container] = found["Job"]["spec"]["template"]["spec"]["containers"]
    inline = {one["name"]: one["value"] for one in container["env"]}
    assert inline["WAYBILL_DELEGATE_TO"].replace("$$(", "$(") == text != inline["WAYBILL_DELEGATE_TO"]


def test_the_chart_has_the_version_of_the_service_and_is_packed_the_same_each_time(tmp_path: Path) -> None:
    version = tomllib.loads((CHECKOUT / "pyproject.toml").read_text())["project"]["version"]
    described = yaml.safe_load((chart.CHART / "Chart.yaml").read_text())
    assert described["version"] == described["appVersion"] == version
    archives = []
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        archives.append(pack(chart.CHART, version, tmp_path / name, 1_700_000_000))
    assert archives[0].name == f"waybill-{version}.tgz"
    assert archives[0].read_bytes() == archives[1].read_bytes()
    if chart.HELM is not None:
        done = chart.helm("template", "waybill", archives[0], "--namespace", "science")
        assert done.stdout == chart.rendered("default").read_text().partition("\n")[2]
