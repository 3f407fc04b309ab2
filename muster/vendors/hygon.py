"""Hygon's DCUs: shared by memory and cores. Found by `app` through VENDOR."""

from __future__ import annotations

from muster.engine.contracts import DeviceResources, Vendor, VendorSettings
from muster.engine.devices_vendor import Family, named, plain_vendor
from muster.model.device import WHOLE_CORES

RESOURCES = DeviceResources(count="hygon.com/dcunum", memory="hygon.com/dcumem", cores="hygon.com/dcucores")


def vendor(resources: DeviceResources) -> Vendor:
    """Hygon's record under an administrator's names."""
    return plain_vendor(
        Family(
            name="DCU",
            resources=resources,
            register="hami.io/node-dcu-register",
            is_register_json=False,
            to_allocate="hami.io/dcu-devices-to-allocate",
            allocated="hami.io/dcu-devices-allocated",
            use_uuid="hygon.com/use-gpuuuid",
            avoid_uuid="hygon.com/nouse-gpuuuid",
            use_model="hygon.com/use-dcutype",
            avoid_model="hygon.com/nouse-dcutype",
            default_cores=WHOLE_CORES,
        )
    )


VENDOR = vendor(RESOURCES)
SETTINGS = VendorSettings(name="hygon", read=lambda given: (vendor(named(given.child("hygon"), RESOURCES)),))
