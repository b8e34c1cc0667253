"""Writes a layer of a transformer's encoder with open batch and length as Relay text: encoder_model.py FILE

Width 128, 4 heads, 512 hidden, float32; input x (batch, length, 128). Weights are constants, sines of their places.
"""
import sys

WIDTH, HEADS, HIDDEN = 128, 4, 512
lines, constants = [], 0


def let(name, value):
    lines.append(f"  let %{name} = {value};")
    return f"%{name}"


def sines(shape, step, size):
    """A constant of its own at each call."""
    global constants
    constants += 1
    count = shape[0] * (shape[1] if len(shape) > 1 else 1)
    places = f'reshape(arange(0f, {count}f, 1f, dtype="float32"), newshape={list(shape)})'
    return f"multiply(sin(multiply({places}, {step + 0.013 * constants:.3f}f)), {size:.4f}f)"


def dense(x, rows, columns):
    return f"nn.bias_add(nn.dense({x}, {sines((rows, columns), 0.7, columns ** -0.5)}), {sines((rows,), 0.3, 0.1)}, axis=-1)"


def norm(x):
    return f"nn.layer_norm({x}, add({sines((WIDTH,), 0.3, 0.1)}, 1f), {sines((WIDTH,), 0.3, 0.1)})"


def heads(name, axes):
    whole = let(name, dense("%x", WIDTH, WIDTH))
    apart = f"transpose(reshape({whole}, newshape=[0, 0, {HEADS}, {WIDTH // HEADS}]), axes={axes})"
    return let(name + "h", f"reshape({apart}, newshape=[-3, 0, 0])")


def main():
    q, k, v = heads("q", [0, 2, 1, 3]), heads("k", [0, 2, 1, 3]), heads("v", [0, 2, 3, 1])
    scores = let("s", f"multiply(nn.batch_matmul({q}, {k}), {(WIDTH // HEADS) ** -0.5:.6f}f)")
    mixed = let("a", f"nn.batch_matmul(nn.softmax({scores}), {v})")
    apart = f"reshape({mixed}, newshape=[-4, -1, {HEADS}, 0, 0])"
    together = let("m", f"reshape(transpose({apart}, axes=[0, 2, 1, 3]), newshape=[0, 0, -3])")
    first = let("n", norm(let("o", f"add(%x, {dense(together, WIDTH, WIDTH)})")))
    hidden = let("f", f"nn.relu({dense(first, HIDDEN, WIDTH)})")
    second = let("g", f"add({first}, {dense(hidden, WIDTH, HIDDEN)})")
    result = norm(second)
    with open(sys.argv[1], "w") as file:
        file.write('#[version = "0.0.5"]\ndef @main(%x: Tensor[(batch, length, 128), float32]) {\n')
        file.write("\n".join(lines) + f"\n  {result}\n}}\n")


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit("usage: encoder_model.py FILE")
    main()
