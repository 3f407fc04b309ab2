"""The extender policy: what another server is asked, and what becomes of its answers and of its silence."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from muster.app.policies import build_tiers
from muster.engine.outside import NoAnswer
from muster.engine.profile import PolicyUse, Tier
from muster.engine.session import SessionOptions
from muster.engine.stages.groups import run_stages
from muster.model.errors import InvalidObjects
from muster.model.groups import GroupPhase
from muster.policies.extender import FAILURES_MOST
from tests.groups import group, node, pod, queue, session, snapshot

PREFIX = "http://127.0.0.1:9/x/"


class Server:
    """Answers by the last part of the address, if it knows that, and remembers what it was asked."""

    def __init__(self, **answers: Any) -> None:
        self.answers = answers
        self.asked: list[tuple[str, Mapping[str, Any]]] = []

    def ask(self, address: str, sent: Mapping[str, Any], timeout_s: float) -> Mapping[str, Any]:
        assert timeout_s == 0.1
        assert address.startswith(PREFIX)
        verb = address.removeprefix(PREFIX)
        self.asked.append((verb, sent))
        answer = self.answers.get(verb)
        if answer is None:
            raise NoAnswer("it is down")
        return answer(sent) if callable(answer) else answer


def run(server: Server, stages: list[str], *groups: Any, pods: Any = (), **arguments: Any) -> Any:
    """A session with gang and the extender over two nodes."""
    given = {"extender.urlPrefix": PREFIX, "extender.httpTimeout": "100ms", **arguments}
    made = snapshot([node("n1"), node("n2")], [queue()], groups, pods)
    use = PolicyUse(name="extender", arguments=given)
    one = session(made, "gang", use, options=SessionOptions(ask=server.ask))
    run_stages(one, stages)
    one.close()
    return one


def only(name: str) -> Any:
    return lambda sent: {} if sent["node"]["Name"] == name else {"status": "not here", "code": 1}


ALONE = (group("a"),)
POD = (pod("p", "a", cpu=1, limits={"cpu": 1000}),)


@pytest.mark.parametrize(
    ("answers", "arguments", "want"),
    [
        pytest.param({"fit": only("n2")}, {"extender.predicateVerb": "fit"}, "n2", id="it lets in"),
        pytest.param({}, {"extender.predicateVerb": "fit"}, "", id="it is down"),
        pytest.param(
            {}, {"extender.predicateVerb": "fit", "extender.ignorable": True}, "n1", id="it is down and ignorable"
        ),
        pytest.param(
            {},
            {"extender.predicateVerb": "fit", "extender.managedResources": ["nvidia.com/gpu"]},
            "n1",
            id="it does not manage what the pod asks for",
        ),
        pytest.param(
            {"like": {"nodeScore": {"n2": 5}}}, {"extender.prioritizeVerb": "like"}, "n2", id="it likes one more"
        ),
        pytest.param(
            {"like": {"nodeScore": {"n2": 5}, "errorMessage": "no"}},
            {"extender.prioritizeVerb": "like"},
            "n1",
            id="it likes one more and says that it is mistaken",
        ),
        pytest.param({"like": {"nodeScore": "much"}}, {"extender.prioritizeVerb": "like"}, "n1", id="it says nonsense"),
        pytest.param({"full": {"overused": True}}, {"extender.queueOverusedVerb": "full"}, "", id="the queue is full"),
        pytest.param({"full": {}}, {"extender.queueOverusedVerb": "full"}, "n1", id="the queue is not full"),
        pytest.param({"go": {"status": True}}, {"extender.jobReadyVerb": "go"}, "n1", id="the group is ready"),
        pytest.param({"go": {"status": False}}, {"extender.jobReadyVerb": "go"}, "", id="the group is not ready"),
        pytest.param({}, {"extender.onSessionOpenVerb": "o", "extender.predicateVerb": "fit"}, "n1", id="never told"),
    ],
)
def test_where_a_pod_goes(answers, arguments, want):
    one = run(Server(**answers), ["allocate"], *ALONE, pods=POD, **arguments)
    assert one.outcome.binds.get("ns/p", "") == want


@pytest.mark.parametrize(
    ("answer", "ignorable", "want"),
    [
        pytest.param({"status": 1}, False, GroupPhase.INQUEUE, id="permit"),
        pytest.param({"status": 0}, False, GroupPhase.INQUEUE, id="abstain"),
        pytest.param({"status": -1}, False, GroupPhase.PENDING, id="reject"),
        pytest.param({"status": "?"}, False, GroupPhase.PENDING, id="nonsense"),
        pytest.param(None, False, GroupPhase.PENDING, id="down"),
        pytest.param(None, True, GroupPhase.INQUEUE, id="down and ignorable"),
    ],
)
def test_who_is_taken_up(answer, ignorable, want):
    waiting = group("a", phase=GroupPhase.PENDING, resources_least={"cpu": 1000})
    verbs = {"extender.jobEnqueueableVerb": "may", "extender.ignorable": ignorable}
    one = run(Server(may=answer), ["enqueue"], waiting, **verbs)
    assert one.groups["ns/a"].phase is want


@pytest.mark.parametrize(
    ("answer", "want"),
    [
        pytest.param({"status": 1, "victims": [{"UID": "low-1"}]}, ["ns/low-1"], id="names one"),
        pytest.param({"status": 1, "victims": []}, [], id="names nobody"),
        pytest.param({"status": 1, "victims": [{"UID": "stranger"}, 7]}, [], id="names strangers"),
        pytest.param(None, [], id="down"),
    ],
)
def test_who_leaves(answer, want):
    groups = (group("low", minimum=0, priority=1), group("high", priority=9))
    pods = [pod("low-0", "low", cpu=4, node="n1"), pod("low-1", "low", cpu=4, node="n2"), pod("high-0", "high", cpu=4)]
    one = run(Server(who=answer), ["preempt"], *groups, pods=pods, **{"extender.preemptableVerb": "who"})
    assert one.outcome.evicted == want


def test_what_is_told():
    server = Server(o={}, c={}, e={}, a={}, d={})
    verbs = {"onSessionOpenVerb": "o", "onSessionCloseVerb": "c", "jobEnqueuedVerb": "e"}
    verbs |= {"allocateFuncVerb": "a", "deallocateFuncVerb": "d"}
    taken_up = group("a", phase=GroupPhase.PENDING, minimum=2)
    pods = [pod("p-0", "a", cpu=4), pod("p-1", "a", cpu=9)]
    run(
        server, ["enqueue", "allocate"], taken_up, pods=pods, **{f"extender.{key}": verb for key, verb in verbs.items()}
    )
    assert [verb for verb, _ in server.asked] == ["o", "e", "a", "d", "c"]  # the gang is not whole: its place is undone
    opened, placed = server.asked[0][1], server.asked[2][1]
    assert (list(opened["Nodes"]), list(opened["Jobs"]), list(opened["Queues"])) == (["n1", "n2"], ["ns/a"], ["q"])
    assert placed["task"]["Resreq"] == {"MilliCPU": 4000, "Memory": 0, "ScalarResources": {"pods": 1}}
    assert placed["task"]["Pod"]["metadata"]["name"] == "p-0"


def test_a_dead_server_costs_a_few_questions():
    server = Server()
    many = [pod(f"p-{index}", "a", cpu=1) for index in range(20)]
    one = run(server, ["allocate"], group("a", minimum=0), pods=many, **{"extender.predicateVerb": "fit"})
    assert len(server.asked) == FAILURES_MOST
    assert one.outcome.troubles == {f"{PREFIX}fit": "it is down"}


@pytest.mark.parametrize(
    ("arguments", "want"),
    [
        pytest.param({"extender.urlPrefix": "file:///etc/passwd"}, "address is 'file:", id="no address of HTTP"),
        pytest.param({"extender.urlPrefix": PREFIX, "extender.httpTimeout": "soon"}, "timeout is 'soon'", id="no time"),
        pytest.param({"extender.urlPrefix": PREFIX, "extender.httpTimeout": "2h"}, "at most 1m", id="an hour"),
        pytest.param({"extender.predicate": "p"}, "is no argument of extender", id="no such verb"),
    ],
)
def test_mistakes_are_named(arguments, want):
    with pytest.raises(InvalidObjects) as caught:
        build_tiers((Tier((PolicyUse(name="extender", arguments=arguments),)),))
    assert want in str(caught.value)
