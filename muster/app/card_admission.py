"""What a configuration says of new pods that ask for cards. Called for the embedded server and for the webhooks."""

from __future__ import annotations

from muster.app.config import CardSettings
from muster.app.vendor_settings import vendors_by
from muster.dialects.hami.settings import HamiSettings
from muster.dialects.hami.webhook import Webhook


def card_webhook(settings: CardSettings, scheduler: str) -> Webhook | None:
    """What completes new pods that ask for cards, where that is wanted; raises `InvalidObject`."""
    if not settings.completes_pods:
        return None
    chosen = scheduler if settings.scheduler is None else settings.scheduler
    known = vendors_by(settings.device_config, "cards.deviceConfig")
    return Webhook(vendors=known, settings=HamiSettings(scheduler=chosen))
