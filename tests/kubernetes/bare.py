"""`muster up` without the loops that act on objects: as a real API server alone. Run by tests."""

from __future__ import annotations

import sys
from functools import partial

from muster.app import run
from muster.cli.main import app

if __name__ == "__main__":
    run.UpOptions = partial(run.UpOptions, has_accounts=False)
    sys.argv.append("--api-only")
    app()
