#!/bin/bash
# The real opencode at work in a sandbox on microsandbox, with a fake model behind it on the host.
. /in/bin/words
export AGENTS_SANDBOX_RUNTIME=microsandbox AGENTS_SANDBOX_MEMORY=1536M
echo agent > /run/image
mkdir -p "$HOME/talk/.agents-sandbox/opencode" "$HOME/.config/agents-sandbox"
# The lab's image has no variables of the agent's recipe. What it would ask of the network nobody answers here, and
# npm alone asks for more than a minute. And what looks like a processor to microsandbox is emulated: the upper tiers of
# JavaScriptCore's compiler cost more than they give.
cat > "$HOME/.config/agents-sandbox/env" <<ENV
OPENCODE_DISABLE_AUTOUPDATE=true
OPENCODE_DISABLE_MODELS_FETCH=1
OPENCODE_DISABLE_LSP_DOWNLOAD=1
OPENCODE_DISABLE_DEFAULT_PLUGINS=1
npm_config_fetch_retries=0
BUN_JSC_useDFGJIT=0
BUN_JSC_useFTLJIT=0
ENV
cd "$HOME/talk" || exit 1
# A sandbox has IPv4 where this machine knows a way to this address.
ip address add 192.0.2.1/32 dev lo

coproc PROVIDER { exec python3 /in/bin/fake-provider 0 "$HOME/logs/provider.log" 2>"$HOME/logs/provider.err"; }
provider=$PROVIDER_PID
read -r port <&"${PROVIDER[0]}"
cat > .agents-sandbox/config.yaml <<YAML
network:
  provider: []
  egress-allow: ["host:$port"]
YAML
cat > .agents-sandbox/opencode/opencode-lab.json <<JSON
{
  "autoupdate": false,
  "share": "disabled",
  "enabled_providers": ["fake"],
  "model": "fake/fake-1",
  "small_model": "fake/fake-1",
  "provider": { "fake": {
    "npm": "@ai-sdk/openai-compatible",
    "name": "Fake",
    "options": { "baseURL": "http://host.agents-sandbox.internal:$port/v1", "apiKey": "dummy" },
    "models": { "fake-1": { "name": "Fake 1", "tool_call": true, "limit": { "context": 100000, "output": 4096 } } }
  } }
}
JSON

begin an_agent_changes_a_file
# Two starts of the agent, one after the other: its server's, and in a folder without git that of `run` itself.
patience=840
program -l verbose run -- run "TOOL:echo made by the agent > made.txt"
must "exit code $code" test "$code" = 0
must "it did not answer after its tool" says "(after tool)"
must "the file of the agent is not there" test "$(cat made.txt)" = "made by the agent"
program sandbox inspect
must "the sandbox is elsewhere" says '"runtime": "microsandbox"'
program stop -f
end

kill "$provider"
verdict
