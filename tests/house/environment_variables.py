#!/usr/bin/env python3
"""Checks that every LATHE_ variable which the sources read stands in cli/variables.h, and nothing else does.

usage: environment_variables.py ROOT      exit 1 and one line an offence otherwise
"""
import pathlib
import re
import sys

READS = {
    '.cpp': r'getenv\("(LATHE_\w+)"\)',
    '.h': r'getenv\("(LATHE_\w+)"\)',
    '.js': r'process\.env\.(LATHE_\w+)',
    '.py': r'''environ(?:\.get\(|\[)['"](LATHE_\w+)''',
    '.sh': r'\$\{?(LATHE_\w+)',
    '': r'\$\{?(LATHE_\w+)',  # ./run
}


def main():
    root = pathlib.Path(sys.argv[1])
    known = set(re.findall(r'"(LATHE_\w+)"', (root / 'cli/variables.h').read_text()))
    read = {}
    for file in sorted(root.rglob('*')):
        path = file.relative_to(root).as_posix()
        if file.suffix not in READS or not file.is_file() or path.startswith(('build', '.')) or 'node_modules' in path:
            continue
        for name in re.findall(READS[file.suffix], file.read_text(errors='replace')):
            read.setdefault(name, path)
    found = [f'{path}: {name} is not in cli/variables.h' for name, path in sorted(read.items()) if name not in known]
    found += [f'cli/variables.h: nothing reads {name}' for name in sorted(known - set(read))]
    print('\n'.join(found) or 'environment variables: ok')
    return 1 if found else 0


if __name__ == '__main__':
    sys.exit(main())
