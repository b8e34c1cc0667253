"""./run bench random-models, and how races take a side that fails.

usage: random_models_test.py BENCH_FOLDER BIN_FOLDER      exit code 77: python3-onnx is not installed
"""
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

try:
    import onnx
except ImportError:
    sys.exit(77)

BENCH, BIN = (pathlib.Path(each) for each in sys.argv[1:3])
CACHE = pathlib.Path(os.environ.get('LATHE_CACHE') or
                     pathlib.Path(os.environ.get('XDG_CACHE_HOME') or pathlib.Path.home() / '.cache') / 'lathe')
NODE = shutil.which('node')
needs_node = unittest.skipUnless(NODE, 'no node')
needs_peer = unittest.skipUnless(NODE and (CACHE / 'peers/node_modules/onnxruntime-node').exists(), 'no ONNX Runtime')


def generate(folder, *flags):
    subprocess.run(['/usr/bin/python3', BENCH / 'random_models.py', folder, *flags], check=True, stdout=subprocess.DEVNULL)
    return {file.name: file.read_bytes() for file in pathlib.Path(folder).iterdir()}


def bench(name, *flags, binaries=BIN):
    return subprocess.run([NODE, BENCH / f'{name}.js', *flags], env={**os.environ, 'LATHE_BIN': str(binaries)},
                          capture_output=True, text=True)


class Folder(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()))

    def fake_binaries(self, **scripts):
        """A folder with the real binaries, but for the shell scripts given."""
        folder = self.folder / 'bin'
        folder.mkdir()
        for name in ('tune', 'lathe-module-server'):
            script = scripts.get(name.replace('-', '_'))
            if script is None:
                (folder / name).symlink_to(BIN / name)
            else:
                (folder / name).write_text(f'#!/bin/sh\n{script}\n')
                (folder / name).chmod(0o755)
        return folder


class Generator(Folder):
    def test_same_seed_gives_same_files(self):
        first, again = (generate(self.folder / name, '--seed', '5') for name in 'ab')
        self.assertEqual(len(first), 50)
        self.assertEqual(first, again)
        other = generate(self.folder / 'c', '--seed', '6', '--count', '5')
        self.assertNotEqual(other, {name: data for name, data in first.items() if name < '005'})

    def test_all_kinds_begin_with_the_classic_ones(self):
        classic = generate(self.folder / 'a', '--seed', '5', '--kinds', 'classic', '--count', '25')
        everything = generate(self.folder / 'b', '--seed', '5')
        self.assertEqual(classic, {name: data for name, data in everything.items() if name < '025'})

    def test_round_sizes(self):
        for name in generate(self.folder, '--seed', '7', '--kind', 'matmul', '--count', '20', '--sizes', 'round'):
            for size in map(int, re.findall(r'\d+', name)[1:]):
                while size % 2 == 0:
                    size //= 2
                self.assertIn(size, (1, 3), name)

    def test_models_are_valid(self):
        flags = [[], ['--sizes', 'round'], ['--kinds', 'rare', '--count', '45'], ['--kinds', 'networks', '--count', '8'], ['--kinds', 'odd', '--count', '17'], ['--kinds', 'quantized', '--count', '14']]
        for name in [name for more in flags for name in generate(self.folder, '--seed', '7', *more)]:
            with self.subTest(name):
                onnx.checker.check_model(str(self.folder / name), full_check=True)

    def test_float16_is_the_type_of_all_that_is_real(self):
        types = set()
        for name, data in generate(self.folder, '--seed', '7', '--count', '60', '--dtype', 'float16').items():
            model = onnx.load_from_string(data)
            types |= {value.type.tensor_type.elem_type for value in [*model.graph.input, *model.graph.output]}
            with self.subTest(name):
                onnx.checker.check_model(model)
        self.assertIn(onnx.TensorProto.FLOAT16, types)
        self.assertNotIn(onnx.TensorProto.FLOAT, types)


class BadFlags(Folder):
    @needs_node
    def test_one_line_and_exit_code_2(self):
        seed = ['--seed', '1']
        for flags in ([], ['--seed', 'x'], ['--sead', '1'], [*seed, '--kind', 'conv4'], [*seed, '--kinds', 'none'], [*seed, '--sizes', 'odd'],
                      [*seed, '--count', '0'], [*seed, '--rounds', '2'], [*seed, '--threads', '1,2'],
                      [*seed, '--precision', 'fp4'], [*seed, '--dtype', 'half'], [*seed, '--models', 'resnet18'], ['--seed']):
            with self.subTest(flags):
                done = bench('random_models', *flags)
                self.assertEqual((done.returncode, done.stdout), (2, ''))
                first, *rest = done.stderr.splitlines()
                self.assertTrue(first.startswith('error: ') and all(line.startswith('usage: ') for line in rest), done.stderr)


class Race(Folder):
    @needs_peer
    def test_table_and_summary(self):
        done = bench('random_models', '--seed', '3', '--count', '2', '--rounds', '6')
        self.assertEqual((done.returncode, done.stderr), (0, ''), done.stdout)
        rows = done.stdout.splitlines()
        self.assertRegex(rows[1], r'^000_matmul_\S+ +[\d.]+ +[\d.]+ +[\d.]+ +\S+  ok$')
        self.assertRegex(rows[2], '^001_batch_matmul_')
        self.assertIn('2 of 2 blocks raced; failed: 0, wrong: 0, peer failed: 0', rows)
        self.assertRegex(done.stdout, r'geometric mean [\d.]+ .*, tenth percentile [\d.]+, least [\d.]+\nworst: 00')

    @needs_peer
    def test_models_of_float16(self):
        done = bench('random_models', '--seed', '3', '--count', '2', '--rounds', '6', '--dtype', 'float16', '--json')
        self.assertEqual((done.returncode, done.stderr), (0, ''), done.stdout)
        rows = json.loads(done.stdout)['rows']
        self.assertEqual([row['status'] for row in rows], ['ok', 'ok'])
        # Results are rounded to float16, which is 2^-11 of the largest at most.
        for row in rows:
            self.assertLess(row['max_rel_error'], 2e-3)

    @needs_peer
    def test_precision_races_our_own_float32(self):
        done = bench('random_models', '--seed', '3', '--count', '1', '--rounds', '6', '--precision', 'bf16', '--json')
        # Where nothing multiplies bfloat16, the compiler says what stays float32.
        self.assertRegex(done.stderr, r'\A(bf16: 1 of 1 products stay in float32.*\n)?\Z')
        self.assertEqual(done.returncode, 0, done.stdout)
        result = json.loads(done.stdout)
        self.assertEqual((result['precision'], result['summary']['raced']), ('bfloat16', 1))
        stays = done.stderr != ''
        self.assertEqual(result['rows'][0]['max_rel_error'] > 0, not stays)

    @needs_node
    def test_failed_compilation_is_a_row(self):
        binaries = self.fake_binaries(tune='echo "a warning" >&2; echo "error: no such luck" >&2; exit 2')
        done = bench('random_models', '--seed', '3', '--count', '2', binaries=binaries)
        self.assertEqual((done.returncode, done.stderr), (1, ''))
        self.assertEqual(done.stdout.count('failed: lathe: tune compile: no such luck\n'), 2)
        self.assertIn('0 of 2 blocks raced; failed: 2, wrong: 0, peer failed: 0', done.stdout)

    @needs_peer
    def test_a_side_that_dies_in_the_race_is_a_row(self):
        binaries = self.fake_binaries(tune='exit 0', lathe_module_server="echo '[]'; read line; echo '[1, 1, 1]'; read line; kill -SEGV $$")
        done = bench('random_models', '--seed', '3', '--count', '2', '--json', binaries=binaries)
        self.assertEqual((done.returncode, done.stderr), (1, ''), done.stdout)
        self.assertEqual([row['status'] for row in json.loads(done.stdout)['rows']], ['failed: lathe: killed by SIGSEGV'] * 2)

    @needs_peer
    def test_other_models_are_raced_when_one_fails(self):
        generate(self.folder / 'models', '--seed', '3', '--count', '1')
        [good] = (self.folder / 'models').iterdir()
        done = bench('vs_onnxruntime', '--models', f'{self.folder}/none.onnx,{good}', '--untuned', '--rounds', '6', '--json')
        self.assertEqual(done.returncode, 1, done.stderr)
        bad, raced = json.loads(done.stdout)
        self.assertIn('none.onnx', bad['error'])
        self.assertGreater(raced['ratio'], 0)


if __name__ == '__main__':
    unittest.main(argv=sys.argv[:1])
