"""docker-compose.yml by the schema of its format and by our own rules, and the script that writes its secrets."""

from __future__ import annotations

import ipaddress
import json
import re
import shutil
import stat
import subprocess
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

from bench.drill.compose import commands
from deploy.web.gunicorn_conf import graceful_timeout
from transferapi.config import CHECKOUT, SECRETS, load

#: Of https://github.com/compose-spec/compose-spec (Apache-2.0).
SCHEMA = CHECKOUT / "tests" / "schemas" / "compose-spec.json"
SCRIPT = "deploy/compose-secrets.sh"
#: The commands of the page for another major version.
POSTGRES = ("postgres-dump", "postgres-restore", "postgres-start")
OURS = ("migrate", "web", "web2", "relay", "events", "shell", "worker", "operator")
#: The innermost of nested ones first.
_VARIABLE = re.compile(r"(?<!\$)\$\{(\w+)(?:(:?-|:[?+])([^{}]*))?\}")


def document(**env_file: str) -> dict[str, Any]:
    """docker-compose.yml with the variables of this `.env`, and the defaults of the others."""

    def value(found: re.Match[str]) -> str:
        name, how, default = found.groups()
        assert how != ":?" or env_file.get(name), f"{name} has to be given"
        given = env_file.get(name)
        if how == ":+":
            return default if given else ""
        return default or "" if given is None or (not given and how != "-") else given

    text = (CHECKOUT / "docker-compose.yml").read_text()
    while _VARIABLE.search(text):
        text = _VARIABLE.sub(value, text)
    found: dict[str, Any] = yaml.safe_load(text)
    return found


SERVICES: dict[str, dict[str, Any]] = document()["services"]
each_service = pytest.mark.parametrize("name", SERVICES)


def test_it_is_a_compose_file() -> None:
    schema = json.loads(SCHEMA.read_text())
    jsonschema.validate(document(), schema)
    wrong = document()
    wrong["services"]["web"]["mem_limits"] = "1g"
    with pytest.raises(jsonschema.ValidationError, match="mem_limits"):
        jsonschema.validate(wrong, schema)


@each_service
def test_each_service_has_few_rights(name: str) -> None:
    service = SERVICES[name]
    assert service["read_only"] is True
    assert service["cap_drop"] == ["ALL"]
    assert service["security_opt"] == ["no-new-privileges:true"]
    assert not service.get("privileged")
    # The entry points of these two images change their account; nothing of ours needs any.
    assert ("cap_add" in service) == (name in ("postgres", "front"))
    assert "SYS_ADMIN" not in service.get("cap_add", [])


@each_service
def test_each_service_has_limits(name: str) -> None:
    service = SERVICES[name]
    assert re.fullmatch(r"\d+[mg]", service["mem_limit"])
    assert 64 <= service["pids_limit"] <= 5000
    assert "cpus" in service or name == "migrate"
    assert set(service["logging"]["options"]) == {"max-size", "max-file"}
    assert service["ulimits"] == {"core": 0}
    assert document(**{f"{_prefix(name)}_MEMORY": "3g"})["services"][name]["mem_limit"] == "3g"


def _prefix(name: str) -> str:
    # The two web servers have one size.
    return name.upper() if name in ("postgres", "redis") else f"WAYBILL_{name.rstrip('2').upper()}"


@each_service
def test_no_service_has_a_secret_in_its_environment_or_command(name: str) -> None:
    """Names, numbers and addresses are given without a file; secrets are not."""
    given = {variable: "hunter2" for secret in SECRETS for variable in (secret, secret.removeprefix("WAYBILL_"))}
    # Some of several words may be in `.env`; with a password they are files.
    for may_be_plain in ("MAIL", "OAUTH_CLIENTS", "PROVIDERS", "SAML_KEY"):
        del given[f"WAYBILL_{may_be_plain}"]
    for address in ("DATABASE_URL", "REDIS_URL"):
        del given[address]
    service = document(**given, POSTGRES_PASSWORD="hunter2")["services"][name]
    assert "hunter2" not in json.dumps(service)


def test_every_secret_can_be_a_file() -> None:
    environment = SERVICES["web"]["environment"]
    plain = {"DATABASE_URL", "REDIS_URL"}
    assert [name for name in SECRETS if f"{name}_FILE" not in environment and name not in plain] == []


def test_a_client_of_redis_needs_the_password_and_has_few_rights() -> None:
    redis = SERVICES["redis"]
    rules = redis["command"][2].replace("$$", "$")
    assert re.search(r"user default on >%s ~\* &\* \+@all -@admin -@dangerous \+info", rules)
    assert "$(cat /run/secrets/redis_password)" in rules
    assert redis["user"] == "redis"


@pytest.mark.parametrize(
    ("name", "seconds"),
    [
        ("web", graceful_timeout),
        ("relay", 2),
        ("events", 3),
        ("shell", 2),
        ("worker", 15),
        ("postgres", 30),
        ("redis", 5),
    ],
)
def test_nobody_is_killed_while_it_stops(name: str, seconds: int) -> None:
    """seconds: that the role may need."""
    assert int(SERVICES[name]["stop_grace_period"].removesuffix("s")) >= seconds + 2


def test_our_own_database_and_redis_are_a_profile() -> None:
    assert [name for name, service in SERVICES.items() if service.get("profiles") == ["engines"]] == [
        "postgres",
        "redis",
    ]
    for name, service in SERVICES.items():
        for other, how in service.get("depends_on", {}).items():
            assert (how.get("required") is False) == (other in ("postgres", "redis")), (name, other)


def test_two_web_servers_are_behind_the_front_server_and_start_one_after_the_other() -> None:
    web, second = SERVICES["web"], SERVICES["web2"]
    front = SERVICES["front"]["environment"]
    addresses = [f"{one['networks']['front']['ipv4_address']}:8000" for one in (web, second)]
    assert [front["WAYBILL_WEB"], front["WAYBILL_WEB_SECOND"]] == addresses
    assert second["depends_on"] == {**web["depends_on"], "web": {"condition": "service_healthy"}}
    peers = [one["environment"].pop("WAYBILL_WEB_PEER") for one in document()["services"].values() if _is_web(one)]
    assert peers == addresses[::-1]
    # Else Compose replaces it with each of them, and refuses all requests meanwhile.
    assert "depends_on" not in SERVICES["front"]
    alone = {"depends_on", "networks", "environment"}
    assert {key: web[key] for key in web.keys() - alone} == {key: second[key] for key in second.keys() - alone}


def _is_web(service: dict[str, Any]) -> bool:
    return bool(service.get("command") == "waybill run web")


def test_each_service_has_an_address_of_its_own_in_the_network_of_the_front_server() -> None:
    found = document()
    [network] = found["networks"]["front"]["ipam"]["config"]
    inside = list(ipaddress.ip_network(network["subnet"]).hosts())
    fixed = [
        ipaddress.ip_address(one["networks"]["front"]["ipv4_address"])
        for one in found["services"].values()
        if "front" in one.get("networks", {})
    ]
    # Docker takes the first address itself.
    assert len(fixed) == len(set(fixed)) == 5
    assert set(fixed) <= set(inside[1:])


def test_the_front_server_is_asked_for_its_certificate_where_it_has_one() -> None:
    def address(**given: str) -> str:
        return str(document(**given)["services"]["web"]["environment"]["WAYBILL_FRONT_ADDRESS"])

    listens = f"{SERVICES['front']['networks']['front']['ipv4_address']}:8000"
    assert (address(), address(WAYBILL_FRONT_TLS="./tls")) == ("", listens)
    assert address(WAYBILL_FRONT_TLS="./tls", WAYBILL_FRONT_ADDRESS="") == ""
    assert address(WAYBILL_FRONT_ADDRESS="data.example.org:443") == "data.example.org:443"


def test_the_configuration_of_nginx_is_where_its_reload_looks_for_it() -> None:
    front = SERVICES["front"]
    assert "nginx -g" in front["command"][2]
    assert front["environment"]["NGINX_ENVSUBST_OUTPUT_DIR"] == "/etc/nginx"
    # It has a secret.
    assert front["tmpfs"] == ["/etc/nginx:mode=700,size=1m"]


def test_with_the_file_for_other_hosts_every_client_has_its_own_address() -> None:
    public = yaml.safe_load((CHECKOUT / "deploy/compose-public.yml").read_text().replace("!override", ""))
    schema = json.loads(SCHEMA.read_text())
    jsonschema.validate(public, schema)
    assert [one["enable_ipv6"] for one in public["networks"].values()] == [True, True]
    assert public["services"]["shell"]["environment"] == {"WAYBILL_SSH_HOST": "::"}
    network = public["networks"]["front"]
    first, second = (one["subnet"] for one in network["ipam"]["config"])
    assert first == document()["networks"]["front"]["ipam"]["config"][0]["subnet"]
    assert ipaddress.IPv6Network("fd00::/8").supernet_of(ipaddress.IPv6Network(second))  # RFC 4193
    front = SERVICES["front"]
    targets = {front["environment"][name] for name in ("WAYBILL_FRONT_LISTEN", "WAYBILL_FRONT_REDIRECT")}
    assert targets == {f"{front['hostname']}:{one.split(':')[1]}" for one in public["services"]["front"]["ports"]}


def test_servers_elsewhere_are_used_as_env_says() -> None:
    url, queue = "postgresql://me@db.example.org/waybill", "rediss://redis.example.org/0"
    given = document(DATABASE_URL=url, REDIS_URL=queue, WAYBILL_REDIS_PASSWORD_FILE="")["services"]["web"][
        "environment"
    ]
    assert (given["DATABASE_URL"], given["REDIS_URL"]) == (url, queue)
    assert given["WAYBILL_REDIS_PASSWORD_FILE"] is None
    assert given["WAYBILL_DATABASE_PASSWORD_FILE"] == "/run/secrets/database_password"


@each_service
def test_what_a_service_writes_has_a_place(name: str) -> None:
    service = SERVICES[name]
    targets = {text.split(":")[1] if ":" in text else text for text in service["volumes"]}
    assert "/tmp" in targets | set(service.get("tmpfs", []))
    if name in OURS:
        assert {"/etc/waybill", "/etc/grid-security/certificates"} <= targets


def test_the_relay_of_another_host_is_named_by_env() -> None:
    for given, ours, front in (({}, "relay:8003", "10.213.77.4:8003"), ({"WAYBILL_RELAY": "10.20.0.10:8003"}, "", "")):
        services = document(**given)["services"]
        for name in OURS:
            assert services[name]["environment"]["WAYBILL_RELAY"] == (ours or "10.20.0.10:8003")
        assert services["front"]["environment"]["WAYBILL_RELAY"] == (front or "10.20.0.10:8003")


def test_a_worker_of_another_host_needs_no_service_of_the_first_one() -> None:
    needed, waiting = set[str](), ["worker"]
    while waiting:
        for name, how in SERVICES[waiting.pop()].get("depends_on", {}).items():
            if how.get("required", True) and name not in needed:
                needed.add(name)
                waiting.append(name)
    assert needed == {"migrate"}


def test_the_number_of_workers_is_kept_by_every_command_of_the_pages() -> None:
    assert SERVICES["worker"]["scale"] == 1
    assert document(WAYBILL_WORKERS="4")["services"]["worker"]["scale"] == 4
    # `docker compose up` without --scale would end the workers that one with it has started.
    for page in ("compose.md", "upgrade.md", "drill.md"):
        assert not re.search(r"docker compose up [^`\n]*--scale", (CHECKOUT / "docs/operate" / page).read_text()), page


def test_another_major_version_of_postgresql_gets_another_volume_and_the_same_folder() -> None:
    lines = re.findall(r"^printf '(.*)' >> \.env$", commands("postgres-restore"), re.MULTILINE)
    given = dict(line.split("=") for line in lines[0].split("\\n") if line)
    assert given.keys() == {"POSTGRES_VERSION", "POSTGRES_VOLUME"}
    assert given["POSTGRES_VOLUME"] == f"postgres-{given['POSTGRES_VERSION']}"
    now, then = document(), document(**given)
    for found, version in ((now, "17"), (then, given["POSTGRES_VERSION"])):
        postgres = found["services"]["postgres"]
        assert postgres["image"] == f"postgres:{version}"
        [(volume, folder)] = [text.split(":") for text in postgres["volumes"]]
        assert volume in found["volumes"]
        # The image of version 18 has another one of its own, and refuses a volume at this place.
        assert folder == postgres["environment"]["PGDATA"]
    assert now["services"]["postgres"]["volumes"] != then["services"]["postgres"]["volumes"]
    # It would answer for the server that fills the volume, and ends then.
    assert "-h 127.0.0.1" in now["services"]["postgres"]["healthcheck"]["test"]


def test_commands_with_files_of_the_host_have_a_service_that_never_starts_by_itself() -> None:
    operator = SERVICES["operator"]
    assert operator["profiles"] == ["operator"]
    assert operator["restart"] == "no"
    assert {"./backups:/backups", "./backup-keys:/backup-keys"} <= set(operator["volumes"])
    # Its account is not that of the image.
    assert operator["environment"]["WAYBILL_HOME"].startswith("/tmp/")
    assert operator["environment"].keys() == SERVICES["migrate"]["environment"].keys() | {"WAYBILL_HOME"}
    # `run` takes the addresses of the service, and those of a running service are taken.
    assert "networks" not in operator


def test_the_commands_of_the_page_are_those_of_services_that_are_there() -> None:
    page = (CHECKOUT / "docs/operate/compose.md").read_text()
    options = r"(?:--?[\w-]+(?:[ =](?:\"[^\"]*\"|WAYBILL_\S+|worker=\d+))? |-v \"[^\"]*\" )*"
    for how, service in re.findall(rf"docker compose (run|exec) (?:\\\n\s+)?{options}(?:\\\n\s+{options})?(\w+)", page):
        assert service in SERVICES, (how, service)
        assert how == "exec" or service in ("operator", "migrate"), "a service with an address of its own may run"
    for part in ("backup", "restore", "release", "keys", "install-keys", "certificate", "vault-key", *POSTGRES):
        checked = subprocess.run(
            ["sh", "-n"], input=commands(part), capture_output=True, text=True, timeout=60, check=False
        )
        assert (checked.returncode, checked.stderr) == (0, "")
    assert "docker compose stop front web web2 worker relay events shell" in commands("restore")


def test_the_page_gives_the_keys_of_a_backup_to_the_files_that_compose_mounts(place: Path) -> None:
    write(place)
    files = place / "backup-keys/files"
    files.mkdir(parents=True)
    for name in ("secret-key", "front-secret", "vault-key", "oidc-key.pem", "mail"):
        (files / name).write_text(f"of the old host: {name}\n")
        (files / name).chmod(0o600)
    password = (place / "secrets/database-password").read_text()
    subprocess.run(["sh", "-euc", commands("install-keys")], cwd=place, check=True, timeout=60)
    for name in ("secret-key", "front-secret", "keys/vault-key", "keys/oidc-key.pem", "keys/mail"):
        file = place / "secrets" / name
        assert file.read_text() == f"of the old host: {file.name}\n"
        assert stat.S_IMODE(file.stat().st_mode) == 0o644
    assert (place / "secrets/database-password").read_text() == password
    assert not files.exists()


# ---- the script


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A checkout as far as the script sees it."""
    (tmp_path / "deploy").mkdir()
    shutil.copy(CHECKOUT / SCRIPT, tmp_path / SCRIPT)
    return tmp_path


def write(place: Path) -> list[str]:
    """Run the script; the files that it wrote."""
    done = subprocess.run(["sh", SCRIPT], cwd=place, capture_output=True, text=True, timeout=60, check=True)
    assert done.stderr == ""
    return done.stdout.split()


def test_the_script_writes_every_file_that_compose_mounts_and_the_service_accepts_them(place: Path) -> None:
    written = write(place)
    found = document()
    named = {one["file"].removeprefix("./") for one in found["secrets"].values()}
    environment = found["services"]["web"]["environment"]
    in_keys = {text.rpartition("/")[2] for text in environment.values() if str(text).startswith("/etc/waybill/")}
    assert set(written) == named | {f"secrets/keys/{name}" for name in in_keys}
    config = load(host_environment(environment, place))
    assert config.database_url is not None
    password = (place / "secrets/database-password").read_text().strip()
    assert config.database_url.value == f"postgresql://waybill:{password}@postgres:5432/waybill"
    assert None not in (config.secret_key, config.vault_key, config.oidc_key, config.front_secret, config.redis_url)


def host_environment(environment: dict[str, Any], place: Path) -> dict[str, str]:
    """The environment of a container, with the host's paths in place of the mounted ones."""

    def path(text: str) -> str:
        text = text.replace("/etc/waybill/", f"{place}/secrets/keys/")
        return re.sub("^/run/secrets/(.*)", lambda name: f"{place}/secrets/{name[1].replace('_', '-')}", text)

    return {name: path(str(text)) for name, text in environment.items() if text is not None}


def test_only_its_owner_gets_to_the_secrets_and_containers_can_read_them(place: Path) -> None:
    def mode(path: Path) -> int:
        return stat.S_IMODE(path.stat().st_mode)

    written = write(place)
    assert mode(place / "secrets") == 0o700
    assert mode(place / "secrets/keys") == 0o755
    assert {mode(place / name) for name in written} == {0o644}


def test_the_script_takes_over_an_older_env_file_and_changes_nothing_again(place: Path) -> None:
    (place / ".env").write_text("POSTGRES_PASSWORD='old one'\nWAYBILL_RATE_LIMIT=9\nREDIS_PASSWORD=older")
    write(place)
    before = {path: path.read_bytes() for path in place.rglob("*") if path.is_file()}
    assert before[place / "secrets/database-password"] == b"old one\n"
    assert before[place / "secrets/redis-password"] == b"older\n"
    assert before[place / ".env"].endswith(b"REDIS_PASSWORD=older\nCOMPOSE_PROFILES=engines\n")
    assert write(place) == []
    assert {path: path.read_bytes() for path in place.rglob("*") if path.is_file()} == before


def test_the_script_leaves_servers_elsewhere_alone(place: Path) -> None:
    (place / ".env").write_text("COMPOSE_PROFILES=\n")
    write(place)
    assert (place / ".env").read_text() == "COMPOSE_PROFILES=\n"
