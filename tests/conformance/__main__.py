"""Run a folder of cases: a line a source, the failures, and the totals last."""

from __future__ import annotations

import sys
import traceback
from collections import Counter
from pathlib import Path

from tests.conformance.runner import Verdict, all_cases, run_case


def main(arguments: list[str]) -> int:
    if not arguments:
        print("usage: python -m tests.conformance FOLDER [WORDS OF A CASE'S NAME]")
        return 2
    wanted = " ".join(arguments[1:])
    totals: Counter[Verdict] = Counter()
    by_source: dict[str, Counter[Verdict]] = {}
    failures: list[str] = []
    for case in all_cases(Path(arguments[0])):
        if wanted and wanted not in str(case):
            continue
        try:
            verdict, text = run_case(case)
        except Exception:  # a broken driver or engine is a failed case, and the others still run
            verdict, text = Verdict.FAILED, traceback.format_exc()
        totals[verdict] += 1
        by_source.setdefault(case.source, Counter())[verdict] += 1
        if verdict is Verdict.FAILED:
            failures.append(f"FAILED {case}\n    {text}")
        elif verdict is Verdict.SKIPPED:
            failures.append(f"skipped {case}: {text}")
    print("\n".join(failures))
    for source, counts in by_source.items():
        print(f"{source} {counts[Verdict.PASSED]}/{sum(counts.values())}")
    passed, failed, skipped = (totals[v] for v in (Verdict.PASSED, Verdict.FAILED, Verdict.SKIPPED))
    print(f"{passed} passed, {failed} failed, {skipped} skipped")
    return 1 if failed or not passed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
