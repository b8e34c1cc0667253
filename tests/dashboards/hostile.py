"""hostile.py DATABASE TRIAL: a trial whose texts, and those of its worker and lease, are markup and what terminals obey, and
whose samples are 2, 3, 5 and 100 µs; it was made in a year that no calendar has."""
import sqlite3
import struct
import sys

MARKUP = '<img src=x onerror="window.owned = 1"><script>window.owned = 1</script>\x1b]0;owned\x07\u202e'

with sqlite3.connect(sys.argv[1], timeout=10) as db:
    trial = int(sys.argv[2])
    db.execute("UPDATE measurement SET driver = ?, celsius = 9999, timer_seconds = 1e-300, compiler = ?, revision = ?, samples = ?, "
               "n = 4 WHERE trial = ?", (MARKUP, MARKUP, MARKUP, struct.pack("<4f", 5e-6, 1e-4, 2e-6, 3e-6), trial))
    db.execute("UPDATE trial SET error = ?, created_ms = ? WHERE id = ?", (MARKUP, 1 << 62, trial))
