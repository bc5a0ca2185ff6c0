#!/usr/bin/env python3
"""Hosts that a sandbox may reach or not: `beyond NAMES-OR-EMPTY CERTIFICATE-OR-EMPTY LOG ADDRESS:PORT…`

NAMES is `name=address,…`, answered at port 53 of the first address. A page answers at each ADDRESS:PORT, with TLS
at port 443. LOG gets the head of each request. Prints the ports once it listens.
"""

import http.server
import socket
import ssl
import sys
import threading

names, certificate, log, *places = sys.argv[1:]
known = dict(pair.split("=") for pair in names.split(",") if pair)


class Page(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        with open(log, "a") as out:
            out.write(f"{self.server.server_address[0]} {self.requestline}\n{self.headers}\n")
        text = f"page at {self.server.server_address[0]}\n".encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    def log_message(self, *_):
        pass


def answer(question):
    end = question.index(0, 12)
    labels, at = [], 12
    while at < end:
        labels.append(question[at + 1 : at + 1 + question[at]].decode().lower())
        at += 1 + question[at]
    address = known.get(".".join(labels))
    is_a = question[end + 1 : end + 3] == b"\0\1"
    data = b"\xc0\x0c\0\1\0\1\0\0\0\x3c\0\4" + socket.inet_aton(address) if address and is_a else b""
    flags = b"\x85\x80" if address else b"\x85\x83"
    return question[:2] + flags + b"\0\1" + bytes([0, 1 if data else 0]) + b"\0\0\0\0" + question[12 : end + 5] + data


def resolve(asked):
    while True:
        question, sender = asked.recvfrom(4096)
        asked.sendto(answer(question), sender)


if known:
    udp = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    udp.bind((places[0].split(":")[0], 53))
    threading.Thread(target=resolve, args=(udp,), daemon=True).start()
servers = []
for place in places:
    address, port = place.split(":")
    server = http.server.ThreadingHTTPServer((address, int(port)), Page)
    if port == "443":
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificate)
        # Not while it accepts: one client that does not shake hands would hold up the others.
        server.socket = context.wrap_socket(server.socket, server_side=True, do_handshake_on_connect=False)
    servers.append(server)
print(*(server.server_address[1] for server in servers), flush=True)
for server in servers[1:]:
    threading.Thread(target=server.serve_forever, daemon=True).start()
servers[0].serve_forever()
