"""What the agent keeps on its machine: grants, the folder of each container's share, CDI files. Used by `service`.

Every file is written whole under another name first, so that nobody ever reads half of one.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from muster.agent.plugin.containers import LIMITS
from muster.agent.plugin.grants import Grant, Whose
from muster.engine.devices_text import read_shares, shares_text
from muster.model.errors import InvalidObject
from muster.model.fields import Fields

_GRANTS = "grants.json"
_FOR_ALL = 0o755
_SHARED = 0o1777  # processes of any user share it, and none takes away another's file


@dataclass(frozen=True, slots=True)
class Kept:
    """A grant, and the name of its folder."""

    grant: Grant
    key: str


class Disk:
    """The agent's folders."""

    def __init__(self, state: Path, cdi: Path | None = None) -> None:
        self._state = state
        self._cdi = cdi
        (state / "shares").mkdir(parents=True, exist_ok=True)
        turns = state / "turns"
        turns.mkdir(exist_ok=True)
        turns.chmod(_SHARED)
        if cdi is not None:
            cdi.mkdir(parents=True, exist_ok=True)

    # Shares ----------------------------------------------------------------------------------------------------------

    def make_folder(self, key: str) -> None:
        """The folders that a container with this share is given."""
        folder = self._state / "shares" / key
        for name, mode in (("read", _FOR_ALL), ("work", _SHARED)):
            (folder / name).mkdir(parents=True, exist_ok=True)
            (folder / name).chmod(mode)

    def write_limits(self, key: str, text: str) -> None:
        """Have a container see these limits, from now on."""
        self.make_folder(key)
        _write(self._state / "shares" / key / "read" / LIMITS, text)

    def write_cdi(self, key: str, text: str) -> None:
        """Tell the container's runtime what a share is."""
        assert self._cdi is not None, "an agent that uses CDI has a folder for it"
        _write(self._cdi / f"muster-{key}.json", text)

    def remove(self, key: str) -> None:
        """Forget a share."""
        shutil.rmtree(self._state / "shares" / key, ignore_errors=True)
        if self._cdi is not None:
            (self._cdi / f"muster-{key}.json").unlink(missing_ok=True)

    # Grants ----------------------------------------------------------------------------------------------------------

    def keep(self, kept: Iterable[Kept]) -> None:
        """Write down what was granted."""
        _write(self._state / _GRANTS, json.dumps({"grants": [_object(one) for one in kept]}))

    def kept(self) -> list[Kept]:
        """What was granted before this process began; nothing where that cannot be read."""
        try:
            given = Fields.of(json.loads((self._state / _GRANTS).read_text()))
            return [_read(one) for one in given.children("grants")]
        except (OSError, ValueError, InvalidObject):
            return []


def _object(one: Kept) -> dict[str, Any]:
    grant = one.grant
    return {
        "key": one.key,
        "uid": grant.whose.uid,
        "container": grant.whose.container,
        "pod": grant.pod,
        "shares": shares_text(grant.shares),
        "isInit": grant.is_init,
        "isOptedOut": grant.is_opted_out,
        "settings": dict(grant.settings),
    }


def _read(given: Fields) -> Kept:
    grant = Grant(
        whose=Whose(given.text("uid"), given.text("container")),
        pod=given.text("pod"),
        shares=read_shares(given.text("shares"), given.at("shares")),
        is_init=given.flag("isInit"),
        is_opted_out=given.flag("isOptedOut"),
        settings=given.text_map("settings"),
    )
    return Kept(grant, given.text("key"))


def _write(path: Path, text: str) -> None:
    half = path.with_name(f".{path.name}.{os.getpid()}")
    half.write_text(text)
    os.replace(half, path)
