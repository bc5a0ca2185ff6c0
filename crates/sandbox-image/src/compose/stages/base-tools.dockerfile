FROM ${AGENTS_SANDBOX_BASE_IMAGE} AS agents-sandbox-base
ENV LANG=C.UTF-8
{trust}
ARG AGENTS_SANDBOX_APT_PROXY
RUN : "install the tools of the base"; set -eu; \
    export DEBIAN_FRONTEND=noninteractive; \
    set -- -o Acquire::Retries=3; \
    if [ -n "${AGENTS_SANDBOX_APT_PROXY:-}" ]; then \
        set -- "$@" -o "Acquire::http::Proxy=$AGENTS_SANDBOX_APT_PROXY"; \
    fi; \
    apt-get "$@" update; \
    apt-get "$@" install -y --no-install-recommends \
        bash ca-certificates curl file gawk git iproute2 iptables jq less lz4 moreutils \
        net-tools openssh-client parallel patch procps recode ripgrep unzip uuid-runtime \
        wget xz-utils yq zip; \
    apt-get clean; \
    rm -rf /var/lib/apt/lists/* /var/cache/apt/* /var/cache/debconf/*-old /var/log/apt /var/log/dpkg.log
