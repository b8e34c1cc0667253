#!/usr/bin/env python3
"""HTTPS with certificates that openssl makes here: tls_test.py TUNE"""

import json
import os
import resource
import ssl
import subprocess
import sys
import tempfile

from tracker_process import Tracker, check, free_port, run


def openssl(*words):
    done = subprocess.run(["openssl", *words], capture_output=True, text=True, timeout=60)
    if done.returncode != 0:
        sys.exit(f"FAILED: openssl {' '.join(words)}: {done.stderr}")


class Authority:
    """A private one, as a team's would be."""

    def __init__(self, folder, name):
        self.folder = folder
        self.certificate, self.key = f"{folder}/{name}.pem", f"{folder}/{name}.key"
        openssl("req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-keyout", self.key,
                "-out", self.certificate, "-subj", f"/CN={name}", "-days", "30")

    def issue(self, name, host="127.0.0.1", days=30):
        """(certificate, key) of a server; of one that ended when `days` is less than 0."""
        key, request, certificate = (f"{self.folder}/{name}.{end}" for end in ("key", "csr", "pem"))
        openssl("req", "-new", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-keyout", key,
                "-out", request, "-subj", f"/CN={name}")
        extensions = f"{self.folder}/{name}.ext"
        with open(extensions, "w") as file:
            file.write(f"subjectAltName={'IP' if host[0].isdigit() else 'DNS'}:{host}\n")
        openssl("x509", "-req", "-in", request, "-CA", self.certificate, "-CAkey", self.key, "-CAcreateserial",
                "-out", certificate, "-days", str(days), "-extfile", extensions)
        return certificate, key


def serves(folder, authority, other):
    certificate, key = authority.issue("farm")
    with Tracker(folder, "--tls-certificate", certificate, "--tls-key", key) as tracker:
        https = f"https://127.0.0.1:{tracker.port}"
        with open(tracker.path("log")) as log:
            check(f"jobs and pages at {https}" in log.read(), "the tracker does not say that it serves https")
        answer = json.loads(run("jobs", "--json", "--tracker", https, "--ca", authority.certificate))
        check(answer == {"jobs": []}, f"over TLS: {answer}")
        job = run("submit", "--model", "dqn", "--trials", "1", "--tracker", https, "--ca", authority.certificate)
        check(f"job {job} is cancelled" == run("cancel", job, "--tracker", https, "--ca", authority.certificate),
              "a job submitted over TLS cannot be cancelled")
        refused(run("jobs", "--tracker", https, code=5), "certificate", "--ca FILE")
        refused(run("jobs", "--tracker", https, "--ca", other.certificate, code=5), "certificate", "--ca FILE")
        refused(run("jobs", "--tracker", https, "--ca", folder + "/nowhere.pem", code=2), "nowhere.pem")
        refused(run("jobs", "--tracker", https.replace("https", "http"), code=5), "https")
        check(tracker.call("GET", "/v1/status")[0] == 0, "plain HTTP is answered where TLS is served")
        check(json.loads(run("jobs", "--json", "--tracker", https, "--ca", authority.certificate))["jobs"],
              "the tracker serves no more")


def half_goodbyes(folder, authority):
    """Clients that have their answers and do not say goodbye: what TLS waits for is to cost nobody a place."""
    certificate, key = authority.issue("polite")
    strangers = ssl.create_default_context(cafile=authority.certificate)
    with Tracker(folder, "--tls-certificate", certificate, "--tls-key", key) as tracker:
        silent = []
        for _ in range(1024 + 1):  # kConnections, and one
            try:
                silent.append(strangers.wrap_socket(tracker.connect(), server_hostname="127.0.0.1"))
                silent[-1].sendall(b"GET /v1/status HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
                check(b" 200 " in silent[-1].recv(4096), "no answer")
            except OSError as error:
                sys.exit(f"FAILED: {len(silent) - 1} clients that do not say goodbye keep others out: {error}")
        for client in silent:
            client.close()


def of_a_strange_certificate(folder, authority, name, **how):
    """What a client says to a server with it."""
    certificate, key = authority.issue(name, **how)
    with Tracker(folder, "--tls-certificate", certificate, "--tls-key", key) as tracker:
        return run("jobs", "--tracker", f"https://127.0.0.1:{tracker.port}", "--ca", authority.certificate, code=5)


def refused(said, *words):
    said = said[max(0, said.find("error:")):]  # a tracker tells of its start before
    check(said.startswith("error:") and len(said.splitlines()) <= 2, f"not one clear message: {said!r}")
    for word in words:
        check(word in said, f"{said!r} does not say {word!r}")


def bad_files(folder, authority):
    certificate, key = authority.issue("sound")
    _, others_key = authority.issue("other")
    with open(folder + "/junk.pem", "w") as file:
        file.write("no certificate\n")
    place = ["tracker", "--db", folder + "/never.db", "--listen", f"ipc://{folder}/never", "--http",
             f"127.0.0.1:{free_port()}"]
    for given, words in (((certificate, others_key), ("other.key", "does not belong to")),
                         ((folder + "/nowhere.pem", key), ("nowhere.pem", "No such file")),
                         ((certificate, folder + "/nowhere.key"), ("nowhere.key", "No such file")),
                         ((folder + "/junk.pem", key), ("junk.pem",)),
                         ((certificate, folder + "/junk.pem"), ("junk.pem",))):
        refused(run(*place, "--tls-certificate", given[0], "--tls-key", given[1], code=2), *words)
    refused(run(*place, "--tls-certificate", certificate, code=2), "belong together")
    os.chmod(key, 0o644)
    refused(run(*place, "--tls-certificate", certificate, "--tls-key", key, code=2), "can be read by others")


def main():
    with tempfile.TemporaryDirectory() as folder:
        authority, other = Authority(folder, "authority"), Authority(folder, "stranger")
        serves(folder, authority, other)
        refused(of_a_strange_certificate(folder, authority, "old", days=-1), "expired")
        refused(of_a_strange_certificate(folder, authority, "elsewhere", host="farm.example"), "127.0.0.1")
        bad_files(folder, authority)
    with tempfile.TemporaryDirectory() as folder:
        resource.setrlimit(resource.RLIMIT_NOFILE, (4096, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))
        half_goodbyes(folder, Authority(folder, "authority"))
    print("served over TLS; 12 mistakes told")


if __name__ == "__main__":
    main()
