#!/usr/bin/env python3
"""Checks that the pages have the names of states and outcomes that C++ has, in its order.

usage: page_names.py ROOT      exit 1 and one line a list otherwise
"""
import pathlib
import re
import sys

# list of dashboards/src/names.ts -> (file, table)
TABLES = {
    "kJobStates": ("db/records.cpp", "kJobStateNames"),
    "kTrialStates": ("db/records.cpp", "kTrialStateNames"),
    "kOutcomes": ("core/support/outcome.h", "kOutcomeNames"),
}


def names_in(text, start):
    """The quoted names between the start and the semicolon after it; none where the start is missing."""
    begin = re.search(start, text)
    return re.findall(r"[\"'](\w+)[\"']", text[begin.end():text.index(";", begin.end())]) if begin else []


def main():
    root = pathlib.Path(sys.argv[1])
    pages = (root / "dashboards/src/names.ts").read_text()
    wrong = 0
    for name, (file, table) in TABLES.items():
        ours, theirs = names_in(pages, rf"const {name} ="), names_in((root / file).read_text(), rf"\b{table}(?:\[\w+\])? =")
        if not theirs or ours != theirs:
            wrong += 1
            print(f"dashboards/src/names.ts: {name} has {ours}; {table} of {file} has {theirs}")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
