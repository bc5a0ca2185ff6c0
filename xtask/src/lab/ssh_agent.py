#!/usr/bin/env python3
"""An ssh-agent with one key: `ssh-agent-stand-in SOCKET LOG`.

It says yes to whatever it is asked, so that it shows what gets through to it: LOG gets the number of each request.
"""

import socketserver
import struct
import sys

place, log = sys.argv[1:]
LIST, KEYS, DONE = 11, b"\x0c", b"\x06"


def field(content):
    return struct.pack(">I", len(content)) + content


KEY = field(b"ssh-ed25519") + field(bytes(32))


class Client(socketserver.StreamRequestHandler):
    def handle(self):
        while head := self.rfile.read(4):
            body = self.rfile.read(struct.unpack(">I", head)[0])
            with open(log, "a") as out:
                out.write(f"request {body[0]}\n")
            keys = KEYS + struct.pack(">I", 1) + field(KEY) + field(b"me@lab")
            self.wfile.write(field(keys if body[0] == LIST else DONE))


class Agent(socketserver.ThreadingMixIn, socketserver.UnixStreamServer):
    daemon_threads = True


Agent(place, Client).serve_forever()
