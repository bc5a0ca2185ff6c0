FROM agents-sandbox-node AS agents-sandbox-agent
ARG {version_arg}
ARG NPM_CONFIG_REGISTRY
ARG PIP_INDEX_URL
ARG PIP_DEFAULT_TIMEOUT
COPY {context}/install-agent.sh /tmp/install-agent.sh
RUN : "install {binary}"; set -eu; \
    if command -v {binary} >/dev/null 2>&1; then \
        echo "{binary} is in the base image"; \
    else \
        sh /tmp/install-agent.sh; \
        if ! command -v {binary} >/dev/null; then \
            echo "agents-sandbox: the installation left no program {binary} in /opt/agents-sandbox/bin" >&2; \
            exit 1; \
        fi; \
        dir=$(dirname "$(readlink -f "$(command -v {binary})")"); \
        while [ "$dir" != / ] && [ ! -e "$dir/package.json" ]; do dir=$(dirname "$dir"); done; \
        node -p 'require(process.argv[1]).version' "$dir/package.json" >/opt/agents-sandbox/agent-version || \
            rm /opt/agents-sandbox/agent-version; \
    fi
