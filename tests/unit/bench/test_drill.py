"""The figures of the drill are those of the requests and samples that they are made of, and a missed bar is said."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
import yaml

from bench.drill import __main__ as drill
from bench.drill import commits
from bench.drill.__main__ import chosen
from bench.drill.embedded import EmbeddedHost
from bench.drill.faults import FAULTS, Scale
from bench.drill.load import Tree, differences
from bench.drill.looks import IN_CONTAINERS, IN_IMAGE, no_secrets
from bench.drill.measure import Request, Sample, Sampler, longest_away, longest_stall, scattered_failures, takeover
from bench.drill.report import missed, table
from bench.drill.run import Outcome

WEB = next(fault for fault in FAULTS if fault.name == "web")
UPGRADE = next(fault for fault in FAULTS if fault.name == "upgrade")


def requests(*statuses: int, each: float = 0.01) -> list[Request]:
    """One every 0.1 s."""
    return [Request(number / 10, number / 10 + each, status) for number, status in enumerate(statuses)]


def samples(*counts: int, active: int = 1) -> list[Sample]:
    """One every second."""
    return [Sample(float(number), count, active, {}) for number, count in enumerate(counts)]


def test_the_api_is_away_from_the_first_request_that_fails_to_the_next_that_is_served() -> None:
    assert longest_away(requests(200, 0, 503, 200, 200, 0, 200), 0.7) == pytest.approx(0.2)
    assert longest_away(requests(200, 200), 0.2) == 0.0


def test_an_api_that_never_answers_again_is_away_to_the_end() -> None:
    assert longest_away(requests(200, 0, 0), 9.1) == pytest.approx(9.0)


def test_an_answer_that_comes_too_late_does_not_count_as_served() -> None:
    assert longest_away(requests(200, 200, 200, each=6.0), 10.0) == pytest.approx(10.0)


def test_requests_are_judged_in_the_order_in_which_they_were_sent() -> None:
    late_first = list(reversed(requests(200, 0, 200, 200)))
    assert longest_away(late_first, 0.4) == pytest.approx(0.1)


def test_a_stall_is_the_longest_time_without_a_settled_file() -> None:
    assert longest_stall(samples(1, 2, 2, 2, 2, 3, 3, 4)) == 3.0


def test_no_stall_is_counted_while_there_is_no_work() -> None:
    assert longest_stall(samples(5, 5, 5, 5, active=0)) == 0.0


def test_samples_that_are_missing_while_the_database_is_away_count_as_a_stall() -> None:
    before, after = Sample(0.0, 7, 1, {}), Sample(30.0, 7, 1, {})
    assert longest_stall([before, after, Sample(30.1, 8, 1, {})]) == 30.0
    assert longest_stall([before, Sample(30.0, 8, 1, {})]) == 30.0


def test_a_takeover_ends_with_the_last_task_that_another_lease_holds() -> None:
    seen = [
        Sample(1.0, 0, 2, {"a": ("one", 4), "b": ("one", 2)}),
        Sample(2.0, 0, 2, {"a": ("two", 5), "b": ("one", 2)}),
        Sample(3.0, 0, 2, {"a": ("two", 5), "b": ("one", 3)}),
    ]
    assert takeover(seen, {"a": ("one", 4), "b": ("one", 2)}, 0.5) == 2.5
    assert takeover(seen, {}, 0.5) is None
    assert takeover(seen, {"c": ("one", 1)}, 0.5) is None


def test_a_takeover_between_two_samples_is_seen_by_the_epoch() -> None:
    seen = [Sample(1.0, 0, 1, {"a": ("one", 4)}, {"a": 4}), Sample(2.0, 1, 0, {}, {"a": 5})]
    assert takeover(seen, {"a": ("one", 4)}, 0.5) == 1.5
    assert takeover([Sample(2.0, 1, 0, {}, {"a": 4})], {"a": ("one", 4)}, 0.5) is None


def test_the_worker_that_is_killed_has_a_task_that_does_not_end_at_that_moment() -> None:
    sampler = Sampler(lambda: pytest.fail("no database"), "label")
    long, short = ("one", 4), ("two", 1)
    sampler.samples = [Sample(number / 10, 0, 2, {"a": long, f"s{number // 3}": short}) for number in range(20)]
    assert sampler.lasting() == {"a": long}


def test_files_that_are_wrong_lost_or_too_many_are_named() -> None:
    assert differences({"a": "1", "b": "2"}, {"a": "1", "b": "2"}) == []
    found = " ".join(differences({"a": "1", "b": "2"}, {"a": "9", "c": "3"}))
    assert "1 wrong: ['a']" in found
    assert "1 lost: ['b']" in found
    assert "1 too many: ['c']" in found


def test_a_missed_bar_is_in_the_table() -> None:
    good, bad = Outcome(WEB, "web", get_away=1.9, files=3), Outcome(WEB, "web", get_away=0.1, post_away=2.1, files=3)
    assert missed(good) == []
    assert missed(bad) == ["API"]
    assert "over the bar: API" in table("The drill", [bad])
    assert "over the bar" not in table("The drill", [good])


def test_a_row_in_which_more_than_one_request_in_twenty_fails_misses_its_bar() -> None:
    """An API that refuses every second request is never away for long: 116 of 242 failed in a row that passed."""
    flapping = requests(*(200, 503) * 20)
    assert longest_away(flapping, 4.0) < 0.2
    assert scattered_failures(flapping) == (19, 39)
    assert missed(Outcome(WEB, "web", failed=116, requests=242)) == ["failed requests"]
    assert missed(Outcome(WEB, "web", failed=12, requests=242)) == []
    assert "5% failed" in table("The drill", [Outcome(WEB, "web", failed=13, requests=242)])


def test_requests_that_fail_while_the_fault_has_the_api_away_do_not_count() -> None:
    [restart] = [fault for fault in FAULTS if fault.name == "postgres-restarted"]
    one_time = requests(*(200,) * 60, *(503,) * 30, *(200,) * 60)
    assert scattered_failures(one_time) == (0, 120)
    assert missed(Outcome(restart, failed=30, requests=150, scattered=0, outside=120)) == []
    assert missed(Outcome(restart, failed=40, requests=150, scattered=10, outside=120)) == ["failed requests"]
    assert scattered_failures([]) == (0, 0)


def test_one_failed_request_of_an_upgrade_misses_its_bar() -> None:
    assert missed(Outcome(UPGRADE, "upgrade", failed=1, requests=900)) == ["failed requests"]


def test_a_wrong_file_is_below_the_table() -> None:
    assert "- **web**: 1 wrong: ['a']" in table("The drill", [Outcome(WEB, "web", problems=["1 wrong: ['a']"])])


def test_faults_are_chosen_by_name_in_the_order_of_the_table() -> None:
    assert [fault.name for fault in chosen("web,worker")] == ["worker", "web"]
    assert len(chosen("")) == len(FAULTS)
    with pytest.raises(ValueError, match="no such fault: wob"):
        chosen("wob")


def test_a_bar_for_the_takeover_is_missed_where_nobody_took_a_task_over() -> None:
    scale = next(fault for fault in FAULTS if fault.name == "scale")
    assert missed(Outcome(scale, takeover=4.9)) == []
    assert missed(Outcome(scale, takeover=5.1)) == ["takeover"]
    assert missed(Outcome(scale, takeover=None)) == ["no takeover"]
    assert "over the bar: no takeover" in table("The drill", [Outcome(scale, "scale")])


def test_a_row_without_transfers_has_its_finding_and_no_figures() -> None:
    secrets = next(fault for fault in FAULTS if fault.name == "secrets")
    [row] = table("The drill", [Outcome(secrets, "secrets", found="none of 9")]).splitlines()[4:]
    assert row == "| secrets |  |  |  |  |  | none of 9 |"


def test_the_output_of_a_program_is_one_line_below_the_table() -> None:
    lines = table("The drill", [Outcome(WEB, "web", problems=["docker: status 1\n| a |\n" + "x" * 900])]).splitlines()
    assert [line[:20] for line in lines[5:]] == ["", "- **web**: ... " + "x" * 5]
    assert len(lines[-1]) < 450


def test_a_fault_that_breaks_off_is_a_line_of_the_table_and_the_host_is_mended(
    capsys: pytest.CaptureFixture[str],
) -> None:
    mended = []

    class Broken(EmbeddedHost):
        def __init__(self) -> None:
            pass

        def wait_ready(self) -> None:
            raise KeyError("nothing answers")

        def mend(self) -> None:
            mended.append(True)
            raise RuntimeError("not even that")

    outcome = drill.tried(Broken(), WEB, Tree("tree", 1, 0), {}, Scale())
    assert mended == [True]
    assert outcome.problems == [
        "not tried to the end: KeyError('nothing answers')",
        "not mended: RuntimeError('not even that')",
    ]
    assert "Traceback" in capsys.readouterr().err


class Shown(EmbeddedHost):
    """An image with this text, and one container that shows that one."""

    def __init__(self, folder: Path, image: str, container: str) -> None:
        (folder / "layer.tar").write_text(image)
        self.folder, self.container = folder, container

    def secrets(self) -> dict[str, str]:
        return {"canary": "5f0c96b1d2aa47e8"}

    def image(self) -> Path:
        return self.folder

    def shown(self) -> dict[str, str]:
        return {"docker inspect": self.container}


def test_a_secret_in_an_image_or_a_container_is_named_with_its_place(tmp_path: Path) -> None:
    image, container = f"...{IN_IMAGE}...", f"{IN_CONTAINERS}=/etc/waybill/vault-key"
    assert no_secrets(Shown(tmp_path, image, container)).startswith("none of 1 secrets")
    with pytest.raises(AssertionError, match=r"canary \(plain\) in .*layer\.tar"):
        no_secrets(Shown(tmp_path, image + "\nDRILL_CANARY=5f0c96b1d2aa47e8", container))
    with pytest.raises(AssertionError, match=r"canary \(base64\) in docker inspect"):
        no_secrets(Shown(tmp_path, image, container + " NWYwYzk2YjFkMmFhNDdlOA=="))


def test_a_search_that_cannot_see_the_content_proves_nothing(tmp_path: Path) -> None:
    with pytest.raises(AssertionError, match="the control of the image"):
        no_secrets(Shown(tmp_path, "compressed", IN_CONTAINERS))
    with pytest.raises(AssertionError, match="the control of the containers"):
        no_secrets(Shown(tmp_path, IN_IMAGE, "{}"))


# ---- the older commit


def commit(repository: Path, files: dict[str, str]) -> str:
    for name, text in files.items():
        (repository / name).parent.mkdir(parents=True, exist_ok=True)
        (repository / name).write_text(text)
    commits.git(repository, "add", "-A")
    commits.git(repository, "-c", "user.name=a", "-c", "user.email=a@b", "commit", "-q", "-m", "x")
    return commits.git(repository, "rev-parse", "HEAD")


def compose(*variables: str) -> dict[str, str]:
    environment = dict.fromkeys(variables, "x")
    web = {"image": "waybill", "command": "waybill run web", "environment": environment}
    return {"docker-compose.yml": yaml.safe_dump({"services": {"web": web}}, indent=2)}


def migration(number: int, effect: str) -> dict[str, str]:
    return {f"app/migrations/{number:04d}_x.py": f"class Migration:\n    effect = {effect!r}\n".replace("'", '"')}


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    subprocess.run(["git", "init", "-q", str(tmp_path)], check=True)
    return tmp_path


def test_the_drill_upgrades_over_as_many_expansions_as_there_are(repository: Path) -> None:
    commit(repository, compose("WAYBILL_A") | {"app/migrations/__init__.py": ""})
    commit(repository, {"deploy/upgrade/plan.py": ""} | migration(1, "expand"))
    contracted = commit(repository, migration(2, "contract"))
    commit(repository, migration(3, "expand"))
    commit(repository, migration(4, "expand") | compose("WAYBILL_A", "WAYBILL_NEW"))
    head = commit(repository, {"code.py": ""})
    assert commits.older(repository) == contracted
    assert commits.migrations_since(contracted, repository) == ["0003_x", "0004_x"]
    unknown = commits.without_new_variables(head, contracted, repository)
    assert unknown == "services:\n  web:\n    environment:\n      WAYBILL_NEW: !reset null\n"
    assert commits.without_new_variables(head, head, repository) == "{}\n"


def test_there_is_no_older_commit_before_versions_that_know_expansions(repository: Path) -> None:
    commit(repository, compose("WAYBILL_A"))
    commit(repository, {"deploy/upgrade/plan.py": ""})
    assert commits.older(repository) == ""


def test_a_changed_migration_is_no_step(repository: Path) -> None:
    commit(repository, compose("WAYBILL_A") | {"deploy/upgrade/plan.py": ""} | migration(1, "expand"))
    commit(repository, {"app/migrations/0001_x.py": 'class Migration:\n    effect = "expand"\n    more = 1\n'})
    assert commits.older(repository) == ""
