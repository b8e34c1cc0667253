#!/usr/bin/env python3
"""Runs a command beside a PostgreSQL server of its own, whose address it gets as DATABASE_TEST_SERVER.

with_postgres.py COMMAND [ARGUMENT ...]: the server is on a socket in a temporary folder, gone with the command. Exits with
the command's code; with 77 where PostgreSQL is not installed.
"""

import glob
import os
import pwd
import shutil
import subprocess
import sys
import tempfile


def binary(name):
    # Debian keeps servers out of PATH.
    found = shutil.which(name) or max(glob.glob(f"/usr/lib/postgresql/*/bin/{name}"), default=None)
    if not found:
        print("SKIPPED: no PostgreSQL here (apt install postgresql): its backend is not tested", file=sys.stderr)
        sys.exit(77)
    return found


def as_somebody():
    """PostgreSQL refuses to run for root."""
    if os.geteuid() != 0:
        return [], None
    try:
        user = pwd.getpwnam("postgres")
    except KeyError:
        user = pwd.getpwnam("nobody")
    return ["setpriv", f"--reuid={user.pw_uid}", f"--regid={user.pw_gid}", "--clear-groups"], user


class Server:
    """One that has never run is started with the `with` that it is made in, and gone after it."""

    def __init__(self):
        self.initdb, self.pg_ctl = binary("initdb"), binary("pg_ctl")
        self.prefix, self.user = as_somebody()

    def __enter__(self):
        # Short: the path of a socket has 107 bytes at most.
        self.folder = tempfile.mkdtemp(prefix="lathe-pg-", dir="/tmp")
        if self.user:
            os.chown(self.folder, self.user.pw_uid, self.user.pw_gid)
        self.call(self.initdb, "-D", f"{self.folder}/data", "-U", "lathe", "--auth=trust", "-E", "UTF8", "--locale=C.UTF-8",
                  "--no-sync")
        self.address = f"postgresql://lathe@/postgres?host={self.folder.replace('/', '%2F')}"
        self.start()
        return self

    def __exit__(self, *error):
        self.stop(check=False)
        shutil.rmtree(self.folder, ignore_errors=True)

    def call(self, *words, check=True):
        subprocess.run([*self.prefix, *words], check=check, cwd=self.folder, stdout=subprocess.DEVNULL)

    def start(self):
        # A test's server need not survive a loss of power.
        options = f"-c listen_addresses='' -c unix_socket_directories={self.folder} -c fsync=off -c max_connections=50"
        self.call(self.pg_ctl, "-D", f"{self.folder}/data", "-l", f"{self.folder}/log", "-w", "-o", options, "start")

    def stop(self, check=True):
        """As a crash would: nobody is waited for, and the next start recovers from the log."""
        self.call(self.pg_ctl, "-D", f"{self.folder}/data", "-m", "immediate", "stop", check=check)

    def query(self, sql):
        """What the server answers, as text."""
        done = subprocess.run([shutil.which("psql"), "-XAt", "-h", self.folder, "-U", "lathe", "-c", sql, "postgres"],
                              check=True, capture_output=True, text=True)
        return done.stdout.strip()


def main():
    with Server() as server:
        return subprocess.run(sys.argv[1:], env=os.environ | {"DATABASE_TEST_SERVER": server.address}).returncode


if __name__ == "__main__":
    sys.exit(main())
