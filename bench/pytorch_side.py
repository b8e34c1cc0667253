"""What each side of a race (race.js) does that is PyTorch: picks the fastest way, answers "run N" and "outputs FOLDER"."""
import json
import os
import statistics
import sys
import time

import numpy


def timed_runs(module, x, count):
    times = []
    for _ in range(count):
        start = time.perf_counter()
        module(x)
        times.append((time.perf_counter() - start) * 1e3)
    return times


def fastest(ways, runs):
    """Of (label, module, input) the one with the least median of so many runs."""
    timed = []
    for label, module, x in ways:
        timed_runs(module, x, 4)  # the profiling executor specialises in its first runs
        timed.append((statistics.median(timed_runs(module, x, runs)), label, module, x))
    return min(timed, key=lambda way: way[0])[1:]


def serve(module, x, outputs=lambda folder: None):
    """Answers until the input ends; `outputs` writes the results to a folder."""
    for line in sys.stdin:
        verb, argument = line.split()
        if verb == 'outputs':
            outputs(argument)
        print(json.dumps(timed_runs(module, x, int(argument)) if verb == 'run' else []), flush=True)


def save(results, folder):
    for i, result in enumerate(results):
        numpy.save(os.path.join(folder, f'output_{i}.npy'), result.numpy())
