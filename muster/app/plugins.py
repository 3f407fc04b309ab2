"""Discovery of plugins: every module of a plugin folder defines the folder's constant. Called once, at start.

A module that holds several plugins defines the constant's plural instead, as a tuple.

Modules of other packages take part through entry points of the group `muster.<folder>`, and only those that are named:
what is merely installed is not loaded. A name given twice, or one that nobody has, stops the start.
"""

from __future__ import annotations

import pkgutil
from collections.abc import Iterable, Iterator
from importlib import import_module
from typing import Protocol, TypeVar

from muster.engine.contracts import Integration, Vendor
from muster.model.texts import nearest


class PluginError(Exception):
    """A plugin that cannot be used; it is for whoever installed it to mend."""


class Named(Protocol):
    """What every plugin's record has."""

    @property
    def name(self) -> str: ...


Record = TypeVar("Record", bound=Named)


def discover(folder: str, constant: str, record: type[Record], outside: Iterable[str] = ()) -> dict[str, Record]:
    """The plugins of a folder of this package and the named ones of other packages, by their own names."""
    found: dict[str, Record] = {}
    for module, given in (*_inside(folder, constant), *_outside(folder, tuple(outside))):
        for value in given if isinstance(given, tuple) else (given,):
            if not isinstance(value, record):
                raise PluginError(f"{module} does not define {constant} as {record.__name__}")
            if value.name in found:
                raise PluginError(f"{module} is a second plugin by the name {value.name}")
            found[value.name] = value
    return found


def integrations(outside: Iterable[str] = ()) -> dict[str, Integration]:
    """The kinds of job that are known."""
    return discover("jobs", "INTEGRATION", Integration, outside)


def vendors(outside: Iterable[str] = ()) -> dict[str, Vendor]:
    """The makers of cards that are known."""
    return discover("vendors", "VENDOR", Vendor, outside)


def known_hint(name: object, known: Iterable[str]) -> str:
    """For a name that nobody has: the one that was most likely meant, and all there are."""
    names = sorted(known)
    close = nearest(name, names) if isinstance(name, str) else ""
    listed = f"known are {', '.join(names)}" if names else "there are none, take it out"
    return f"did you mean {close}? {listed}" if close else listed


def _inside(folder: str, constant: str) -> Iterator[tuple[str, object]]:
    package = import_module(f"muster.{folder}")
    for info in sorted(pkgutil.iter_modules(package.__path__), key=lambda info: info.name):
        module = import_module(f"muster.{folder}.{info.name}")
        yield module.__name__, getattr(module, constant, getattr(module, constant + "S", None))


def _outside(folder: str, names: tuple[str, ...]) -> Iterator[tuple[str, object]]:
    if not names:
        return
    from importlib.metadata import entry_points  # Slow to load, and seldom needed.

    group = f"muster.{folder}"
    for name in names:
        points = tuple(entry_points(group=group, name=name))
        if len(points) != 1:
            problem = "no installed package has" if not points else "several installed packages have"
            raise PluginError(f"{problem} an entry point {name} in the group {group}")
        yield points[0].value, points[0].load()
