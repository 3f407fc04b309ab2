"""The plugin and a kubelet of our own: guesses that are wrong, forged annotations, restarts, cards that come and go."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

pytest.importorskip("grpc", reason="the extra muster[node] is not installed")

from muster.agent.plugin import messages
from muster.dialects.hami.node_lock import BINDERS, BY_COUNT, BY_UID, FENCE, Binder, Binders, binders_text
from muster.vendors.nvidia import ALLOCATED
from tests.agent.plugin.kubelet import Refused
from tests.agent.plugin.world import WAIT_S, AgentWorld, cards, container

ONE = container("c", 1, 4_000, 20)


def told(tmp_path, mode, story, **more):
    async def tell():
        async with AgentWorld(tmp_path, mode, **more) as world:
            await story(world)

    asyncio.run(tell())


async def begun(world, name):
    """The pod admitted and started; what its container sees."""
    answer = await world.kubelet.admit(name, "c", world.asking(name)[0][1])
    await world.kubelet.prepare(name, "c")
    return world.seen(answer)


@pytest.mark.parametrize("mode", [BY_UID, BY_COUNT])
def test_a_container_sees_its_share(tmp_path, mode):
    async def story(world):
        name = world.place(ONE)
        assert await begun(world, name) == world.wanted(name, "c")
        assert world.around.whole == ["uid-1"]

    told(tmp_path, mode, story)


def test_who_comes_first_gets_its_own_by_uid_whatever_the_order(tmp_path):
    async def story(world):
        first, second = world.place(ONE), world.place(container("c", 1, 7_000, 20))
        assert world.wanted(first, "c") != world.wanted(second, "c")
        assert await begun(world, second) == world.wanted(second, "c")
        assert await begun(world, first) == world.wanted(first, "c")

    told(tmp_path, BY_UID, story)


def test_a_pod_that_was_taken_for_another_does_not_start_with_the_others_cards(tmp_path):
    async def story(world):
        first, second = world.place(container("c", 1, 7_000, 20)), world.place(container("c", 1, 6_000, 20))
        assert world.wanted(first, "c")[0] != world.wanted(second, "c")[0]
        with pytest.raises(Refused, match="another pod's cards"):
            await begun(world, second)
        world.end(second)
        assert await begun(world, first) == world.wanted(first, "c")

    told(tmp_path, BY_COUNT, story)


def test_pods_on_the_same_card_are_told_apart_by_the_file_of_limits(tmp_path):
    async def story(world):
        first, second = world.place(ONE), world.place(container("c", 1, 3_000, 10))
        assert world.wanted(first, "c")[0] == world.wanted(second, "c")[0]
        answers = {name: await world.kubelet.admit(name, "c", 1) for name in (second, first)}
        assert not any(key.startswith("CUDA_DEVICE_MEMORY_LIMIT") for key in answers[second]["envs"])
        for name, answer in answers.items():
            await world.kubelet.prepare(name, "c")
            assert world.seen(answer) == world.wanted(name, "c")

    told(tmp_path, BY_COUNT, story, devices=cards(1))


def test_a_container_that_starts_again_has_what_it_had_even_after_the_agent_is_new(tmp_path):
    async def story(world):
        name = world.place(ONE)
        answer = await world.kubelet.admit(name, "c", 1)
        await world.kubelet.prepare(name, "c")
        before = world.seen(answer)
        # Whoever writes on a pod that runs changes nothing.
        world.pod(name)["metadata"]["annotations"][ALLOCATED] = "GPU-3,NVIDIA,4000,20:;"
        await world.end_agent()
        world.begin_agent()
        await world.socket.settle()
        await world.known()
        await world.kubelet.prepare(name, "c")
        assert world.seen(answer) == before

    told(tmp_path, BY_UID, story)


def test_the_plugin_comes_back_when_the_kubelet_was_restarted(tmp_path):
    async def story(world):
        name = world.place(ONE)
        await begun(world, name)
        for number in range(3):
            await world.kubelet.restart()
            await world.socket.settle()
            await world.known()
            assert world.socket.registrations == number + 2
        assert await begun(world, world.place(ONE))
        await world.kubelet.prepare(name, "c")

    told(tmp_path, BY_UID, story)


def test_the_plugin_waits_for_a_kubelet_that_is_not_there(tmp_path):
    async def story(world):
        await world.kubelet.stop()
        (world.plugins / "kubelet.sock").unlink(missing_ok=True)
        await world.socket.settle()
        await world.kubelet.start()
        await world.socket.settle()
        await world.known()

    told(tmp_path, BY_UID, story)


def test_sick_cards_and_cards_that_leave_are_told_and_come_back(tmp_path):
    async def until(world, want):
        async with asyncio.timeout(WAIT_S):
            while {
                one.partition("::")[0] for one, health in world.kubelet.devices.items() if health == "Healthy"
            } != want:
                await asyncio.sleep(0.01)

    async def story(world):
        two = cards(2)
        await until(world, {"GPU-0", "GPU-1"})
        world.service.show((replace(two[0], is_healthy=False), two[1]))
        await until(world, {"GPU-1"})
        world.service.show(two[:1])
        await until(world, {"GPU-0"})
        assert not world.service.show(two[:1])
        world.service.show(two)
        await until(world, {"GPU-0", "GPU-1"})

    told(tmp_path, BY_UID, story, devices=cards(2))


# Hostile -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", [BY_UID, BY_COUNT])
@pytest.mark.parametrize(
    "text",
    [
        pytest.param("GPU-0,NVIDIA,9000,20:;", id="more memory"),
        pytest.param("GPU-0,NVIDIA,4000,100:;", id="more cores"),
        pytest.param("GPU-9,NVIDIA,4000,20:;", id="a card that is not here"),
        pytest.param("GPU-0,NVIDIA,4000,20:GPU-1,NVIDIA,4000,20:;", id="more cards"),
        pytest.param("GPU-0,NVIDIA,-1,20:;", id="less than nothing"),
        pytest.param("GPU-0;;;;", id="no share"),
        pytest.param("x" * 2_000_000, id="a text without end"),
    ],
)
def test_forged_annotations_get_nothing(tmp_path, mode, text):
    async def story(world):
        name = world.place(ONE)
        world.pod(name)["metadata"]["annotations"][ALLOCATED] = text
        with pytest.raises(Refused):
            await begun(world, name)
        assert not world.service.grants.given

    told(tmp_path, mode, story)


def test_what_others_have_is_not_given_again_however_often_it_is_claimed(tmp_path):
    async def story(world):
        first = world.place(container("c", 1, 7_000, 20))
        await begun(world, first)
        [card], _ = world.wanted(first, "c")
        second = world.place(container("c", 1, 7_000, 20))
        world.pod(second)["metadata"]["annotations"][ALLOCATED] = f"{card},NVIDIA,7000,20:;"
        with pytest.raises(Refused, match="has not so much left"):
            await begun(world, second)

    told(tmp_path, BY_UID, story)


def test_a_pod_of_another_uid_or_node_gets_nothing_in_the_name_of_the_first(tmp_path):
    async def story(world):
        name = world.place(ONE)
        await begun(world, name)
        pod = world.around.pods.pop("uid-1")
        pod = {
            **pod,
            "metadata": {**pod["metadata"], "uid": "uid-foreign"},
            "spec": {**pod["spec"], "nodeName": "other"},
        }
        world.around.pods["uid-foreign"] = pod
        with pytest.raises(Refused, match="not on this node"):
            await world.kubelet.prepare(name, "c")
        assert not world.service.grants.given  # the first is gone, and what it had is free

    told(tmp_path, BY_UID, story)


@pytest.mark.parametrize(
    ("fence", "is_served"),
    [pytest.param("2", True, id="its own number"), pytest.param("1", False, id="overtaken")],
)
def test_a_pod_whose_bind_was_overtaken_gets_nothing(tmp_path, fence, is_served):
    async def story(world):
        name = world.place(ONE)
        world.pod(name)["metadata"]["annotations"][FENCE] = fence
        entry = Binder(namespace="ns", name="p1", uid="uid-1", fence=2, since_s=0)
        world.around.annotations[BINDERS] = binders_text(Binders(fence=2, binders=(entry,)))
        if is_served:
            assert await begun(world, name)
        else:
            with pytest.raises(Refused, match="overtaken"):
                await begun(world, name)

    told(tmp_path, BY_UID, story)


@pytest.mark.parametrize(
    "ids", [[], ["GPU-0"], ["GPU-9::0"], ["GPU-0::10"], ["GPU-0::x"], ["GPU-0::1", "GPU-0::1"], ["::"]]
)
@pytest.mark.parametrize("method", ["Allocate", "PreStartContainer"])
def test_devices_that_the_plugin_never_told_of_are_refused(tmp_path, ids, method):
    async def story(world):
        world.place(ONE)
        request = {"container_requests": [{"ids": ids}]} if method == "Allocate" else {"ids": ids}
        tables = (
            (messages.ALLOCATE, messages.ALLOCATED) if method == "Allocate" else (messages.PRE_START, messages.EMPTY)
        )
        with pytest.raises(Refused, match="no device"):
            await world.kubelet.call(method, request, *tables)

    told(tmp_path, BY_UID, story)


def test_messages_that_are_none_do_not_end_the_plugin(tmp_path):
    async def story(world):
        for junk in (
            b"\xff" * 40,
            b"\x0a\xff\xff\xff\xff\x0f",
            b"\x0a\x05ab",
            b"\x08",
        ):
            ask = world.kubelet._channel.unary_unary(f"/{messages.PLUGIN}/Allocate")
            with pytest.raises(Exception):  # noqa: B017
                await ask(junk, timeout=60)
        assert await begun(world, world.place(ONE))

    told(tmp_path, BY_UID, story)


def test_a_container_that_opts_out_is_left_alone_and_one_that_unsets_its_variables_is_not(tmp_path):
    async def story(world):
        name = world.place(container("c", 1, 4_000, 20, CUDA_DISABLE_CONTROL="true"))
        await world.kubelet.admit(name, "c", 1)
        await world.kubelet.prepare(name, "c")
        [file] = (tmp_path / "cdi").iterdir()
        assert "ld.so.preload" not in file.read_text()
        # A pod that says otherwise in its own variables: the file wins, and it cannot be written by the container.
        other = world.place(container("c", 1, 4_000, 20, MUSTER_LIMITS="", CUDA_DEVICE_MEMORY_LIMIT_0="99999m"))
        assert await begun(world, other) == world.wanted(other, "c")

    told(tmp_path, BY_UID, story)
