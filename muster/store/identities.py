"""Where uids and the ends of generated names come from. Passed to `objects`, seeded where runs must repeat."""

from __future__ import annotations

import random
import uuid

# Without vowels and look-alikes, as Kubernetes has it: no words come out by chance.
_LETTERS = "bcdfghjklmnpqrstvwxz2456789"
SUFFIX_LENGTH = 5


class Identities:
    """New identities: nothing secret, so the machine's own chance is asked once, for where to begin."""

    def __init__(self, chance: random.Random | None = None) -> None:
        self._chance = chance or random.Random()

    def uid(self) -> str:
        return str(uuid.UUID(int=self._chance.getrandbits(128), version=4))

    def suffix(self) -> str:
        return "".join(self._chance.choices(_LETTERS, k=SUFFIX_LENGTH))
