"""Arrays that grow. Used by the tables of nodes and cards, which get room in steps while nodes come one by one."""

from __future__ import annotations

from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

_Cell = TypeVar("_Cell", bound=np.generic)


def grown(array: NDArray[_Cell], *more: int, fill: Any = 0) -> NDArray[_Cell]:
    """The array with so much more room at the end of each of its axes; what is new is zero unless said otherwise."""
    assert len(more) == array.ndim, f"{len(more)} lengths for {array.ndim} axes"
    result = np.full([have + new for have, new in zip(array.shape, more, strict=True)], fill, array.dtype)
    result[tuple(map(slice, array.shape))] = array
    return result
