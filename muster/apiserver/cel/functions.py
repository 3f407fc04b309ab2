"""All functions of the language by their names. Asked by the checker."""

from __future__ import annotations

from collections.abc import Mapping

from muster.apiserver.cel import (
    library_authorizer,
    library_conversions,
    library_kubernetes,
    library_lists,
    library_networks,
    library_operators,
    library_strings,
)
from muster.apiserver.cel.signatures import Overload, table

FUNCTIONS: Mapping[str, tuple[Overload, ...]] = table(
    [
        *library_operators.OVERLOADS,
        *library_conversions.OVERLOADS,
        *library_strings.OVERLOADS,
        *library_lists.OVERLOADS,
        *library_kubernetes.OVERLOADS,
        *library_networks.OVERLOADS,
        *library_authorizer.OVERLOADS,
    ]
)
