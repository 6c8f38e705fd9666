"""A service manager's socket: runs a program with NOTIFY_SOCKET set, prints who sent what, and ends it with SIGTERM.

notify_socket.py SOCKET COUNT PROGRAM ARGUMENTS...

Prints a JSON line for each datagram: whether it came from the program's own process, and its text. After COUNT of them the program
gets SIGTERM; then one more is waited for, and the program's exit code is the last line.
"""
import json
import os
import socket
import struct
import subprocess
import sys

path, count, command = sys.argv[1], int(sys.argv[2]), sys.argv[3:]
listener = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
listener.bind("\0" + path[1:] if path.startswith("@") else path)
# Who sends is what NotifyAccess=main looks at.
listener.setsockopt(socket.SOL_SOCKET, socket.SO_PASSCRED, 1)
program = subprocess.Popen(command, stdout=subprocess.DEVNULL, env={**os.environ, "NOTIFY_SOCKET": path})


def receive():
    text, ancillary, _, _ = listener.recvmsg(4096, socket.CMSG_SPACE(12))
    pid, _, _ = struct.unpack("iii", ancillary[0][2])
    print(json.dumps({"own": pid == program.pid, "text": text.decode()}), flush=True)
    return text


for _ in range(count):
    receive()
program.terminate()
while not receive().startswith(b"STOPPING"):
    pass
print(program.wait(), flush=True)
