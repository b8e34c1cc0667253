"""Programs of the Relay papers' evaluation, as Relay text for Lathe and as one side of a race (race.js) by PyTorch:

    python3 program_models.py NAME THREADS FOLDER [--seed 0]

char_rnn: a network that writes names, letter by letter, and reads what it wrote (S. Robertson's tutorial of PyTorch): 20 letters of
59, a category of 18, states of 128. tree_lstm: a child-sum TreeLSTM (Tai et al. 2015) of 300 inputs and states of 150 over a tree of 40
words; the tree is a value of the program, of any form. Weights are random by the seed.

Writes FOLDER/NAME.relay and the program's input, and first prints {"relay": its path, "inputs": ["NAME=FILE.npy"], "variant": which of
PyTorch's ways is the fastest here}. Then as pytorch_server.py: "run N", "outputs FOLDER".
"""
import argparse
import json
import os
import sys

# OpenBLAS has threads of its own, which torch.set_num_threads does not reach: read when the library is loaded.
for variable in ('OMP_NUM_THREADS', 'OPENBLAS_NUM_THREADS'):
    os.environ[variable] = sys.argv[2]

import numpy
import pytorch_side
import torch
from torch import nn

LETTERS, CATEGORIES, CHAR_HIDDEN, LENGTH = 59, 18, 128, 20
WORD, TREE_HIDDEN, WORDS = 300, 150, 40


class CharRnn(nn.Module):
    def __init__(self):
        super().__init__()
        width = CATEGORIES + LETTERS + CHAR_HIDDEN
        self.i2h, self.i2o = nn.Linear(width, CHAR_HIDDEN), nn.Linear(width, LETTERS)
        self.o2o = nn.Linear(CHAR_HIDDEN + LETTERS, LETTERS)
        self.register_buffer('letters', torch.eye(LETTERS))

    def forward(self, category):
        hidden, letter = torch.zeros(1, 128), self.letters[0:1]
        output = letter
        for _ in range(20):
            given = torch.cat([category, letter, hidden], 1)
            hidden = self.i2h(given)
            output = torch.log_softmax(self.o2o(torch.cat([hidden, self.i2o(given)], 1)), 1)
            letter = self.letters[output.argmax(1)]
        return output, hidden


class Tree:
    """Of word i, and branches."""

    def __init__(self, word, branches):
        self.word, self.branches = word, branches

    def relay(self):
        text = 'Nil'
        for branch in reversed(self.branches):
            text = f'Cons({branch.relay()}, {text})'
        return f'Rose({self.word}, {text})'


def random_tree(rng, words):
    """Over a list of words: one of them above up to three parts of the others."""
    at = rng.integers(len(words))
    rest = [part for part in numpy.array_split(words[:at] + words[at + 1:], rng.integers(1, 4)) if len(part)]
    return Tree(int(words[at]), [random_tree(rng, [int(each) for each in part]) for part in rest])


class TreeLstm(nn.Module):
    def __init__(self, tree):
        super().__init__()
        self.tree = tree
        self.ioux, self.iouh = nn.Linear(WORD, 3 * TREE_HIDDEN), nn.Linear(TREE_HIDDEN, 3 * TREE_HIDDEN)
        self.fx, self.fh = nn.Linear(WORD, TREE_HIDDEN), nn.Linear(TREE_HIDDEN, TREE_HIDDEN)

    def node(self, tree, words):
        x = words[tree.word:tree.word + 1]
        if tree.branches:
            states = [self.node(branch, words) for branch in tree.branches]
            hiddens, cells = torch.cat([state[0] for state in states]), torch.cat([state[1] for state in states])
            gates = self.ioux(x) + self.iouh(hiddens.sum(0, keepdim=True))
            kept = (torch.sigmoid(self.fh(hiddens) + self.fx(x)) * cells).sum(0, keepdim=True)
        else:
            gates, kept = self.ioux(x) + self.iouh.bias, 0
        i, o, u = gates.chunk(3, 1)
        cell = torch.sigmoid(i) * torch.tanh(u) + kept
        return torch.sigmoid(o) * torch.tanh(cell), cell

    def forward(self, words):
        return self.node(self.tree, words)


class Constants:
    """The metadata section of Relay text."""

    def __init__(self):
        self.rows = []

    def add(self, tensor):
        array = tensor.detach().numpy()
        self.rows.append({'dtype': str(array.dtype), 'shape': list(array.shape), 'data': array.tobytes().hex()})
        return f'meta[relay.Constant][{len(self.rows) - 1}]'

    def dense(self, x, layer):
        return f'(nn.dense({x}, {self.add(layer.weight)}) + {self.add(layer.bias)})'

    def text(self):
        return '\n#[metadata]\n' + json.dumps({'relay.Constant': self.rows})


def char_rnn_text(model):
    def tensor(width):
        return f'Tensor[(1, {width}), float32]'
    constants = Constants()
    hidden, out = tensor(CHAR_HIDDEN), tensor(LETTERS)
    return f'''#[version = "0.0.5"]
def @write(%left: int32, %category: {tensor(CATEGORIES)}, %letter: {out}, %output: {out}, %hidden: {hidden}) -> ({out}, {hidden}) {{
  if (%left == 0) {{ (%output, %hidden) }} else {{
    let %given = concatenate((%category, %letter, %hidden), axis=1);
    let %state = {constants.dense('%given', model.i2h)};
    let %both = concatenate((%state, {constants.dense('%given', model.i2o)}), axis=1);
    let %chances = nn.log_softmax({constants.dense('%both', model.o2o)}, axis=1);
    let %next = take({constants.add(model.letters)}, argmax(%chances, axis=[1]), axis=0);
    @write(%left - 1, %category, %next, %chances, %state)
  }}
}}
def @main(%category: {tensor(CATEGORIES)}) {{
  let %first = {constants.add(model.letters[0:1])};
  @write({LENGTH}, %category, %first, %first, {constants.add(torch.zeros(1, CHAR_HIDDEN))})
}}
{constants.text()}
'''


def tree_lstm_text(model):
    constants = Constants()
    state, words = f'Tensor[(1, {TREE_HIDDEN}), float32]', f'Tensor[({WORDS}, {WORD}), float32]'
    zeros = constants.add(torch.zeros(1, TREE_HIDDEN))
    return f'''#[version = "0.0.5"]
import "tree"
def @node(%words: {words}, %tree: Tree[int32]) -> ({state}, {state}) {{
  match (%tree) {{
    Rose(%word, %branches) => {{
      let %x = reshape(take(%words, %word, axis=0), newshape=[1, {WORD}]);
      let %wanted = {constants.dense('%x', model.fx)};
      let %states = @map(fn (%branch: Tree[int32]) -> ({state}, {state}) {{ @node(%words, %branch) }}, %branches);
      let %sums = @foldl(fn (%sum: ({state}, {state}), %each: ({state}, {state})) -> ({state}, {state}) {{
        (%sum.0 + %each.0, %sum.1 + sigmoid({constants.dense('%each.0', model.fh)} + %wanted) * %each.1)
      }}, ({zeros}, {zeros}), %states);
      let %gates = split({constants.dense('%x', model.ioux)} + {constants.dense('%sums.0', model.iouh)}, indices_or_sections=3i64, axis=1);
      let %cell = sigmoid(%gates.0) * tanh(%gates.2) + %sums.1;
      (sigmoid(%gates.1) * tanh(%cell), %cell)
    }}
  }}
}}
def @main(%words: {words}) {{ @node(%words, {model.tree.relay()}) }}
{constants.text()}
'''


def char_rnn(rng):
    category = torch.zeros(1, CATEGORIES)
    category[0, rng.integers(CATEGORIES)] = 1
    return CharRnn(), category, 'category', char_rnn_text


def tree_lstm(rng):
    words = torch.from_numpy(rng.standard_normal((WORDS, WORD), numpy.float32))
    return TreeLstm(random_tree(rng, list(range(WORDS)))), words, 'words', tree_lstm_text


PROGRAMS = {'char_rnn': char_rnn, 'tree_lstm': tree_lstm}


def variants(model, x):
    """(name, module) of each way to run it that can run it."""
    yield 'eager', model
    for name, compiled in [('traced', lambda: torch.jit.trace(model, x)), ('scripted', lambda: torch.jit.script(model))]:
        try:
            yield name, torch.jit.freeze(compiled())
        except Exception:  # recursion over objects is no TorchScript
            continue


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument('name', choices=PROGRAMS)
    parser.add_argument('threads', type=int)
    parser.add_argument('folder')
    parser.add_argument('--seed', default=0, type=int)
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    torch.set_num_interop_threads(1)
    torch.manual_seed(arguments.seed)
    model, x, port, text = PROGRAMS[arguments.name](numpy.random.default_rng(arguments.seed))
    model.eval()
    relay, given = (os.path.join(arguments.folder, f'{arguments.name}{end}') for end in ('.relay', '.npy'))
    with open(relay, 'w') as file:
        file.write(text(model))
    numpy.save(given, x.numpy())
    label, module, _ = pytorch_side.fastest(((label, module, x) for label, module in variants(model, x)), 9)
    print(json.dumps({'relay': relay, 'inputs': [f'{port}={given}'], 'variant': label}), flush=True)
    pytorch_side.serve(module, x, lambda folder: pytorch_side.save(module(x), folder))


with torch.inference_mode():
    main()
