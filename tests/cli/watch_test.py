#!/usr/bin/env python3
"""What `tune` makes of trackers that are cut off, or say what they should not: watch_test.py TUNE"""

import http.server
import json
import subprocess
import sys
import threading

ID = "3f2a91c0-0000-4000-8000-000000000000"
DONE = f"id: 7\nevent: state\ndata: {json.dumps({'state': 'done', 'message': ''})}\n\n"


class Tracker(http.server.BaseHTTPRequestHandler):
    """Behind a proxy that does not reach it at first. Breaks off its first stream of events in the midst of the last one."""

    protocol_version = "HTTP/1.1"
    asked_from = []  # Last-Event-ID of each stream

    def answer(self, body, status=200):
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body.encode())

    def chunk(self, text):
        self.wfile.write(f"{len(text):x}\r\n{text}\r\n".encode())

    def do_GET(self):
        if self.path.endswith("/report"):
            self.answer("all is well\n")
        elif not self.path.endswith("/events"):
            self.answer(json.dumps({"id": ID}))
        else:
            self.asked_from.append(self.headers["Last-Event-ID"])
            if len(self.asked_from) <= 2:
                self.answer("<html>Bad Gateway</html>", 502 + len(self.asked_from))
                return
            self.send_response(200)
            self.send_header("Transfer-Encoding", "chunked")
            self.end_headers()
            if len(self.asked_from) == 3:
                self.chunk("id: 6\nevent: progress\ndata: {\"seconds_left\": null, \"rank_correlation\": null}\n\n")
                self.chunk(DONE[:len(DONE) // 2])
                self.close_connection = True
            else:
                self.chunk(DONE)
                self.wfile.write(b"0\r\n\r\n")

    def do_POST(self):
        self.answer(json.dumps({"id": "3f2a\x1b]0;owned\x07"}))

    def log_message(self, *_):
        pass


def check(holds, what):
    if not holds:
        sys.exit(f"FAILED: {what}")


def main():
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Tracker)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    tracker = f"http://127.0.0.1:{server.server_port}"

    def tune(*words):
        command = [sys.argv[1].encode(), *(w if isinstance(w, bytes) else w.encode() for w in words)]
        return subprocess.run(command + [b"--tracker", tracker.encode()], capture_output=True, timeout=60)

    watched = tune("watch", ID)
    check(watched.returncode == 0 and watched.stdout == b"all is well\n", f"watch: {watched}")
    # The event that was cut off is asked for again: its id does not count.
    check(Tracker.asked_from == [None, None, None, "6"], f"streams from {Tracker.asked_from}")
    check(watched.stderr.startswith(f"{tracker}: HTTP status 503; asking again for 30 s\n".encode()), f"{watched.stderr}")
    check(watched.stderr.count(b"asking again") == 1, f"{watched.stderr}")

    there = tune("--model", "dqn", "--target", "cpu")
    check(b"\x1b" not in there.stdout + there.stderr, f"an escape for the terminal: {there}")

    # Who misspells a flag is told so; it is not the tracker's fault.
    refused = tune("submit", "--model", "dqn", "--device", b"\xff")
    check(refused.returncode == 2, f"submit: {refused}")
    check(refused.stderr == b"error: the job of dqn cannot be sent: a flag of it is no UTF-8\n", f"{refused}")
    print("OK")


main()
