#!/usr/bin/env python3
"""Hosts that a sandbox may reach or not: `beyond NAMES-OR-EMPTY CERTIFICATE-OR-EMPTY LOG PLACE…`

NAMES is `name=address,…`, answered at port 53 of the first place. A page answers at each `ADDRESS:PORT`, with TLS
at port 443; at `udp:ADDRESS:PORT` every datagram is answered, and at `tcp:ADDRESS:PORT` the first line of every
connection. LOG gets each request, and a line for each of the others. Prints the ports of the pages once
it listens.
"""

import http.server
import ipaddress
import socket
import ssl
import sys
import threading

names, certificate, log, *places = sys.argv[1:]
known = dict(pair.split("=") for pair in names.split(",") if pair)


def note(text):
    with open(log, "a") as out:
        out.write(text + "\n")


class Page(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.answer("")

    def do_POST(self):
        self.answer(self.rfile.read(int(self.headers["Content-Length"])).decode())

    def answer(self, body):
        note(f"{self.server.server_address[0]} {self.requestline}\n{self.headers}{body}")
        # As servers do, it repeats what it was told.
        text = f"{self.requestline} {body}\n" if body else ""
        text = f"{text}page at {self.server.server_address[0]}\n".encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    def log_message(self, *_):
        pass


class Server(http.server.ThreadingHTTPServer):
    def __init__(self, place):
        self.address_family = family(place[0])
        super().__init__(place, Page)


def family(address):
    return socket.AF_INET6 if ":" in address else socket.AF_INET


def parsed(place):
    address, port = place.rsplit(":", 1)
    return address.strip("[]"), int(port)


def answer(question):
    end = question.index(0, 12)
    labels, at = [], 12
    while at < end:
        labels.append(question[at + 1 : at + 1 + question[at]].decode().lower())
        at += 1 + question[at]
    found = known.get(".".join(labels))
    address = ipaddress.ip_address(found) if found else None
    kind = {4: b"\0\1", 6: b"\0\x1c"}.get(address.version) if address else None
    data = b""
    if kind == question[end + 1 : end + 3]:
        packed = address.packed
        data = b"\xc0\x0c" + kind + b"\0\1\0\0\0\x3c\0" + bytes([len(packed)]) + packed
    flags = b"\x85\x80" if address else b"\x85\x83"
    return question[:2] + flags + b"\0\1" + bytes([0, 1 if data else 0]) + b"\0\0\0\0" + question[12 : end + 5] + data


def resolve(asked):
    while True:
        question, sender = asked.recvfrom(4096)
        asked.sendto(answer(question), sender)


def echo(heard, address):
    while True:
        words, sender = heard.recvfrom(4096)
        note(f"{address} datagram {words.decode(errors='replace').strip()}")
        heard.sendto(f"datagram at {address}\n".encode(), sender)


def read_lines(listener, address):
    while True:
        connection, _ = listener.accept()
        with connection:
            # One that says nothing must not hold up the others.
            connection.settimeout(10)
            try:
                words = connection.makefile(errors="replace").readline().strip()
                note(f"{address} line {words}")
                connection.sendall(f"line at {address}\n".encode())
            except OSError:
                pass


def datagrams(place):
    heard = socket.socket(family(place[0]), socket.SOCK_DGRAM)
    heard.bind(place)
    return heard


if known:
    udp = datagrams((parsed(places[0])[0], 53))
    threading.Thread(target=resolve, args=(udp,), daemon=True).start()
servers = []
for text in places:
    if text.startswith("udp:"):
        place = parsed(text.removeprefix("udp:"))
        threading.Thread(target=echo, args=(datagrams(place), place[0]), daemon=True).start()
        continue
    if text.startswith("tcp:"):
        place = parsed(text.removeprefix("tcp:"))
        listener = socket.create_server(place, family=family(place[0]))
        threading.Thread(target=read_lines, args=(listener, place[0]), daemon=True).start()
        continue
    server = Server(parsed(text))
    if server.server_address[1] == 443:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificate)
        # Not while it accepts: one client that does not shake hands would hold up the others.
        server.socket = context.wrap_socket(server.socket, server_side=True, do_handshake_on_connect=False)
    servers.append(server)
print(*(server.server_address[1] for server in servers), flush=True)
for server in servers[1:]:
    threading.Thread(target=server.serve_forever, daemon=True).start()
servers[0].serve_forever()
