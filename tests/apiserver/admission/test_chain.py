"""What new objects get from the state of others: priorities, addresses, ports."""

from __future__ import annotations

from random import Random

import msgspec
import pytest

from muster.apiserver.admission import Admission
from muster.apiserver.admission.services import NODE_PORTS, SERVICES
from muster.apiserver.statuses import Problem
from muster.store.clock import VirtualClock
from muster.store.memory import MemoryStore
from muster.store.records import Key
from tests.apiserver.definitions.servers import Here


def put(store: MemoryStore, key: Key, item: dict) -> None:
    uid = str(store.revision)
    store.write(lambda write: write.put(key, uid=uid, value=msgspec.json.encode(item)))


@pytest.fixture
def store():
    return MemoryStore(VirtualClock(0))


@pytest.fixture
def admission(store):
    return Admission(store, Random(1))


def service(**spec) -> dict:
    return {"metadata": {"name": "s"}, "spec": {"ports": [{"port": 80}], **spec}}


def test_a_pod_has_the_priority_of_its_class(store, admission):
    put(store, Key("priorityclasses.scheduling.k8s.io", "", "high"), {"metadata": {"name": "high"}, "value": 100})
    pod = {"metadata": {"name": "p"}, "spec": {"priorityClassName": "high"}}
    assert admission.complete_new("pods", pod)["spec"]["priority"] == 100
    with pytest.raises(Problem) as refused:
        admission.complete_new("pods", {"metadata": {"name": "p"}, "spec": {"priorityClassName": "none"}})
    assert refused.value.code == 403
    changed = {"metadata": {"name": "high"}, "value": 200}
    store.write(
        lambda write: write.put(
            Key("priorityclasses.scheduling.k8s.io", "", "high"), uid="0", value=msgspec.json.encode(changed)
        )
    )
    assert admission.complete_new("pods", pod)["spec"]["priority"] == 200


def test_each_service_has_an_address_of_its_own(admission):
    made = [admission.complete_new("services", service())["spec"] for _ in range(500)]
    addresses = {one["clusterIP"] for one in made}
    assert len(addresses) == 500
    assert all(one["clusterIPs"] == [one["clusterIP"]] for one in made)
    assert all(address in map(str, SERVICES) for address in list(addresses)[:3])


def test_an_address_that_is_used_is_not_given(store):
    used = [str(address) for address in SERVICES][:-2]
    put(store, Key("services", "n", "all"), {"spec": {"clusterIPs": used}})
    made = Admission(store, Random(1)).complete_new("services", service())
    assert made["spec"]["clusterIP"] == str(SERVICES[-2])


@pytest.mark.parametrize(
    "spec", [{"clusterIP": "None"}, {"type": "ExternalName"}, {"clusterIP": "10.96.0.7"}, {"clusterIPs": ["10.96.0.7"]}]
)
def test_some_services_need_no_address(admission, spec):
    given = service(**spec)
    assert admission.complete_new("services", given) == given


def test_node_ports(admission):
    given = service(type="NodePort", ports=[{"port": 1}, {"port": 2, "nodePort": 30_001}, {"port": 3}])
    made = admission.complete_new("services", given)
    first, second, third = (port["nodePort"] for port in made["spec"]["ports"])
    assert second == 30_001
    assert len({first, second, third}) == 3
    assert {first, third} <= set(NODE_PORTS)
    again = admission.complete("services", given, made)
    assert again["spec"]["ports"] == made["spec"]["ports"], "what it has it keeps"
    assert "clusterIP" not in again["spec"], "that is carried over by the rules of the kind"
    without = service(type="LoadBalancer", allocateLoadBalancerNodePorts=False)
    assert "nodePort" not in admission.complete_new("services", without)["spec"]["ports"][0]


def test_node_ports_that_are_used_up_are_said_to_be(store, admission):
    ports = [{"port": number, "nodePort": number} for number in NODE_PORTS]
    put(store, Key("services", "default", "all"), {"metadata": {"name": "all"}, "spec": {"ports": ports[1:]}})
    last = admission.complete_new("services", service(type="NodePort"))
    assert last["spec"]["ports"][0]["nodePort"] == NODE_PORTS.start
    again = admission.complete_new("services", service(type="NodePort"))  # the first was promised, and never written
    assert again["spec"]["ports"] == last["spec"]["ports"]
    put(store, Key("services", "default", "last"), {"metadata": {"name": "last"}, "spec": {"ports": ports[:1]}})
    with pytest.raises(Problem) as refused:
        admission.complete_new("services", service(type="NodePort"))
    assert (refused.value.code, refused.value.reason) == (500, "InternalError")
    assert "failed to allocate a nodePort: range is full" in refused.value.message


@pytest.mark.parametrize(
    ("spec", "problem"),
    [
        ({"clusterIP": "10.0.0.7"}, "is not in the valid range. The range of valid IPs is 10.96.0.0/16"),
        ({"clusterIP": "10.96.7.7"}, "provided IP is already allocated"),
        ({"type": "NodePort", "ports": [{"port": 1, "nodePort": 80}]}, "The range of valid ports is 30000-32767"),
        ({"type": "NodePort", "ports": [{"port": 1, "nodePort": 30007}]}, "provided port is already allocated"),
        ({"type": "NodePort", "ports": [{"port": 1, "nodePort": 30007, "protocol": "UDP"}]}, ""),
        ({"clusterIP": "10.96.7.8"}, ""),
    ],
)
def test_a_choice_of_ones_own_has_to_be_free(spec, problem):
    here = Here()
    services = "/api/v1/namespaces/default/services"
    first = service(type="NodePort", clusterIP="10.96.7.7", ports=[{"port": 1, "nodePort": 30007}])
    assert here.request("POST", services, first).status == 201
    answer = here.request("POST", services, {"metadata": {"name": "other"}, "spec": {"ports": [{"port": 1}], **spec}})
    here.close()
    assert answer.status == (422 if problem else 201)
    assert problem in answer.json.get("message", "")
