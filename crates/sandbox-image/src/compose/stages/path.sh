# A login shell starts from the system's own PATH: put back what the image had beyond it, in its order.
if [ -n "${AGENTS_SANDBOX_IMAGE_PATH:-}" ]; then
    _agents_sandbox_rest=$AGENTS_SANDBOX_IMAGE_PATH:
    while [ -n "$_agents_sandbox_rest" ]; do
        _agents_sandbox_dir=${_agents_sandbox_rest%%:*}
        _agents_sandbox_rest=${_agents_sandbox_rest#*:}
        case ":$PATH:" in
            *":$_agents_sandbox_dir:"*) ;;
            *) [ -z "$_agents_sandbox_dir" ] || PATH=$PATH:$_agents_sandbox_dir ;;
        esac
    done
    unset _agents_sandbox_rest _agents_sandbox_dir
    export PATH
fi
