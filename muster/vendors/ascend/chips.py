"""Huawei's Ascend chips: how much memory each has, and the templates into which it can be cut."""

from __future__ import annotations

from dataclasses import dataclass, replace

from muster.engine.contracts import DeviceResources
from muster.engine.devices_vendor import Family, named
from muster.model.device import AMOUNT_MAX
from muster.model.fields import Fields


@dataclass(frozen=True, slots=True)
class Template:
    """One way to cut a part off a chip."""

    name: str
    memory_mib: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Chip:
    """One kind of chip, which is a vendor of its own, as an administrator can set it."""

    name: str
    resources: DeviceResources
    memory_mib: int  # of a whole chip as containers get it
    capacity_mib: int  # the most that a container may ask for
    templates: tuple[Template, ...] = ()
    is_paired: bool = False  # two chips are one module: several are given out in pairs only
    is_super_pod: bool = False  # pods ask for whole modules as well
    is_soft: bool = False  # nodes share chips by memory and cores, without templates, unless they say otherwise
    hides_chips: bool = False  # containers that ask for no chip are shown none
    runtime_class: str = ""

    @property
    def family(self) -> Family:
        """The names that all chips have alike."""
        return Family(
            name=self.name,
            resources=self.resources,
            register=f"hami.io/node-register-{self.name}",
            to_allocate=f"hami.io/{self.name}-devices-to-allocate",
            allocated=f"hami.io/{self.name}-devices-allocated",
            use_uuid=f"hami.io/use-{self.name}-uuid",
            avoid_uuid=f"hami.io/no-use-{self.name}-uuid",
        )

    def cut(self, memory_mib: int) -> Template | None:
        """The smallest part with so much memory; the whole chip has no template's name. `None`: there is none."""
        ranked = sorted(self.templates, key=lambda template: template.memory_mib)
        for template in ranked:
            if memory_mib <= template.memory_mib:
                return template
        return Template("", self.memory_mib) if memory_mib <= self.capacity_mib else None


def chip(name: str, memory_mib: int, *, capacity_mib: int = 0, **templates: int) -> Chip:
    """A chip under HAMi's names; templates by their memory."""
    resource = f"huawei.com/{name}"
    return Chip(
        name=name,
        resources=DeviceResources(count=resource, memory=f"{resource}-memory", cores=f"{resource}-core"),
        memory_mib=memory_mib,
        capacity_mib=capacity_mib or memory_mib,
        templates=tuple(Template(*one) for one in templates.items()),
        is_paired=name == PAIRED,
    )


PAIRED = "Ascend910C"
CHIPS = (
    chip("Ascend910A", 32768, vir02=2184, vir04=4369, vir08=8738, vir16=17476),
    chip("Ascend910B2", 65536, vir03_1c_8g=8192, vir06_1c_16g=16384, vir12_3c_32g=32768),
    chip("Ascend910B3", 65536, vir05_1c_16g=16384, vir10_3c_32g=32768),
    chip("Ascend910B4", 32768, vir05_1c_8g=8192, vir10_3c_16g=16384),
    chip(PAIRED, 65536, vir05_1c_16g=16384, vir10_3c_32g=32768),
    chip("Ascend310P", 21527, capacity_mib=24576, vir01=3072, vir02=6144, vir04=12288),
)


def read_chip(item: Fields) -> Chip:
    """A chip as an administrator describes it."""
    name = item.text("commonWord")
    if not name:
        raise item.error("commonWord", "is missing", "name the chip, such as Ascend910B3")
    memory_mib = item.integer("memoryAllocatable", least=1, most=AMOUNT_MAX)
    if not memory_mib:
        raise item.error("memoryAllocatable", "is missing", "give the MiB of a whole chip")
    plain = chip(name, memory_mib)
    return replace(
        plain,
        resources=named(item, plain.resources, count="resourceName"),
        capacity_mib=item.integer("memoryCapacity", memory_mib, least=memory_mib, most=AMOUNT_MAX),
        templates=tuple(_read_template(one) for one in item.children("templates")),
        is_super_pod=item.flag("superPod"),
        is_soft=item.flag("hamiVnpuCore"),
        hides_chips=item.flag("overwriteEnv"),
        runtime_class=item.text("runtimeClassName"),
    )


def _read_template(item: Fields) -> Template:
    name = item.text("name")
    if not name:
        raise item.error("name", "is missing", "name the template, such as vir04")
    memory_mib = item.integer("memory", least=1, most=AMOUNT_MAX)
    if not memory_mib:
        raise item.error("memory", "is missing", "give the MiB that it takes")
    return Template(name, memory_mib)
