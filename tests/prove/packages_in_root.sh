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
ccatune-bpf --version
test -e /lib/systemd/system/ccatune-agent.service || fail 'the unit of the agent'
test -e /lib/systemd/system/ccatune-agent.service.d/bpf.conf || fail 'the rights of the unit for ccatune-bpf'
dkms status
modules="ccatune tcp_rtcp $(sed -n 's/^CCA_ALGORITHM(\([a-z0-9_]*\), [A-Z]*, MODULE,.*/tcp_\1/p' /usr/src/ccatune-*/core/params.def | tr '\n' ' ')"
for kernel in $kernels; do
	for module in $modules; do
		ls "/lib/modules/$kernel/updates/dkms/$module".ko* >/dev/null || fail "the module $module for $kernel"
	done
	echo "modules for $kernel: $(echo "$modules" | wc -w)"
done

# First without their configuration files, as most operators do, then all of it.
dpkg --remove ccatune-agent ccatune-bpf ccatune-dkms
dpkg --purge ccatune-agent ccatune-bpf ccatune-dkms
rm -r "$folder"
left=$(find / -xdev \( -name '*ccatune*' -o -name 'tcp_gr*' \) ! -path '/proc/*' ! -path '/sys/*')
[ -z "$left" ] || fail "nothing left after removal, got: $left"
echo 'installed, used and removed: nothing left'
