# Two commands: `make demo` shows the program at work, `make test` runs every test.
# Both install what a fresh Debian or Ubuntu machine lacks, and can be repeated.

.PHONY: demo test install-needs check

demo:
	@scripts/demo

test:
	@scripts/test

# What `make demo` and `make test` need from the system's package manager.
install-needs:
	@scripts/install-needs demo test

# The checks of `make test` that need no virtual machine.
check:
	@scripts/check
