#!/usr/bin/env python3
"""What starting `tune` costs: ./run bench startup [--runs N] [--json]

Runs `tune --help`, `tune bench --help` and `tune completion bash`, and, for where the time goes, an empty program linked with
each shared library that `tune` needs. Times are of the wall clock and of the CPU (user and system), in milliseconds.
"""
import argparse
import json
import os
import pathlib
import re
import statistics
import subprocess
import tempfile
import time

TUNE = pathlib.Path(os.environ.get('LATHE_BIN', pathlib.Path(__file__).parent.parent / 'build/release/bin')) / 'tune'


def timed(command, runs):
    """Median and 95th percentile of the wall clock, median of the CPU."""
    wall, cpu = [], []
    with open(os.devnull, 'w') as nowhere:
        for _ in range(runs):
            start = time.perf_counter()
            process = subprocess.Popen(command, stdout=nowhere, close_fds=False)
            _, status, usage = os.wait4(process.pid, 0)
            wall.append((time.perf_counter() - start) * 1e3)
            cpu.append((usage.ru_utime + usage.ru_stime) * 1e3)
            process.returncode = os.waitstatus_to_exitcode(status)
            assert process.returncode == 0, command
    return {'wall_ms': statistics.median(wall), 'wall_p95_ms': statistics.quantiles(wall, n=20)[-1],
            'cpu_ms': statistics.median(cpu)}


def needed_libraries():
    """Name and file of those that `tune` itself names, without the ones every program has."""
    named = re.findall(r'\(NEEDED\).*\[(.*)\]', subprocess.check_output(['readelf', '-d', TUNE], text=True))
    files = dict(re.findall(r'(\S+) => (\S+)', subprocess.check_output(['ldd', TUNE], text=True)))
    return [(name, files[name]) for name in named if name in files and not re.match(r'lib(c|m|gcc_s|stdc\+\+)\.so', name)]


def main():
    flags = argparse.ArgumentParser(description='what starting `tune` costs')
    flags.add_argument('--runs', type=int, default=50, help='runs of each (50)')
    flags.add_argument('--json', action='store_true', help='print one JSON object')
    flags = flags.parse_args()
    rows = {}
    for command in (['--help'], ['bench', '--help'], ['completion', 'bash']):
        rows[' '.join(['tune', *command])] = timed([TUNE, *command], flags.runs)
    with tempfile.TemporaryDirectory() as folder:
        source, program = pathlib.Path(folder) / 'empty.cpp', pathlib.Path(folder) / 'empty'
        source.write_text('int main() {}\n')
        for name, file in [('nothing', None), *needed_libraries()]:
            subprocess.check_call(['g++', source, '-o', program, '-Wl,--no-as-needed', *([file] if file else [])])
            rows[f'empty program with {name}'] = timed([program], flags.runs)
    if flags.json:
        print(json.dumps(rows))
        return
    print(f'{"":40}  {"median":>8}  {"95%":>8}  {"CPU":>8}   ms, {flags.runs} runs')
    for name, row in rows.items():
        print(f'{name:40}  {row["wall_ms"]:8.1f}  {row["wall_p95_ms"]:8.1f}  {row["cpu_ms"]:8.1f}')


if __name__ == '__main__':
    main()
