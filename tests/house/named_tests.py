#!/usr/bin/env python3
"""Checks that the tests which docs/service.md and docs/attacks.md name are there.

usage: named_tests.py ROOT      exit 1 and one line a name otherwise
"""
import fnmatch
import pathlib
import re
import sys

TEST = re.compile(r'^(?:TYPED_)?TEST(?:_F|_P)?\(\s*(\w+),\s*(\w+)', re.M)
FUNCTION = re.compile(r'^def (\w+)\(', re.M)
# `Suite.Test`, each part with a * at most; `--gtest_filter='A.b*:C.*'`; `file.py`: `function`, `another`
NAMED = re.compile(r'`([A-Z]\w*\*?\.[A-Z*]\w*\*?)`')
FILTER = re.compile(r"--gtest_filter='([^']+)'")
OF_FILE = re.compile(r'`(\w+\.py)`: ((?:`\w+`(?:, )?)+)')


def is_there(pattern, tests):
    """Tests with parameters have a name before them and a number behind."""
    forms = ('{}', '{}/0', 'All/{}/0')
    return any(fnmatch.fnmatchcase(form.format(test), pattern) for test in tests for form in forms)


def main():
    root = pathlib.Path(sys.argv[1])
    tests = {'.'.join(found) for file in (root / 'tests').rglob('*.cpp') for found in TEST.findall(file.read_text())}
    functions = {(file.name, name) for file in (root / 'tests').rglob('*.py') for name in FUNCTION.findall(file.read_text())}
    missing = []
    for page in ('docs/service.md', 'docs/attacks.md'):
        text = (root / page).read_text()
        patterns = set(NAMED.findall(text)) | {one for each in FILTER.findall(text) for one in each.split(':')}
        missing += [f'{page}: {pattern}' for pattern in sorted(patterns) if not is_there(pattern, tests)]
        named = {(file, name) for file, names in OF_FILE.findall(text) for name in re.findall(r'\w+', names)}
        missing += [f'{page}: {file}: {name}' for file, name in sorted(named - functions)]
    print('\n'.join(f'{each}: there is no such test' for each in missing) or 'named tests: ok')
    return 1 if missing else 0


if __name__ == '__main__':
    sys.exit(main())
