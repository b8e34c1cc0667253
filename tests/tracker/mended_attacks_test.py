#!/usr/bin/env python3
"""Each attack that was mended does harm without its mend: mended_attacks_test.py TESTS LIST

TESTS is built with the bugs of LIST (seed_bugs.py) seeded into it; LATHE_SEEDED_BUG says which is at work.
"""

import os
import pathlib
import subprocess
import sys

from seed_bugs import read_bugs


def main():
    tests, bug_list = sys.argv[1:]
    failed = 0
    for number, bug in enumerate(read_bugs(pathlib.Path(bug_list)), 1):
        outcomes = []
        for at_work in (0, number):
            done = subprocess.run([tests, f"--gtest_filter={bug['test']}"], env={**os.environ, "LATHE_SEEDED_BUG": str(at_work)},
                                  capture_output=True, text=True, timeout=120)
            outcomes.append((done.returncode == 0, done.stdout))
        (sound, said), (unharmed, _) = outcomes
        if "Running 0 tests" in said:
            problem = f"there is no test {bug['test']}"
        elif not sound:
            problem = f"{bug['test']} fails as it is:\n{said[-2000:]}"
        elif unharmed:
            problem = f"{bug['test']} does not see that its mend is gone"
        else:
            print(f"{bug['name']}: held off, and harmful without {bug['file']}'s mend ({bug['test']})")
            continue
        print(f"FAILED: {bug['name']}: {problem}")
        failed += 1
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
