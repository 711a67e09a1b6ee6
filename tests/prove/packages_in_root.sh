#!/bin/sh
# SPDX-License-Identifier: MIT
# In a new Debian root: installs the packages in FOLDER, uses them, and removes them. Usage: packages_in_root.sh FOLDER
set -eu
folder=$1

fail() {
	echo "packages: expected $*" >&2
	exit 1
}

# The headers' own folders name the kernels.
kernels=$(cd /lib/modules && echo *)
dpkg --install "$folder"/*.deb

ccatune-agent --help >/dev/null
ccatune-agent enable --help >/dev/null
ccatune-agent unit --bpf >/dev/null
ccatune-agent observe --unit >/dev/null
ccatune-bpf --version
test -e /lib/systemd/system/ccatune-agent.service || fail 'the unit of the agent'
test -e /lib/systemd/system/ccatune-observe.service || fail 'the unit of observe'
test -e /lib/systemd/system/ccatune-agent.service.d/bpf.conf || fail 'the rights of the unit for ccatune-bpf'
dkms status
modules="ccatune tcp_rtcp $(sed -n -e 's/^CCA_ALGORITHM(\([a-z0-9_]*\), [A-Z]*, MODULE,.*/tcp_\1/p' \
	-e 's/^CCA_ALGORITHM(\([a-z0-9_]*\), [A-Z]*, NAMESAKE,.*/tcp_ccatune_\1/p' /usr/src/ccatune-*/core/params.def | tr '\n' ' ')"
for kernel in $kernels; do
	for module in $modules; do
		ls "/lib/modules/$kernel/updates/dkms/$module".ko* >/dev/null || fail "the module $module for $kernel"
	done
	echo "modules for $kernel: $(echo "$modules" | wc -w)"
done

# The service, by the commands of docs/quickstart.md. Systemd does not run here, so the units' command lines do.
unit_command() {
	sed -n 's/^ExecStart=//p' "/lib/systemd/system/$1.service"
}

registry=''
commands=0
cd "$folder"
sed -n '/^```$/,/^```$/{/^```$/d;p}; /^## /q' quickstart.md >commands
while read -r line; do
	commands=$((commands + 1))
	case $line in
	apt\ *) ;; # dpkg, above
	*enable\ gr) ;; # would load GR into the kernel of this machine
	*now\ ccatune-api)
		# shellcheck disable=SC2046 # a list of words
		setpriv --reuid=ccatune --regid=ccatune --init-groups --no-new-privs $(unit_command ccatune-api) >api.log 2>&1 &
		registry=$!
		for _ in $(seq 100); do grep -q '^url ' api.log && break || sleep 0.2; done
		;;
	*now\ ccatune-agent)
		# The agent's own package has no stand-in for the kernel's files, and says what this kernel lacks.
		ccatune-agent --dry-run >dry-run.log || grep -q 'registry answers' dry-run.log || fail 'an answer of the registry'
		/opt/ccatune-server/bin/python3 -I -m serving.agent --config /etc/ccatune/agent.toml --stand-in "$folder/try" \
			--once | grep '^gr: InSync; offered serial 1, in force serial 1 ' || fail 'a signed table in force'
		;;
	ccatune-agent\ status*) ;; # needs the agent that systemd would keep running
	*) $line ;;
	esac
done <commands
[ "$commands" -le 8 ] || fail "at most 8 commands, got $commands"
ccatune quickstart | grep '^made' && fail 'a repetition to keep everything'
for file in /var/lib/ccatune /var/lib/ccatune/registry.db; do
	[ "$(stat -c %U $file)" = ccatune ] || fail "ccatune as the owner of $file"
done
[ "$(stat -c %U:%G:%a /etc/ccatune/registry.pem)" = root:ccatune:640 ] || fail 'a key that the service can only read'
! setpriv --reuid=ccatune --regid=ccatune --init-groups cat /etc/ccatune/offline/publisher.pem 2>/dev/null ||
	fail 'a key that the service cannot read'
/opt/ccatune-server/bin/python3 -I -c 'import scipy.optimize, matplotlib.pyplot, training.cli, authlib'
kill "$registry"
wait "$registry" || fail "an orderly end of the registry, got $?: $(cat api.log)"
cd /

# An upgrade keeps the configuration.
sum=$(cat /etc/ccatune/* /etc/ccatune/offline/* 2>/dev/null | sha256sum)
dpkg --install "$folder"/ccatune-server_*.deb
[ "$(cat /etc/ccatune/* /etc/ccatune/offline/* 2>/dev/null | sha256sum)" = "$sum" ] || fail 'unchanged files in /etc/ccatune'

# First without their configuration files, as most operators do, then all of it.
dpkg --remove ccatune-server
test -e /etc/ccatune/registry.yaml || fail 'settings that stay after a removal'
dpkg --purge ccatune-server
test -e /etc/ccatune/agent.toml || fail 'settings of the agent, which is still installed'
rm -r /etc/ccatune /var/lib/ccatune-agent
dpkg --remove ccatune-agent ccatune-bpf ccatune-dkms
dpkg --purge ccatune-agent ccatune-bpf ccatune-dkms
rm -r "$folder"
left=$(find / -xdev \( -name '*ccatune*' -o -name 'tcp_gr*' \) ! -path '/proc/*' ! -path '/sys/*')
[ -z "$left" ] || fail "nothing left after removal, got: $left"
! getent passwd ccatune || fail 'no user ccatune after the purge'
echo 'installed, used and removed: nothing left'
