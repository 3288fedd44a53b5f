"""Each alert rule fires where it must, and rests where it must, as promtool computes it."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.unit.deploy.test_monitoring import BESIDE, FIRING, FOLDER, RULES

PROMTOOL = shutil.which("promtool")


def trial(alert: str, value: str, minutes: int, fires: bool) -> dict[str, Any]:
    series = [(FIRING[alert][0], value), *BESIDE.get(alert, [])]
    expression = f'count(ALERTS{{alertname="{alert}",alertstate="firing"}})'
    samples = [{"labels": "{}", "value": 1}] if fires else []
    return {
        "interval": "1m",
        "input_series": [{"series": name, "values": values} for name, values in series],
        "promql_expr_test": [{"expr": expression, "eval_time": f"{minutes}m", "exp_samples": samples}],
    }


@pytest.mark.skipif(PROMTOOL is None, reason="promtool is missing (Debian package prometheus)")
def test_promtool_sees_each_rule_fire_and_rest(tmp_path: Path) -> None:
    """Each rule alone: promtool asks all rules of a file in each minute of each trial."""
    assert PROMTOOL
    tries = []
    for rule in RULES:
        alert = rule["alert"]
        _, firing, quiet, minutes = FIRING[alert]
        rules, tried = tmp_path / f"{alert}.rules.yml", tmp_path / f"{alert}.yml"
        rules.write_text(yaml.safe_dump({"groups": [{"name": alert, "rules": [rule]}]}))
        trials = [trial(alert, firing, minutes, True), trial(alert, quiet, minutes, False)]
        tried.write_text(yaml.safe_dump({"rule_files": [str(rules)], "tests": trials}))
        tries.append(str(tried))
    for words in (["check", "rules", str(FOLDER / "alerts.yml")], ["test", "rules", *tries]):
        done = subprocess.run([PROMTOOL, *words], capture_output=True, text=True, timeout=180)
        assert done.returncode == 0, done.stdout + done.stderr
