COPY {context}/ca/ /usr/local/share/ca-certificates/agents-sandbox/
RUN : "trust the host's certificates"; set -eu; \
    extra=/usr/local/share/ca-certificates/agents-sandbox; \
    bundle=/etc/ssl/certs/ca-certificates.crt; \
    mkdir -p /etc/agents-sandbox /etc/ssl/certs; \
    cat "$extra"/*.crt > /etc/agents-sandbox/host-ca.crt; \
    if command -v update-ca-certificates >/dev/null 2>&1; then \
        update-ca-certificates; \
    elif command -v update-ca-trust >/dev/null 2>&1; then \
        cp "$extra"/*.crt /etc/pki/ca-trust/source/anchors/; \
        update-ca-trust; \
        bundle=/etc/pki/tls/certs/ca-bundle.crt; \
    else \
        cat /etc/agents-sandbox/host-ca.crt >> "$bundle"; \
    fi; \
    ln -sf "$bundle" /etc/agents-sandbox/ca-bundle.crt
