#!/usr/bin/env python3
"""A proxy such as companies have: `company-proxy NAMES LOG ADDRESS:PORT`

It takes HTTP and CONNECT, by name alone, from whoever says `me` and `hunter22`, and knows NAMES (`name=address,…`). LOG gets
the first line of each request. Prints `listens` once it does.
"""

import base64
import socket
import sys
import threading
import urllib.parse

names, log, place = sys.argv[1:]
known = dict(pair.split("=") for pair in names.split(",") if pair)
wanted = "Basic " + base64.b64encode(b"me:hunter22").decode()


def note(text):
    with open(log, "a") as out:
        out.write(text + "\n")


def pump(source, sink):
    try:
        while data := source.recv(65536):
            sink.sendall(data)
        sink.shutdown(socket.SHUT_WR)
    except OSError:
        pass


def serve(client):
    reader = client.makefile("rb")
    first = reader.readline().decode(errors="replace").strip()
    fields = []
    while (line := reader.readline()) not in (b"\r\n", b""):
        fields.append(line)
    note(first)
    said = {name.lower(): text.strip() for name, _, text in (line.decode().partition(":") for line in fields)}
    if said.get("proxy-authorization") != wanted:
        client.sendall(b"HTTP/1.1 407 Proxy Authentication Required\r\nProxy-Authenticate: Basic\r\nContent-Length: 0\r\n\r\n")
        return
    method, target, version = first.split(" ")
    url = urllib.parse.urlsplit(f"//{target}" if method == "CONNECT" else target)
    if url.hostname not in known:
        client.sendall(b"HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\n\r\n")
        return
    server = socket.create_connection((known[url.hostname], url.port or 80), timeout=30)
    if method == "CONNECT":
        client.sendall(b"HTTP/1.1 200 OK\r\n\r\n")
    else:
        rest = b"".join(line for line in fields if not line.lower().startswith(b"proxy-"))
        server.sendall(f"{method} {url.path or '/'} {version}\r\n".encode() + rest + b"\r\n")
    threading.Thread(target=pump, args=(server, client), daemon=True).start()
    # What came with the head is in the reader.
    try:
        while data := reader.read1(65536):
            server.sendall(data)
        server.shutdown(socket.SHUT_WR)
    except OSError:
        pass


address, port = place.rsplit(":", 1)
listener = socket.create_server((address, int(port)))
print("listens", flush=True)
while True:
    threading.Thread(target=serve, args=(listener.accept()[0],), daemon=True).start()
