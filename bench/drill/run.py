"""One fault in the middle of real transfers: what it cost, and whether all files and tasks are right after it."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from bench.drill.faults import ONE_FILE, Batch, Fault, Scale, Scene
from bench.drill.host import Host
from bench.drill.load import Load, Tree, digest, digests, submission, wait_done
from bench.drill.measure import (
    Prober,
    Sampler,
    longest_away,
    longest_stall,
    scattered_failures,
    submission_ids,
    takeover,
)

#: New submissions of the prober: one a second, for the longest fault.
SUBMISSIONS = 600
#: Seconds of good running before a fault, and after the first file that is settled after it.
BEFORE, AFTER = 3.0, 8.0
BEGIN_SECONDS, RECOVERY_SECONDS = 60.0, 240.0


@dataclass
class Outcome:
    """Seconds; None: not measured. problems: empty if nothing was lost, wrong or done twice."""

    fault: Fault
    words: str = ""
    stall: float = 0.0
    get_away: float = 0.0
    post_away: float = 0.0
    takeover: float | None = None
    failed: int = 0
    requests: int = 0
    #: Of these, outside of the longest time in which none was served.
    scattered: int = 0
    outside: int = 0
    files: int = 0
    #: Of a look: the result in words, in place of the files.
    found: str = ""
    notes: list[str] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)


def run_fault(host: Host, fault: Fault, tree: Tree, sent: dict[str, str], scale: Scale) -> Outcome:
    outcome = Outcome(fault, fault.words.format(scale=scale))
    label = f"{fault.name}-{time.time():.0f}"
    if fault.prepare:
        fault.prepare(host)
    host.wait_ready()
    documents = [
        submission(host, id_, ONE_FILE, f"/{label}-probe/{number:04d}", f"{label}-probe")
        for number, id_ in enumerate(submission_ids(SUBMISSIONS))
    ]
    load = Load(host, tree, sent, label)
    prober = Prober(host.api.url, host.api.connection["token"], documents, scale.rate)
    sampler = Sampler(host.connect, label)
    scene = Scene(host, sampler, label, scale)
    load.start()
    sampler.start()
    prober.start()
    begun = time.monotonic()
    try:
        wait_for(lambda: bool(sampler.samples) and sampler.samples[-1].settled > 0, BEGIN_SECONDS, "settled file")
        time.sleep(BEFORE)
        begun = time.monotonic()
        fault.act(scene)
        _recovered(sampler)
    except (TimeoutError, RuntimeError) as error:
        outcome.problems.append(str(error))
    finally:
        ended = time.monotonic()
        prober.stop()
        load.finish()
        sampler.stop()
    if fault.finish:
        fault.finish(host)
    _measure(outcome, scene, prober, (begun, ended))
    outcome.files = len(load.sent) * len(load.tasks)
    outcome.notes += scene.notes
    batches = [words for batch in scene.batches for words in _check_batch(host, batch)]
    outcome.problems += load.problems + _check_probes(host, prober, documents, sent) + batches
    return outcome


def wait_for(true: Callable[[], bool], seconds: float, what: str) -> None:
    """Raises TimeoutError."""
    until = time.monotonic() + seconds
    while not true():
        if time.monotonic() > until:
            raise TimeoutError(f"no {what} within {seconds:g} s")
        time.sleep(0.05)


def _recovered(sampler: Sampler) -> None:
    """Wait until a file is settled after now, and then some time more. Raises TimeoutError."""
    now, settled = time.monotonic(), sampler.samples[-1].settled
    wait_for(
        lambda: sampler.samples[-1].at > now and sampler.samples[-1].settled > settled,
        RECOVERY_SECONDS,
        "file settled after the fault",
    )
    time.sleep(AFTER)


def _measure(outcome: Outcome, scene: Scene, prober: Prober, times: tuple[float, float]) -> None:
    begun, ended = times
    samples = [sample for sample in scene.sampler.samples if sample.at >= begun - 1]
    gets, posts = ([one for one in many if one.begun >= begun] for many in (prober.gets, prober.posts))
    outcome.stall = longest_stall(samples)
    outcome.get_away, outcome.post_away = longest_away(gets, ended), longest_away(posts, ended)
    outcome.takeover = takeover(samples, scene.lost, scene.begun)
    outcome.requests = len(gets) + len(posts)
    outcome.failed = sum(not one.served for one in (*gets, *posts))
    found = [scattered_failures(many) for many in (gets, posts)]
    outcome.scattered, outcome.outside = (sum(numbers) for numbers in zip(*found, strict=True))


def _check_probes(host: Host, prober: Prober, documents: list[dict[str, object]], sent: dict[str, str]) -> list[str]:
    """Each submission that was answered is one task, which has succeeded, and its file is right."""
    problems, wanted = [], sent[ONE_FILE.removeprefix("/tree/")]
    for id_, tasks in prober.tasks.items():
        if len(tasks) != 1:
            problems.append(f"submission {id_} became {len(tasks)} tasks")
        for task in tasks:
            if (status := wait_done(host.api, task)) != "SUCCEEDED":
                problems.append(f"probe {task} is {status}")
    numbers = {str(document["submission_id"]): number for number, document in enumerate(documents)}
    for folder in {str(documents[0]["DATA"][0]["destination_path"]).split("/")[1]}:  # type: ignore[index]
        found = digests(host.folders[1] / folder)
        names = {f"{numbers[id_]:04d}" for id_ in prober.tasks}
        problems += [f"probe {name} is lost or wrong" for name in sorted(names) if found.get(name) != wanted]
    return problems


def _check_batch(host: Host, batch: Batch) -> list[str]:
    """The tasks that the fault has submitted: each file is there, with its content."""
    source, copies = host.folders[0] / batch.source.strip("/"), host.folders[1] / batch.folder.strip("/")
    statuses = [wait_done(api, task) for task, api in batch.tasks.items()]
    wanted, found = digest(source), digests(copies)
    shutil.rmtree(copies, ignore_errors=True)
    problems = [f"{batch.folder}/{name} is wrong" for name in found if found[name] != wanted]
    bad = [status for status in statuses if status != "SUCCEEDED"]
    if bad or len(found) != len(batch.tasks):
        problems.append(f"{batch.folder}: {len(found)} files of {len(batch.tasks)} tasks, {len(bad)} are {set(bad)}")
    return problems


def run_look(host: Host, fault: Fault) -> Outcome:
    """A row without transfers."""
    assert fault.look is not None
    outcome = Outcome(fault, fault.words)
    host.wait_ready()
    try:
        outcome.found = fault.look(host)
    except AssertionError as error:
        outcome.problems.append(str(error))
    return outcome
