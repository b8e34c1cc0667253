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


def main():
    initdb, pg_ctl = binary("initdb"), binary("pg_ctl")
    prefix, user = as_somebody()
    # Short: the path of a socket has 107 bytes at most.
    folder = tempfile.mkdtemp(prefix="lathe-pg-", dir="/tmp")
    data, log = f"{folder}/data", f"{folder}/log"
    if user:
        os.chown(folder, user.pw_uid, user.pw_gid)
    try:
        subprocess.run(prefix + [initdb, "-D", data, "-U", "lathe", "--auth=trust", "-E", "UTF8", "--locale=C.UTF-8",
                                 "--no-sync"], check=True, cwd=folder, stdout=subprocess.DEVNULL)
        # A test's server need not survive a loss of power.
        options = f"-c listen_addresses='' -c unix_socket_directories={folder} -c fsync=off -c max_connections=50"
        subprocess.run(prefix + [pg_ctl, "-D", data, "-l", log, "-w", "-o", options, "start"], check=True, cwd=folder,
                       stdout=subprocess.DEVNULL)
        try:
            address = f"postgresql://lathe@/postgres?host={folder.replace('/', '%2F')}"
            return subprocess.run(sys.argv[1:], env=os.environ | {"DATABASE_TEST_SERVER": address}).returncode
        finally:
            subprocess.run(prefix + [pg_ctl, "-D", data, "-m", "immediate", "stop"], cwd=folder, stdout=subprocess.DEVNULL)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    sys.exit(main())
