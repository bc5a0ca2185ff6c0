FROM {parent} AS agents-sandbox-runner
USER root
ARG USER_UID=1000
ARG USER_GID=1000
RUN : "make the user dev"; set -eu; \
    for tool in groupadd groupmod useradd usermod getent; do \
        if ! command -v "$tool" >/dev/null 2>&1; then \
            echo "agents-sandbox: the base image has no $tool; it must be able to make users, as Debian, Ubuntu and Fedora are" >&2; \
            exit 1; \
        fi; \
    done; \
    if ! getent group "$USER_GID" >/dev/null; then \
        if getent group dev >/dev/null; then groupmod -g "$USER_GID" dev; else groupadd -g "$USER_GID" dev; fi; \
    fi; \
    shell=$(command -v bash || command -v zsh || echo /bin/sh); \
    owner=$(getent passwd "$USER_UID" | cut -d: -f1); \
    mkdir -p {home}; \
    if getent passwd dev >/dev/null; then \
        usermod -o -u "$USER_UID" -g "$USER_GID" -d {home} -s "$shell" dev; \
    elif [ -n "$owner" ] && [ "$USER_UID" -ge 1000 ]; then \
        usermod -l dev -g "$USER_GID" -d {home} -s "$shell" "$owner"; \
    else \
        useradd -l -o -M -N -u "$USER_UID" -g "$USER_GID" -d {home} -s "$shell" dev; \
    fi; \
    if [ -d /etc/skel ]; then cp -R /etc/skel/. {home}/; fi; \
    chown -R "$USER_UID:$USER_GID" {home}; \
    chmod 0755 {home}
ENV PATH=${PATH:-/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin}:/opt/agents-sandbox/bin
