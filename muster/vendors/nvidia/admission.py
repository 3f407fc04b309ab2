"""What becomes of a container that asks for NVIDIA's cards when its pod is admitted: defaults and environment."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from muster.engine.contracts import AdmittedContainer
from muster.engine.devices_vendor import WHOLE_PERCENT, asked, with_amounts
from muster.model.errors import InvalidObject
from muster.model.fields import Fields
from muster.model.quantity import Quantity
from muster.vendors.nvidia.settings import DEFAULT_CORE_POLICY, NvidiaSettings

PRIORITY_VARIABLE = "CUDA_TASK_PRIORITY"
CORE_POLICY_VARIABLE = "GPU_CORE_UTILIZATION_POLICY"
VISIBLE_VARIABLE = "NVIDIA_VISIBLE_DEVICES"
NO_CARDS = "none"
ALL_CORES = "100"


def admit(container: Fields, _annotations: Mapping[str, str], settings: NvidiaSettings) -> AdmittedContainer:
    """The container with its defaults filled in; it is not changed where it stands."""
    _check_percent(container, settings)
    limits = container.child("resources").quantities("limits")
    added = _added_limits(container, limits, settings)
    is_asking = settings.count_resource in {**limits, **added}
    variables = dict(_variables(limits, is_asking, settings))
    return AdmittedContainer(
        _changed(container, added, variables),
        is_asking,
        settings.runtime_class if is_asking else "",
    )


def _check_percent(container: Fields, settings: NvidiaSettings) -> None:
    percent = asked(container, settings.memory_percent_resource)
    if percent is None:
        return
    whole = percent.scaled(0, WHOLE_PERCENT + 1)
    if percent.is_negative or percent.exponent < 0 or whole > WHOLE_PERCENT:
        path = f"{container.at('resources.limits')}[{settings.memory_percent_resource}]"
        raise InvalidObject(path, f"is {percent}", f"give a whole number from 0 to {WHOLE_PERCENT}")


def _added_limits(container: Fields, limits: Mapping[str, Quantity], settings: NvidiaSettings) -> dict[str, str]:
    """A count where only a part of a card is named, and all cores where a whole card is."""
    added: dict[str, str] = {}
    parts = (settings.memory_resource, settings.cores_resource, settings.memory_percent_resource)
    has_part = any(part in limits for part in parts)
    if settings.count_resource not in limits and has_part and settings.default_count > 0:
        added[settings.count_resource] = str(settings.default_count)
    has_count = bool(added) or asked(container, settings.count_resource) is not None
    if has_count and asked(container, settings.cores_resource) is None and _is_whole_card(container, settings):
        added[settings.cores_resource] = ALL_CORES
    return added


def _is_whole_card(container: Fields, settings: NvidiaSettings) -> bool:
    percent = asked(container, settings.memory_percent_resource)
    if percent is not None:
        return percent.scaled(0, WHOLE_PERCENT + 1) == WHOLE_PERCENT
    return asked(container, settings.memory_resource) is None


def _variables(limits: Mapping[str, Quantity], is_asking: bool, settings: NvidiaSettings) -> list[tuple[str, str]]:
    """The environment that the container needs."""
    result = []
    if settings.priority_resource in limits:
        result.append((PRIORITY_VARIABLE, str(limits[settings.priority_resource])))
    # HAMi gives the policy to every container of a pod that it looks at, whether that asks for a card or not.
    if settings.core_policy not in ("", DEFAULT_CORE_POLICY):
        result.append((CORE_POLICY_VARIABLE, settings.core_policy))
    if not is_asking and settings.hides_cards:
        result.append((VISIBLE_VARIABLE, NO_CARDS))
    return result


def _changed(container: Fields, limits: Mapping[str, str], variables: Mapping[str, str]) -> Mapping[str, Any]:
    changed = with_amounts(container, limits, {})
    if variables:
        added = [{"name": name, "value": value} for name, value in variables.items()]
        changed["env"] = [*container.items("env"), *added]
    return changed
