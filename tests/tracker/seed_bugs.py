#!/usr/bin/env python3
"""Seeds the bugs of a list into copies of sources: seed_bugs.py LIST ROOT OUT

All bugs are in the one copy, and a number (seeded_bug.h) says which is at work, so that they need one build. The list:

    [name] file [the test that it must fail]
    - what the file says, once; white space does not matter
    + what it says with the bug; lines without a sign go on

Writes OUT/FILE for each file named and OUT/protocol_bugs.inc, a row for each bug. What a bug replaces and the file does not
say, or says twice, is an error: mend the list with the code.
"""
import pathlib
import re
import sys

HEAD = re.compile(r"^\[([a-z0-9-]+)\] (\S+)(?: (\S+))?$")


def read_bugs(path):
    bugs = []
    for number, line in enumerate(path.read_text().splitlines(), 1):
        if not line.strip() or line.startswith("#"):
            continue
        if head := HEAD.match(line):
            sign = "-"
            bugs.append({"name": head[1], "file": head[2], "test": head[3], "-": "", "+": ""})
        elif bugs and line[:2].strip() in ("-", "+", ""):
            sign = line[0] if line[0] != " " else sign
            bugs[-1][sign] += line[2:] + "\n"
        else:
            sys.exit(f"{path}:{number}: neither `[name] file [test]` nor `- code` nor `+ code`")
    return bugs


def pattern_of(code):
    return re.compile(r"\s*".join(re.escape(token) for token in re.findall(r"\w+|[^\w\s]", code)))


def place_of(bug, text):
    """Where the bug's statement or expression is."""
    places = list(pattern_of(bug["-"]).finditer(text))
    if len(places) != 1:
        sys.exit(f"{bug['file']} says {len(places)} times, not once, what {bug['name']} replaces:\n{bug['-']}")
    return places[0].span()


def seeded(bugs, right):
    """The statement or expression `right`, and in its place what it says with any of `bugs`."""
    is_statement = right.rstrip().endswith((";", "}"))
    for number, bug in bugs:
        wrong, at_work = bug["+"].strip(), f"::lathe::tracker::testing::seeded_bug == {number}"
        right = (f"if ({at_work}) {{ {wrong} }} else {{ {right} }}" if is_statement else
                 f"({at_work} ? ({wrong}) : ({right}))")
    return right


def seed(text, bugs):
    """`bugs`: of one file, with their numbers."""
    by_place = {}
    for number, bug in bugs:
        by_place.setdefault(place_of(bug, text), []).append((number, bug))
    after = len(text)
    for begin, end in sorted(by_place, reverse=True):  # later places first, so that earlier ones stay where they are
        its = by_place[begin, end]
        if end > after:
            sys.exit(f"{its[0][1]['name']} is seeded into the midst of another")
        text = text[:begin] + seeded(its, text[begin:end]) + text[end:]
        after = begin
    return '#include "tests/tracker/seeded_bug.h"\n' + text


def main():
    bug_list, root, out = map(pathlib.Path, sys.argv[1:])
    by_file = {}
    bugs = read_bugs(bug_list)
    for number, bug in enumerate(bugs, 1):
        by_file.setdefault(bug["file"], []).append((number, bug))
    for file, its in by_file.items():
        (out / file).parent.mkdir(parents=True, exist_ok=True)
        (out / file).write_text(seed((root / file).read_text(), its))
    (out / "protocol_bugs.inc").write_text("".join(f'"{bug["name"]}",\n' for bug in bugs))


if __name__ == "__main__":
    main()
