"""Runs a program in a pseudo-terminal of 100 columns: what comes on stdin is typed, what it writes goes to stdout."""

import fcntl
import os
import pty
import select
import signal
import struct
import sys
import termios

child, master = pty.fork()
if child == 0:
    os.execvp(sys.argv[1], sys.argv[1:])
fcntl.ioctl(master, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 100, 0, 0))
typed = [0]
while True:
    ready, _, _ = select.select([master, *typed], [], [])
    if master in ready:
        try:
            written = os.read(master, 65536)
        except OSError:
            break  # the last process of the terminal has ended
        if not written:
            break
        os.write(1, written)
    if 0 in ready:
        keys = os.read(0, 65536)
        if keys:
            os.write(master, keys)
        else:
            typed = []
            os.kill(child, signal.SIGHUP)
_, status = os.waitpid(child, 0)
sys.exit(os.waitstatus_to_exitcode(status) & 0xFF)
