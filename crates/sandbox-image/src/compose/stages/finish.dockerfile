USER root
{shell}
COPY --from=agents-sandbox-agent /opt/agents-sandbox /opt/agents-sandbox
COPY {context}/agents-sandbox-path.sh /etc/profile.d/agents-sandbox-path.sh
{env}
ENV PATH={home}/.local/bin:${PATH}
ENV AGENTS_SANDBOX_IMAGE_PATH=${PATH}
RUN : "finish the image"; set -eu; \
    binary=$(command -v {binary} || true); \
    if [ -z "$binary" ]; then \
        echo "agents-sandbox: {binary} is not on the image's PATH; does the Dockerfile replace PATH?" >&2; \
        exit 1; \
    fi; \
{node_check}
    case "$(readlink -f "$binary")" in /opt/agents-sandbox/*) source=tool ;; *) source=user ;; esac; \
    mkdir -p /etc/agents-sandbox {home}/.local/bin {workspace}; \
    echo "$source" > /etc/agents-sandbox/agent-source; \
    if [ "$source" = tool ] && [ -e /opt/agents-sandbox/agent-version ]; then \
        cp /opt/agents-sandbox/agent-version /etc/agents-sandbox/agent-version; \
    fi; \
    find {home} {workspace} ! -user dev -exec chown -h "$USER_UID:$USER_GID" {} +
ARG AGENTS_SANDBOX_BASE
ARG AGENTS_SANDBOX_DOCKERFILE_ID
LABEL {label_managed}=true \
    {label_agent}={agent} \
    {label_base}=${AGENTS_SANDBOX_BASE} \
    {label_id}=${AGENTS_SANDBOX_DOCKERFILE_ID}
USER dev
WORKDIR {workspace}
