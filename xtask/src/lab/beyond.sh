#!/bin/bash
# A world around the sandboxes of the next cases: hosts with names in a network namespace (with addresses such as
# the world has: no name may lead to one of the ranges for documentation), services on this machine's loopback and at
# one of its own addresses, folders and files, and settings that open some of it. $LAB_KEY is a secret for one of the
# hosts. What stays shut answers this machine itself: `here` asks it.
world=$HOME/beyond
mkdir -p "$world" "$HOME/.config/agents-sandbox" .agents-sandbox
: > "$HOME/logs/beyond.log"; : > "$HOME/logs/loopback.log"
# Those of another world say nothing about this one.
rm -f "$world/outside" "$world/loopback" "$world/proxy"
modprobe veth
ip netns add world
ip link add outside type veth peer name inside netns world
ip address add 93.184.216.1/24 dev outside
ip address add 161.0.0.1/24 dev outside
ip address add 2606:2800:220:1::1/64 dev outside nodad
ip link set outside up
ip -n world link set lo up
ip -n world link set inside up
for last in 5 6 7; do
  ip -n world address add 93.184.216.$last/24 dev inside
  ip -n world address add 2606:2800:220:1::$last/64 dev inside nodad
done
# Two of a wide network, two of the company's, and what clouds tell their machines.
for address in 161.0.0.5/24 161.0.0.6/24 10.77.0.5/32 10.77.0.6/32 169.254.169.254/32 169.254.170.2/32; do
  ip -n world address add $address dev inside
done
for address in 10.77.0.0/24 169.254.169.254 169.254.170.2; do ip route add $address dev outside; done
# A guest has IPv6 where this machine has a way for it, and pings where this machine lets everybody.
ip -6 route add default via 2606:2800:220:1::5 dev outside
ip route add default via 93.184.216.5 dev outside
echo "0 2147483647" > /proc/sys/net/ipv4/ping_group_range

openssl req -quiet -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -subj "/CN=the lab" -days 2 \
  -keyout "$world/authority.key" -out "$world/authority.pem"
openssl req -quiet -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -subj "/CN=beyond" \
  -keyout "$world/server.key" -out "$world/server.csr"
openssl x509 -req -in "$world/server.csr" -CA "$world/authority.pem" -CAkey "$world/authority.key" -days 2 \
  -extfile <(echo "subjectAltName=DNS:api.example.com,DNS:other.example.com,DNS:shut.example.com") \
  -out "$world/server.pem" 2>/dev/null
cat "$world/server.key" >> "$world/server.pem"
# What this machine trusts; its disk is thrown away.
cat "$world/authority.pem" >> /etc/ssl/certs/ca-certificates.crt

names=api.example.com=93.184.216.5,other.example.com=93.184.216.6,shut.example.com=93.184.216.7
names=$names,denied.example.com=93.184.216.7,six.example.com=2606:2800:220:1::6,shut6.example.com=2606:2800:220:1::7
names=$names,rebind.example.com=10.77.0.5,intranet.example.com=10.77.0.6,meta.example.com=169.254.169.254
names=$names,loop.example.com=127.0.0.1
ip netns exec world /in/bin/beyond-server "$names" "$world/server.pem" "$HOME/logs/beyond.log" \
  93.184.216.{5,6,7}:{80,443} 93.184.216.6:{853,8853} '[2606:2800:220:1::'{5,6,7}']:'{80,8080} \
  161.0.0.{5,6}:80 10.77.0.{5,6}:80 169.254.{169.254,170.2}:80 \
  udp:93.184.216.{6,7}:7000 'udp:[2606:2800:220:1::'{5,7}']:7000' 'tcp:[2606:2800:220:1::'{5,7}']:7001' \
  > "$world/outside" 2> "$HOME/logs/beyond.err" &
outside=$!
/in/bin/beyond-server "" "" "$HOME/logs/loopback.log" 127.0.0.1:{0,0} 161.0.0.1:0 \
  > "$world/loopback" 2> "$HOME/logs/loopback.err" &
loopback=$!
# Each says so once it listens.
until [ -s "$world/outside" ] && [ -s "$world/loopback" ]; do
  kill -0 $outside && kill -0 $loopback || { lines "$HOME/logs/beyond.err"; lines "$HOME/logs/loopback.err"; break; }
  sleep 0.2
done
read -r open shut own < "$world/loopback"

cat > .agents-sandbox/config.yaml <<YAML
network:
  provider: []
  dns-servers: ["93.184.216.5"]
  egress-allow:
    - host:$open
    - api.example.com
    - other.example.com
    - denied.example.com
    - six.example.com
    - inside.example.com
    - rebind.example.com
    - meta.example.com
    - loop.example.com
    - intranet.example.com
    - 10.77.0.6
    - 160.0.0.0/4
    - 169.254.170.2
    - 93.184.216.6:7000
    - 93.184.216.6:853
    - 93.184.216.6:8853
    - "[2606:2800:220:1::5]:7000"
    - "[2606:2800:220:1::5]:7001"
    - "[2606:2800:220:1::5]:8080"
  egress-deny: [denied.example.com, 161.0.0.6]
YAML
# Ports that nobody has, and folders beside the project.
free() { python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])'; }
published=$(free)
mkdir -p "$world/read" "$world/write"
echo "from the host" > "$world/read/note"
echo "one file" > "$world/one"
chmod 777 "$world/write"
# Settings of a person. One of the runtimes mounts no single files.
settings() { # FURTHER-MOUNT…
  cat > "$HOME/.config/agents-sandbox/config.yaml" <<YAML
ports: ["$published:8000"]
mounts:
  /read: { source: $world/read, readonly: true }
  /write: $world/write
YAML
  printf '  %s\n' "$@" >> "$HOME/.config/agents-sandbox/config.yaml"
}
single="/etc/single: { source: $world/one, readonly: true }"
if [ "$AGENTS_SANDBOX_RUNTIME" = qemu ]; then settings "$single"; else settings; fi
# Not as a variable: then every process of these cases would have it.
LAB_KEY=sk-$(od -An -N12 -tx4 /dev/urandom | tr -d ' ')
(umask 077; printf '%s\n' "$LAB_KEY" > "$HOME/lab-key")
# Another one, which goes to more places of a request.
LAB_WORD=word-$(od -An -N12 -tx4 /dev/urandom | tr -d ' ')
(umask 077; printf '%s\n' "$LAB_WORD" > "$HOME/lab-word")
cat > "$HOME/.config/agents-sandbox/env.secret.yaml" <<YAML
API_KEY: { from-file: $HOME/lab-key, host: api.example.com }
API_WORD: { from-file: $HOME/lab-word, host: api.example.com, query: true, body: true }
YAML
chmod 600 "$HOME/.config/agents-sandbox/env.secret.yaml"
# A client with TLS for the guest, whose own fetches files and nothing else.
mkdir -p "$world/read/tls"
cp "$(command -v openssl)" $(ldd "$(command -v openssl)" | grep -o '/[^ ]*lib\(ssl\|crypto\|z\|zstd\)\.so[^ ]*') "$world/read/tls"

# Takes the world away again, for whoever makes another.
leave_world() { kill "$outside" "$loopback"; wait "$outside" "$loopback" 2>/dev/null; ip link del outside; ip netns del world; }

# The guest asks for a page at each place, which may be said to be another host: a line each, with what it got.
pages() { # HOST/PORT[/NAME]…
  program exec -- bash -c 'for place; do
    IFS=/ read -r host port name <<< "$place"
    case "${name:=$host}" in *:*) name="[$name]" ;; esac
    got=$(timeout 20 bash -c "exec 3<>/dev/tcp/$host/$port && printf \"GET / HTTP/1.0\r\nHost: $name\r\n\r\n\" >&3 &&
      cat <&3" 2>/dev/null | tr -cd "[:print:]\n" | tail -n 1)
    echo "$place: $got"
  done' pages "$@"
}
# The same with a line that is no HTTP.
plain_lines() { # HOST/PORT…
  program exec -- bash -c 'for place; do
    got=$(timeout 20 bash -c "exec 3<>/dev/tcp/$place && printf \"a line\r\n\" >&3 && cat <&3" 2>/dev/null | tail -n 1)
    echo "$place: $got"
  done' plain_lines "$@"
}
# The same with a datagram.
datagrams() { # HOST/PORT…
  program exec -- bash -c 'for place; do
    got=$(timeout 8 bash -c "exec 3<>/dev/udp/$place && echo hello >&3 && dd bs=512 count=1 status=none <&3" 2>/dev/null)
    echo "$place: $got"
  done' datagrams "$@"
}
# The same with a ping, which only root may send.
ping='use Socket; socket(my $s, PF_INET, SOCK_RAW, 1) or die "socket: $!"; my $p = pack("C2n3a8", 8, 0, 0, 7, 1, "sandbox!");
  my $c = unpack("%32n*", $p); $c = ($c >> 16) + ($c & 0xffff); $c += $c >> 16; substr($p, 2, 2) = pack("n", ~$c & 0xffff);
  send($s, $p, 0, sockaddr_in(0, inet_aton($ARGV[0]))) or die "send: $!"; alarm 8;
  while (defined recv($s, my $m, 1500, 0)) { if (ord(substr($m, 20)) == 0) { print "answer"; exit } }'
pings() { # ADDRESS…
  program exec --root -- bash -c 'ping=$1; shift; for place; do echo "$place: $(perl -e "$ping" "$place" 2>&1)"; done' \
    pings "$ping" "$@"
}
# What each name leads to in the guest.
resolved() { # NAME…
  program exec -- bash -c 'for name; do echo "$name: $(getent ahosts "$name" | cut -d " " -f 1 | sort -u | tr "\n" " ")"; done' \
    resolved "$@"
}
# The guest says something in the query and in the body of a request over TLS.
post() { # HOST WORD-OF-THE-QUERY WORD-OF-THE-BODY
  program exec -- sh -c 'printf "POST /form?word=%s HTTP/1.1\r\nHost: %s\r\nContent-Length: %d\r\nConnection: close\r\n\r\n%s" \
      "$2" "$1" "${#3}" "$3" |
    LD_LIBRARY_PATH=/read/tls timeout 60 /read/tls/openssl s_client -quiet -verify_return_error \
      -CAfile /etc/ssl/certs/ca-certificates.crt -connect "$1:443" -servername "$1" 2>&1' post "$@"
}
got() { says "^$1: $2"; } # PLACE BEGINNING
got_nothing() { says "^$1: " && ! says "^$1: \(page\|line\|datagram\|answer\)"; }
# What stays shut for the guest is there for this machine.
here() { # HOST PORT
  timeout 10 bash -c "exec 3<>/dev/tcp/$1/$2 && printf 'GET /here HTTP/1.0\r\nHost: $1\r\n\r\n' >&3 && cat <&3" | grep -q "page at $1"
}
here_in_tls() { # ADDRESS NAME
  printf 'GET /here HTTP/1.0\r\n\r\n' | timeout 10 openssl s_client -quiet -connect "$1:443" -servername "$2" 2>/dev/null |
    grep -q "page at $1"
}
# The guest asks for a page over TLS with a client of its own; of a host that it finds at ADDRESS, if there is one,
# whatever the resolver says.
fetch() { # HOST [ADDRESS]
  program exec --root -- sh -c 'rm -f /tmp/got /etc/apt/auth.conf; cp /etc/hosts /tmp/hosts
    [ -z "$2" ] || echo "$2 $1" >> /etc/hosts
    timeout 90 /usr/lib/apt/apt-helper -o Acquire::Retries=0 download-file "https://$1/y" /tmp/got 2>&1; cat /tmp/got
    cat /tmp/hosts > /etc/hosts' fetch "$1" "${2:-}"
}
# The same with the stand-in as its password.
ask() { # HOST
  program exec --root -- sh -c "rm -f /tmp/got
    printf 'machine $1 login user password %s\n' \"\$API_KEY\" > /etc/apt/auth.conf
    timeout 90 /usr/lib/apt/apt-helper -o Acquire::Retries=0 download-file https://$1/x /tmp/got 2>&1; cat /tmp/got"
}
heard() { grep -qF -- "$1" "$HOME/logs/beyond.log"; }
never_heard() { ! heard "$1"; }
# Files of the program and of microsandbox; disks are too large to be read here.
# Processes of this machine that have it in their environment or their command line; not whoever searches.
in_processes() { grep -lF -f <(printf '%s\n' "$1") /proc/[0-9]*/environ /proc/[0-9]*/cmdline 2>/dev/null; }
in_files() { find "$HOME/.local/share/agents-sandbox" "$HOME/.config" . -type f -size -8M -exec grep -lF -- "$1" {} +; }
