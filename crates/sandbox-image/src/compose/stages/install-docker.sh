set -eu
rm -f "$0"
source=user
if ! command -v dockerd >/dev/null 2>&1; then
    source=tool
    if command -v apt-get >/dev/null 2>&1; then
        export DEBIAN_FRONTEND=noninteractive
        set -- -o Acquire::Retries=3
        if [ -n "${AGENTS_SANDBOX_APT_PROXY:-}" ]; then
            set -- "$@" -o "Acquire::http::Proxy=$AGENTS_SANDBOX_APT_PROXY"
        fi
        apt-get "$@" update
        packages="docker.io iptables curl git procps tar xz-utils"
        # Distributions differ in what the engine's package holds, and older ones lack some of these.
        for package in docker-cli docker-buildx docker-compose; do
            if apt-cache show "$package" >/dev/null 2>&1; then packages="$packages $package"; fi
        done
        # shellcheck disable=SC2086
        apt-get "$@" install -y --no-install-recommends $packages
        apt-get clean
        rm -rf /var/lib/apt/lists/* /var/cache/apt/* /var/log/apt /var/log/dpkg.log
    elif command -v dnf >/dev/null 2>&1; then
        dnf install -y moby-engine docker-cli iptables curl git procps-ng tar xz
        dnf clean all
    else
        echo "agents-sandbox: docker cannot be installed in this base image; install it in the project's Dockerfile" >&2
        exit 1
    fi
fi
for program in dockerd docker iptables; do
    if ! command -v "$program" >/dev/null 2>&1; then
        echo "agents-sandbox: docker is in the image, but not $program; install it in the project's Dockerfile" >&2
        exit 1
    fi
done
getent group docker >/dev/null || groupadd docker
usermod -a -G docker dev
mkdir -p /etc/agents-sandbox /var/lib/docker
echo "$source" > /etc/agents-sandbox/docker-source
