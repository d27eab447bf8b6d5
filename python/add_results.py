"""Adds the results of pytest to a summary of scripts/run-tests: add_results.py RESULTS.xml SUMMARY. A skip is a failure where
every test must run (IOSCHED_TEST_REQUIRE=all)."""

import os
import re
import sys
import xml.etree.ElementTree as ElementTree
from pathlib import Path

COUNTS = re.compile(r"(\d+) passed, (\d+) failed, (\d+) skipped")


def main(results, summary):
    cases = list(ElementTree.parse(results).iter("testcase"))
    failed = [case for case in cases if case.find("failure") is not None or case.find("error") is not None]
    skipped = [case for case in cases if case.find("skipped") is not None]
    if os.environ.get("IOSCHED_TEST_REQUIRE") == "all":
        failed, skipped = failed + skipped, []
    lines = summary.read_text().splitlines() if summary.exists() else ["0 passed, 0 failed, 0 skipped"]
    found = COUNTS.search(lines[-1])
    if not found:
        sys.exit(f"{summary}: its last line has no counts: {lines[-1]}")
    here = (len(cases) - len(failed) - len(skipped), len(failed), len(skipped))
    counts = [int(before) + more for before, more in zip(found.groups(), here)]
    lines[-1] = lines[-1].replace(found[0], "{} passed, {} failed, {} skipped".format(*counts))
    for verdict, of in (("failed", failed), ("skipped", skipped)):
        names = [f"  python: {case.get('classname')}.{case.get('name')}" for case in of]
        lines[-1:-1] = [f"{verdict} in Python:", *names] if names else []
    summary.write_text("\n".join(lines) + "\n")
    return 1 if failed else 0


sys.exit(main(Path(sys.argv[1]), Path(sys.argv[2])))
