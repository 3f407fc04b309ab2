"""A process of its own that writes with eight threads and says what was acknowledged. Run and killed by `test_kill`.

Each line it prints is `thread number revision`: this thread's object now holds this number, since this revision.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from pathlib import Path

from muster.store.clock import RealClock
from muster.store.port import Transaction
from muster.store.records import Key, Record
from muster.store.sqlite import SqliteStore
from tests.store.builders import content, text

THREADS = 8
PADDING = "x" * 1_000


def slot(thread: int) -> Key:
    return Key("slots", "", f"thread-{thread}")


def count_on(store: SqliteStore, thread: int) -> None:
    """Count one object up for ever."""

    def change(write: Transaction) -> tuple[int, Record]:
        present = write.get(slot(thread))
        number = 1 + (content(present)[0] if present is not None else 0)
        uid = present.uid if present is not None else f"uid-{thread}"
        return number, write.put(slot(thread), uid=uid, value=text(write, [number, PADDING]))

    while True:
        number, record = store.write(change)
        os.write(sys.stdout.fileno(), f"{thread} {number} {record.revision}\n".encode())


def main(folder: Path) -> None:
    started_s = time.monotonic()
    store = SqliteStore(folder, RealClock())
    print(f"ready {time.monotonic() - started_s:.3f} {store.revision}", flush=True)
    for thread in range(1, THREADS):
        threading.Thread(target=count_on, args=(store, thread), daemon=True).start()
    count_on(store, 0)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
