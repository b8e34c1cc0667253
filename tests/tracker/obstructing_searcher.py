"""A searcher that its model has taken over: it crashes, and leaves folders where its tracker's files would be. Its socket is
descriptor 3."""

import json
import os
import struct

bytes_ = json.dumps({"call": "order"}).encode()
os.write(3, struct.pack("<I", len(bytes_)) + bytes_)
(size,) = struct.unpack("<I", os.read(3, 4))
folder = json.loads(os.read(3, size))["folder"]
for name in ("net.onnx", "search.log", "report.txt"):
    path = os.path.join(folder, name)
    if os.path.lexists(path) and not os.path.isdir(path):
        os.remove(path)
    os.makedirs(path + "/full", exist_ok=True)
os.abort()
