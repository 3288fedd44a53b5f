"""Requests wait for a thread in turn: by network, then by credential, then in order of arrival."""

from __future__ import annotations

from collections import defaultdict
from concurrent.futures import ThreadPoolExecutor

from hypothesis import given
from hypothesis import strategies as st

from deploy.web.fair_queue import FairQueue

Client = tuple[str, int]
CLIENTS = st.tuples(st.sampled_from(["a", "b", "c"]), st.integers(0, 3))


def filled(clients: list[Client], most: int = 1, most_of_network: int = 1000) -> FairQueue[tuple[str, int, int]]:
    """Each request is its client with the number of its arrival."""
    queue: FairQueue[tuple[str, int, int]] = FairQueue(most, most_of_network)
    for number, (network, credential) in enumerate(clients):
        queue.put(network, credential, (network, credential, number))
    return queue


def drained(queue: FairQueue[tuple[str, int, int]]) -> list[tuple[str, int, int]]:
    """Take all entries, as one thread does."""
    taken = []
    while (one := queue.take()) is not None:
        taken.append(one)
        queue.done(one[0], one[1])
    return taken


def test_a_flood_of_one_credential_waits_behind_itself() -> None:
    queue = filled([("a", 1)] * 100 + [("a", 2)])
    assert [credential for _, credential, _ in drained(queue)[:3]] == [1, 2, 1]


def test_a_flood_without_credentials_waits_behind_itself() -> None:
    queue = filled([("a", 0)] * 100 + [("a", 7)] * 3)
    assert [credential for _, credential, _ in drained(queue)[:7]] == [0, 7, 0, 7, 0, 7, 0]


def test_invented_credentials_get_the_turns_of_one_network() -> None:
    queue = filled([("a", number) for number in range(100)] + [("b", 1)] * 3)
    assert [network for network, _, _ in drained(queue)[:7]] == ["a", "b", "a", "b", "a", "b", "a"]


def test_a_client_has_at_most_so_many_requests_in_threads() -> None:
    queue = filled([("a", 1)] * 5 + [("a", 2)], most=2)
    taken = [queue.take() for _ in range(4)]
    assert taken == [("a", 1, 0), ("a", 2, 5), ("a", 1, 1), None]
    assert queue.done("a", 2)
    assert queue.take() is None
    assert queue.done("a", 1)
    assert queue.take() == ("a", 1, 2)


def test_all_clients_of_a_network_have_at_most_so_many_requests_in_threads() -> None:
    queue = filled([("a", number) for number in range(5)] + [("b", 1)], most=2, most_of_network=3)
    assert [queue.take() for _ in range(5)] == [("a", 0, 0), ("b", 1, 5), ("a", 1, 1), ("a", 2, 2), None]
    assert not queue.done("b", 1)
    assert queue.take() is None
    # Another client of the network takes the place.
    assert queue.done("a", 1)
    assert queue.take() == ("a", 3, 3)
    assert queue.take() is None


@given(st.lists(CLIENTS, max_size=60), st.data())
def test_no_bound_is_ever_exceeded_and_none_leaves_a_thread_idle(clients: list[Client], data: st.DataObject) -> None:
    """Each done is followed by a take where it returns true, as the web server does it: so all are served."""
    queue = filled(clients, most=2, most_of_network=3)
    busy, served = [one for _ in clients if (one := queue.take()) is not None], 0
    while busy:
        for network in "abc":
            of_network = [credential for found, credential, _ in busy if found == network]
            assert len(of_network) <= 3
            assert all(of_network.count(credential) <= 2 for credential in of_network)
        network, credential, _ = busy.pop(data.draw(st.integers(0, len(busy) - 1)))
        served += 1
        if queue.done(network, credential) and (another := queue.take()) is not None:
            busy.append(another)
    assert served == len(clients)


def test_a_thread_that_waits_for_its_client_is_not_counted() -> None:
    queue = filled([("a", 1)] * 3)
    assert queue.take() == ("a", 1, 0)
    assert queue.done("a", 1)  # the thread begins to wait
    assert queue.take() == ("a", 1, 1)
    queue.again("a", 1)  # and goes on: the client has one thread too many
    assert queue.done("a", 1)
    assert queue.take() is None
    assert queue.done("a", 1)
    assert queue.take() == ("a", 1, 2)


def test_what_arrives_later_takes_its_turn_too() -> None:
    queue = filled([("a", 1), ("a", 1), ("a", 1)])
    assert queue.take() == ("a", 1, 0)
    queue.done("a", 1)
    queue.put("a", 2, ("a", 2, 3))
    queue.put("b", 1, ("b", 1, 4))
    assert drained(queue) == [("a", 1, 1), ("b", 1, 4), ("a", 2, 3), ("a", 1, 2)]


@given(st.lists(CLIENTS, max_size=60), st.data())
def test_what_was_removed_is_not_taken_and_all_others_are(clients: list[Client], data: st.DataObject) -> None:
    queue = filled(clients)
    waiting = [(network, credential, number) for number, (network, credential) in enumerate(clients)]
    removed = data.draw(st.sets(st.sampled_from(waiting))) if waiting else set()
    for one in removed:
        assert queue.remove(one[0], one[1], one)
        assert not queue.remove(one[0], one[1], one)
    assert sorted(drained(queue)) == sorted(set(waiting) - removed)


def test_what_a_thread_has_cannot_be_removed() -> None:
    queue = filled([("a", 1)])
    assert queue.take() == ("a", 1, 0)
    assert not queue.remove("a", 1, ("a", 1, 0))
    assert not queue.done("a", 1)


@given(st.lists(CLIENTS, max_size=60))
def test_every_request_is_taken_once_and_those_of_a_client_in_order(clients: list[Client]) -> None:
    taken = drained(filled(clients))
    assert sorted(number for *_, number in taken) == list(range(len(clients)))
    numbers = defaultdict(list)
    for network, credential, number in taken:
        numbers[network, credential].append(number)
    assert all(found == sorted(found) for found in numbers.values())


@given(st.lists(CLIENTS, max_size=60))
def test_nobody_is_passed_over_twice_by_the_same(clients: list[Client]) -> None:
    """Between two turns of a network each network that waits has one, and so have credentials within a network."""
    taken = [(network, credential) for network, credential, _ in drained(filled(clients))]
    assert_in_turn([network for network, _ in taken])
    for network in {network for network, _ in taken}:
        assert_in_turn([credential for other, credential in taken if other == network])


def assert_in_turn(names: list[object]) -> None:
    """All wait from the beginning, so whoever still has a turn later has one between any two turns of another."""
    last: dict[object, int] = {}
    for at, name in enumerate(names):
        if name in last:
            assert set(names[at + 1 :]) <= {name, *names[last[name] + 1 : at]}
        last[name] = at


def test_many_threads_lose_nothing_and_take_nothing_twice() -> None:
    queue: FairQueue[int] = FairQueue(4, 6)

    def work(start: int) -> list[int]:
        found = []
        for number in range(start, start + 500):
            queue.put(str(number % 3), number % 5, number)
            one = queue.take()
            if one is not None:
                found.append(one)
                queue.done(str(one % 3), one % 5)
        return found

    with ThreadPoolExecutor(4) as pool:
        found = [one for part in pool.map(work, range(0, 2000, 500)) for one in part]
    while (one := queue.take()) is not None:
        found.append(one)
        queue.done(str(one % 3), one % 5)
    assert sorted(found) == list(range(2000))
