#!/usr/bin/python3
"""Random blocks (random_models.py) with their dimensions left open: one build each, compared with a build for the size alone.

usage: open_blocks.py --seed S [--count N] [--threads T]     needs Debian's python3-onnx, python3-numpy

Open are the batch and the extents of images and signals, the rows of matrices, all dimensions but the second of what has three or more.
Each block runs at its own size, near it, and at a random one. A row: seconds to compile, the largest difference of an output over its
largest value at each size, or why not; sizes that both builds refuse are no mistakes. Exit code 1 when a block fails or differs.
"""
import argparse, glob, os, random, shutil, subprocess, sys, tempfile, time
import numpy as np, onnx

HERE = os.path.dirname(os.path.abspath(__file__))
TUNE = os.path.join(HERE, '..', 'build', 'release', 'bin', 'tune')
FARTHEST = 1e-3  # convolutions with fewer multiplications round otherwise


def inputs_of(model):
    made = {tensor.name for tensor in model.graph.initializer}
    return [value for value in model.graph.input if value.name not in made]


def open_dims(source, to):
    """Writes the model with open dimensions, named after their extents here; returns those by name."""
    model, extents = onnx.load(source), {}
    for value in inputs_of(model):
        dims = value.type.tensor_type.shape.dim
        for axis, dim in enumerate(dims):
            if axis != 1 if len(dims) >= 3 else axis == 0:
                name = f'd{axis}_{dim.dim_value}'
                extents[name] = dim.dim_value
                dim.dim_param = name
    for value in model.graph.output:
        for axis, dim in enumerate(value.type.tensor_type.shape.dim):
            dim.dim_param = f'o{axis}'
    onnx.save(model, to)
    return extents


def shape_flags(path, extents):
    flags = []
    for value in inputs_of(onnx.load(path)):
        dims = [str(extents[d.dim_param] if d.dim_param else d.dim_value) for d in value.type.tensor_type.shape.dim]
        flags += ['--shape', f'{value.name}={"x".join(dims)}']
    return flags


def tune(*args):
    """The last line of what it says, or nothing when it succeeds."""
    try:
        done = subprocess.run([TUNE, *args], capture_output=True, text=True, timeout=120)
    except subprocess.TimeoutExpired:
        return 'takes over two minutes'
    if done.returncode == 0:
        return ''
    return (done.stderr.strip().splitlines() or [''])[-1] + f' (exit code {done.returncode})'


def difference(ours, theirs):
    worst = 0.0
    for file in glob.glob(os.path.join(theirs, '*.npy')):
        a, b = (np.load(path).astype('f8') for path in (os.path.join(ours, os.path.basename(file)), file))
        if a.shape != b.shape:
            return float('inf')
        if b.size:
            worst = max(worst, np.abs(a - b).max() / max(1e-30, np.abs(b).max()))
    return worst


def compare(module, path, extents, folder, threads):
    """What to print of one size, and whether it is right."""
    flags, outs = shape_flags(path, extents), [os.path.join(folder, side) for side in ('open', 'alone')]
    for out in outs:
        shutil.rmtree(out, ignore_errors=True)
    run = ['--threads', threads, *flags, '--out']
    ours = tune('run', '--model', module, *run, outs[0])
    theirs = tune('run', '--model', path, '--untuned', *run, outs[1])
    if ours and theirs:
        return 'refused', ours.endswith('(exit code 2)')
    if ours or theirs:
        return f'only {"open" if ours else "alone"}: {ours or theirs}', False
    worst = difference(*outs)
    return f'{worst:.0e}', worst <= FARTHEST


def main():
    parser = argparse.ArgumentParser(usage=__doc__)
    parser.add_argument('--seed', type=int, required=True)
    parser.add_argument('--count', type=int, default=50)
    parser.add_argument('--threads', default='1')
    args = parser.parse_args()
    draw, wrong = random.Random(args.seed), 0
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([sys.executable, os.path.join(HERE, 'random_models.py'), folder, '--seed', str(args.seed), '--count', str(args.count)],
                       check=True, stdout=subprocess.DEVNULL)
        for source in sorted(glob.glob(os.path.join(folder, '*.onnx'))):
            path, module = os.path.join(folder, 'open.onnx'), os.path.join(folder, 'open.lathe')
            extents = open_dims(source, path)
            near = {name: max(1, extent + draw.choice([-3, -2, -1, 1, 2, 5])) for name, extent in extents.items()}
            other = {name: draw.randint(1, max(2, 2 * min(extent, 64))) for name, extent in extents.items()}
            start = time.time()
            fault = tune('compile', '--model', path, '--open', 'all', '--untuned', '--out', module)
            seconds = time.time() - start
            sizes = [compare(module, path, each, folder, args.threads) for each in (extents, near, other)] if not fault else []
            wrong += bool(fault) or not all(right for _, right in sizes)
            print(f'{os.path.basename(source)[:-5]:56} {seconds:5.1f} s  {fault or "  ".join(text for text, _ in sizes)}', flush=True)
            os.remove(path)
    print(f'{wrong} of {args.count} fail or differ')
    sys.exit(1 if wrong else 0)


if __name__ == '__main__':
    main()
