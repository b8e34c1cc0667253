"""ONNX Runtime as the reference of tests in Python: what it computes for a model, and how far another's output is off."""
import array
import os
import pathlib
import shutil
import subprocess

_REFERENCE = pathlib.Path(__file__).parent / "ort_reference.js"


def _peers():
    """The folder that `./run test` installs ONNX Runtime into."""
    cache = os.environ.get("LATHE_CACHE") or os.path.join(
        os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache"), "lathe")
    return pathlib.Path(cache) / "peers"


def missing():
    """Why there is no ONNX Runtime here; empty when there is."""
    if not shutil.which("node"):
        return "no Node.js"
    if not (_peers() / "node_modules/onnxruntime-node").exists():
        return f"no onnxruntime-node in {_peers()} (./run test installs it)"
    return ""


def run(model, folder):
    """Runs the ONNX file on seeded random inputs: writes input_<i>.npy and output_<i>.npy into the folder."""
    folder.mkdir(exist_ok=True)
    subprocess.run(["node", _REFERENCE, _peers(), model, folder], check=True, timeout=120)


def values(data):
    """The numbers of a float32 .npy file, given its bytes."""
    start = 10 + int.from_bytes(data[8:10], "little")
    if b"'<f4'" not in data[:start]:
        raise ValueError("is not of float32")
    return array.array("f", data[start:])


def relative_error(ours, expected):
    """The largest difference over the largest value expected; infinite where there is something else than a number."""
    if len(ours) != len(expected) or any(a != a for a in ours) or not any(expected):
        return float("inf")
    return max(abs(a - b) for a, b in zip(ours, expected)) / max(map(abs, expected))
