#!/bin/sh
# Run by systemd in the fresh Debian that bare_debian.sh has booted: the services do their work under their units.
set -eu
cd /check

failed() {
  echo "error: $*"
  journalctl --no-pager -q -u lathe-tracker -u lathe-worker | tail -n 30
  exit 1
}
# within SECONDS COMMAND...: until it succeeds
within() {
  left=$1
  shift
  until "$@"; do
    left=$((left - 1))
    [ "$left" -gt 0 ] || failed "not within the time: $*"
    sleep 1
  done
}
says() { journalctl --no-pager -q -u "$1" | grep -q -- "$2"; }
property() { systemctl show --property "$2" --value "$1"; }
restarted() { [ "$(property "$1" NRestarts)" != 0 ]; }

systemctl enable --now lathe-tracker lathe-worker 2> /dev/null
within 60 says lathe-tracker "1 workers"
echo "the worker has come to the tracker"

systemctl kill --signal KILL lathe-tracker
within 30 restarted lathe-tracker
within 30 systemctl -q is-active lathe-tracker
systemctl stop lathe-tracker
[ "$(property lathe-tracker Result)" = success ] || failed "the tracker stopped by $(property lathe-tracker Result)"
echo "the tracker was started again when it was killed, and stops when told"

# A job in the tracker's place, which the worker takes part in.
tune --model dqn --target cpu --trials 48 --seed 2 --db services.db --out services --listen tcp://127.0.0.1:9190 \
  > job.log 2>&1 || { cat job.log; failed "the job"; }
measured=$(python3 -c '
import sqlite3
print(sqlite3.connect("services.db").execute("""
  SELECT count(*) FROM measurement JOIN worker ON worker.id = measurement.worker
  WHERE worker.name LIKE \"%/service\" AND measurement.median > 0""").fetchone()[0])')
[ "$measured" -gt 0 ] || failed "the worker's service has measured nothing"
echo "the worker measured $measured candidates, confined by itself and by its unit"

systemctl stop lathe-worker
[ "$(property lathe-worker Result)" = success ] || failed "the worker stopped by $(property lathe-worker Result)"
echo 'OPTIONS=--no-such-flag' > /etc/default/lathe-worker
systemctl start lathe-worker
within 30 systemctl -q is-failed lathe-worker
[ "$(property lathe-worker NRestarts)" = 0 ] || failed "a mistake in the options is tried again and again"
says lathe-worker "unknown flag" || failed "it does not say what is wrong with the options"
echo "the worker drains when told, and a mistake in its options is said once"
