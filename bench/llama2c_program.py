#!/usr/bin/env python3
"""Writes a Llama of llama2.c's format (version 0) as a Relay program that generates text by itself.

usage: llama2c_program.py MODEL.bin TOKENS > model.relay

@main takes the first token (1 begins a text) and gives it with the TOKENS - 1 that follow, each the most likely one: the
loop, the choice and the caches of keys and values are in the program, so one call generates all. TOKENS is at most the
model's length. Standard library alone.
"""
import array
import json
import struct
import sys


class Weights:
    """The tensors of the file, in its order, as constants of the text."""

    def __init__(self, data):
        self.data, self.at, self.constants = data, 28, []
        self.dim, self.hidden, self.layers, self.heads, self.kv_heads, vocab, self.length = struct.unpack("7i", data[:28])
        self.vocab, self.shared = abs(vocab), vocab > 0

    def read(self, *shape):
        count = 1
        for extent in shape:
            count *= extent
        part = self.data[self.at:self.at + 4 * count]
        if len(part) != 4 * count:
            sys.exit("error: the file ends within a tensor")
        self.at += 4 * count
        return part

    def constant(self, dtype, shape, data):
        self.constants.append({"dtype": dtype, "shape": list(shape), "data": data.hex()})
        return f"meta[relay.Constant][{len(self.constants) - 1}]"

    def layers_of(self, *shape):
        return [self.constant("float32", shape, self.read(*shape)) for _ in range(self.layers)]


def rotations(w, size):
    """Cosines, and sines with the sign of their pair's half, of each position and number of a head."""
    cos, sin = (array.array("f", w.read(w.length, size // 2)) for _ in range(2))
    wide_cos, wide_sin = array.array("f"), array.array("f")
    for position in range(w.length):
        for i in range(size):
            at = position * (size // 2) + i // 2
            wide_cos.append(cos[at])
            wide_sin.append(sin[at] if i % 2 else -sin[at])
    return (w.constant("float32", (w.length, size), table.tobytes()) for table in (wide_cos, wide_sin))


def program(w, tokens):
    size = w.dim // w.heads
    group, kv_dim = w.heads // w.kv_heads, w.kv_heads * size
    embedding = w.constant("float32", (w.vocab, w.dim), w.read(w.vocab, w.dim))
    norm1, wq = w.layers_of(w.dim), w.layers_of(w.dim, w.dim)
    wk, wv, wo = w.layers_of(kv_dim, w.dim), w.layers_of(kv_dim, w.dim), w.layers_of(w.dim, w.dim)
    norm2, w1 = w.layers_of(w.dim), w.layers_of(w.hidden, w.dim)
    w2, w3 = w.layers_of(w.dim, w.hidden), w.layers_of(w.hidden, w.dim)
    norm3 = w.constant("float32", (w.dim,), w.read(w.dim))
    cos, sin = rotations(w, size)
    classifier = embedding if w.shared else w.constant("float32", (w.vocab, w.dim), w.read(w.vocab, w.dim))
    swapped = w.constant("int32", (size,), struct.pack(f"{size}i", *(i ^ 1 for i in range(size))))

    key = value = f"Tensor[({w.kv_heads}, {w.length}, {size}), float32]"
    caches = [(f"%k{i}", key) for i in range(w.layers)] + [(f"%v{i}", value) for i in range(w.layers)]
    params = ", ".join(f"{name}: {kind}" for name, kind in caches)
    lines = []

    def let(name, expression):
        lines.append(f"    let %{name} = {expression};")
        return f"%{name}"

    def norm(name, x, weight):
        scale = let(name + ".scale", f"rsqrt(mean({x} * {x}, axis=[1], keepdims=True) + 1e-5f)")
        return let(name, f"{x} * {scale} * {weight}")

    def rotated(name, x, heads):
        split = let(name + ".heads", f"reshape({x}, newshape=[{heads}, {size}])")
        return let(name, f"{split} * %cos + take({split}, {swapped}, axis=1) * %sin")

    def attention(i, x):
        n = norm(f"n{i}", x, norm1[i])
        q = rotated(f"q{i}", let(f"q{i}.flat", f"nn.dense({n}, {wq[i]})"), w.heads)
        k = rotated(f"new_k{i}", let(f"k{i}.flat", f"nn.dense({n}, {wk[i]})"), w.kv_heads)
        v = let(f"new_v{i}", f"nn.dense({n}, {wv[i]})")
        k = let(f"next_k{i}", f"where(%here, reshape({k}, newshape=[{w.kv_heads}, 1, {size}]), %k{i})")
        v = let(f"next_v{i}", f"where(%here, reshape({v}, newshape=[{w.kv_heads}, 1, {size}]), %v{i})")
        q = let(f"q{i}.grouped", f"reshape({q}, newshape=[{w.kv_heads}, {group}, {size}])")
        scores = let(f"s{i}", f"where(%past, nn.batch_matmul({q}, {k}) * {size ** -0.5!r}f, -1e30f)")
        mixed = let(f"m{i}", f"nn.batch_matmul(nn.softmax({scores}, axis=2), {v}, transpose_b=False)")
        return let(f"a{i}", f"{x} + nn.dense(reshape({mixed}, newshape=[1, {w.dim}]), {wo[i]})")

    def feed_forward(i, x):
        n = norm(f"f{i}", x, norm2[i])
        gate = let(f"g{i}", f"nn.dense({n}, {w1[i]})")
        inner = let(f"i{i}", f"{gate} * sigmoid({gate}) * nn.dense({n}, {w3[i]})")
        return let(f"x{i + 1}", f"{x} + nn.dense({inner}, {w2[i]})")

    let("positions", f"arange(0, {w.length}, 1, dtype=\"int32\")")
    let("here", f"reshape(equal(%positions, %at), newshape=[1, {w.length}, 1])")
    let("past", f"reshape(less_equal(%positions, %at), newshape=[1, 1, {w.length}])")
    let("cos", f"take({cos}, %at, axis=0)")
    let("sin", f"take({sin}, %at, axis=0)")
    x = let("x0", f"reshape(take({embedding}, %token, axis=0), newshape=[1, {w.dim}])")
    for i in range(w.layers):
        x = feed_forward(i, attention(i, x))
    logits = let("logits", f"nn.dense({norm('final', x, norm3)}, {classifier})")
    let("next", f"reshape(cast(argmax({logits}, axis=[1]), dtype=\"int32\"), newshape=[])")
    let("next_text", f"where(equal(arange(0, {tokens}, 1, dtype=\"int32\"), %at + 1), %next, %text)")
    following = ", ".join(f"%next_{name[1:]}" for name, _ in caches)
    empty = ", ".join(f"zeros(shape=[{kind[8:kind.index(')')]}], dtype=\"float32\")" for _, kind in caches)
    text = f"Tensor[({tokens}), int32]"
    body = "\n".join(lines)
    return f"""#[version = "0.0.5"]
def @generate(%token: int32, %at: int32, %text: {text}, {params}) -> {text} {{
  if (%at == {tokens - 1}) {{ %text }} else {{
{body}
    @generate(%next, %at + 1, %next_text, {following})
  }}
}}
def @main(%first: int32) {{
  @generate(%first, 0, where(equal(arange(0, {tokens}, 1, dtype="int32"), 0), %first, 0), {empty})
}}
#[metadata]
{json.dumps({"relay.Constant": w.constants})}
"""


def main():
    if len(sys.argv) != 3 or not sys.argv[2].isdigit():
        sys.exit(__doc__.strip())
    with open(sys.argv[1], "rb") as file:
        weights = Weights(file.read())
    tokens = int(sys.argv[2])
    if not 1 <= tokens <= weights.length:
        sys.exit(f"error: {tokens} tokens, the model has room for {weights.length}")
    sys.stdout.write(program(weights, tokens))


main()
