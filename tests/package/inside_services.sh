#!/bin/sh
# Run by systemd in the fresh Debian that bare_debian.sh has booted: the services do their work under their units.
set -eu
cd /check

failed() {
  echo "error: $*"
  journalctl --no-pager -q -u lathe-tracker -u lathe-worker -u lathe-runner | tail -n 30
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

systemctl enable --now lathe-tracker lathe-worker lathe-runner 2> /dev/null
within 60 says lathe-tracker "2 workers"
echo "worker and runner have come to the tracker"

systemctl kill --signal KILL lathe-tracker
within 30 restarted lathe-tracker
within 30 systemctl -q is-active lathe-tracker
echo "the tracker was started again when it was killed"

service=http://127.0.0.1:9191
asked() { tune "$@" --tracker $service --token-file alice.token; }
refused() { ! tune jobs --tracker $service > refused.log 2>&1 && grep -q "token is needed" refused.log; }
within 30 refused
tune token --name alice --out alice.token >> /etc/lathe/principals
within 30 asked jobs > jobs.log 2>&1
python3 -c 'import sys, urllib.request; sys.exit(b"app.js" not in urllib.request.urlopen(sys.argv[1]).read())' $service ||
  failed "there are no pages"
asked --model dqn --target cpu --trials 48 --seed 2 --out services > job.log 2>&1 || { cat job.log; failed "the job"; }
tune run --model services/dqn.lathe > /dev/null || failed "the job's module does not run"
for unit in lathe-worker lathe-runner; do
  measured=$(python3 -c '
import sqlite3, sys
print(sqlite3.connect("file:/var/lib/lathe-tracker/tuning.db?mode=ro", uri=True).execute("""
  SELECT count(*) FROM measurement JOIN worker ON worker.id = measurement.worker
  WHERE worker.name LIKE "%/" || ? AND measurement.median > 0""", sys.argv[1:]).fetchone()[0])' $unit)
  [ "$measured" -gt 0 ] || failed "$unit has measured nothing"
  echo "$unit measured $measured candidates of a user's job, confined by itself and by its unit"
done

for unit in lathe-runner lathe-worker lathe-tracker; do
  systemctl stop $unit
  [ "$(property $unit Result)" = success ] || failed "$unit stopped by $(property $unit Result)"
done
echo 'OPTIONS=--no-such-flag' > /etc/default/lathe-worker
systemctl start lathe-worker
within 30 systemctl -q is-failed lathe-worker
[ "$(property lathe-worker NRestarts)" = 0 ] || failed "a mistake in the options is tried again and again"
says lathe-worker "unknown flag" || failed "it does not say what is wrong with the options"
echo "all stop when told; a mistake in the options is said once"
