#!/bin/bash
# A world around the sandboxes of the next cases: three hosts with names in a network namespace (with addresses such as
# the world has: no name may lead to one of the ranges for documentation), two services on
# this machine's loopback, two folders, and settings that open some of it. $LAB_KEY is a secret for one of the hosts.
world=$HOME/beyond
mkdir -p "$world" "$HOME/.config/agents-sandbox" .agents-sandbox
modprobe veth
ip netns add world
ip link add outside type veth peer name inside netns world
ip address add 93.184.216.1/24 dev outside
ip link set outside up
ip -n world link set lo up
ip -n world link set inside up
for last in 5 6 7; do ip -n world address add 93.184.216.$last/24 dev inside; done

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

names=api.example.com=93.184.216.5,other.example.com=93.184.216.6,shut.example.com=93.184.216.7,denied.example.com=93.184.216.7
ip netns exec world /in/bin/beyond-server "$names" "$world/server.pem" "$HOME/logs/beyond.log" \
  93.184.216.{5,6,7}:{80,443} > "$world/outside" 2> "$HOME/logs/beyond.err" &
outside=$!
/in/bin/beyond-server "" "" "$HOME/logs/loopback.log" 127.0.0.1:{0,0} > "$world/loopback" 2> "$HOME/logs/loopback.err" &
loopback=$!
# Each says so once it listens.
until [ -s "$world/outside" ] && [ -s "$world/loopback" ]; do
  kill -0 $outside && kill -0 $loopback || { lines "$HOME/logs/beyond.err"; lines "$HOME/logs/loopback.err"; break; }
  sleep 0.2
done
read -r open shut < "$world/loopback"

cat > .agents-sandbox/config.yaml <<YAML
network:
  provider: []
  dns-servers: ["93.184.216.5"]
  egress-allow: ["host:$open", "api.example.com", "other.example.com", "denied.example.com"]
  egress-deny: ["denied.example.com"]
YAML
# A port that nobody has, and folders beside the project.
published=$(python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
mkdir -p "$world/read" "$world/write"
echo "from the host" > "$world/read/note"
chmod 777 "$world/write"
cat > "$HOME/.config/agents-sandbox/config.yaml" <<YAML
ports: ["$published:8000"]
mounts:
  /read: { source: $world/read, readonly: true }
  /write: $world/write
YAML
# Not as a variable: then every process of these cases would have it.
LAB_KEY=sk-$(od -An -N12 -tx4 /dev/urandom | tr -d ' ')
(umask 077; printf '%s\n' "$LAB_KEY" > "$HOME/lab-key")
cat > "$HOME/.config/agents-sandbox/env.secret.yaml" <<YAML
API_KEY: { from-file: $HOME/lab-key, host: api.example.com }
YAML
chmod 600 "$HOME/.config/agents-sandbox/env.secret.yaml"

# What a page says to the guest, who asks for it without TLS.
page() { # HOST PORT
  program exec -- timeout 30 bash -c "exec 3<>/dev/tcp/$1/$2 && printf 'GET / HTTP/1.0\r\nHost: $1\r\n\r\n' >&3 && cat <&3"
}
# The guest asks for a page over TLS with a client of its own, and with the stand-in as its password.
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
