#!/usr/bin/env bash
# The server programs that tests start: PostgreSQL, MariaDB, Redis, pgbouncer.
#
#   scripts/servers.sh missing   print the Debian package of each that is not there
#   scripts/servers.sh install   install those, where this is Debian and we are root
#
# Only the programs are wanted, tests start them by themselves. Debian would
# also start them as services and make a database cluster: both are held back
# while apt-get runs, and what holds them back is taken away again.
set -euo pipefail

missing() {
	local PATH=$PATH:/usr/sbin:/sbin dir
	for dir in /usr/lib/postgresql/*/bin; do PATH=$PATH:$dir; done
	have postgres initdb || echo postgresql
	# The core package is the server alone; its tools need the client's.
	have mariadbd mariadb-install-db my_print_defaults || echo mariadb-server-core mariadb-client-core
	have redis-server || echo redis-server
	have pgbouncer || echo pgbouncer
}

have() {
	local program
	for program; do command -v "$program" >/dev/null || return 1; done
}

policy=/usr/sbin/policy-rc.d
no_cluster=/etc/postgresql-common/createcluster.d/no-cluster-for-tests.conf
made=()

hold_back() {
	if ! [ -x $policy ] || "$policy" redis-server start >/dev/null 2>&1; then
		if [ -e $policy ]; then mv $policy $policy.saved; fi
		printf '#!/bin/sh\n# Here only while scripts/servers.sh installs packages.\nexit 101\n' >$policy
		chmod 755 $policy
		made+=("$policy")
	fi
	mkdir -p "${no_cluster%/*}"
	echo 'create_main_cluster = false' >$no_cluster
	made+=("$no_cluster")
}

let_go() {
	rm -f "${made[@]}"
	if [ -e $policy.saved ]; then mv $policy.saved $policy; fi
}

install() {
	local packages
	read -ra packages <<<"$(missing | tr '\n' ' ')"
	if [ ${#packages[@]} = 0 ]; then return 0; fi
	if ! have apt-get || [ "$(id -u)" != 0 ]; then
		echo "servers.sh: can install ${packages[*]} only on Debian as root" >&2
		return 1
	fi
	echo "servers.sh: installing ${packages[*]}" >&2
	trap let_go EXIT
	hold_back
	export DEBIAN_FRONTEND=noninteractive
	local apt=(apt-get -qq -o DPkg::Lock::Timeout=300 -o Acquire::Retries=3)
	# One source of many may be out of reach: what matters is whether the install works.
	"${apt[@]}" update </dev/null >&2 || echo "servers.sh: going on with the package lists that are there" >&2
	"${apt[@]}" install -y --no-install-recommends "${packages[@]}" </dev/null >&2
	# Not at the next boot either.
	local name
	for name in "${packages[@]}"; do
		if [ -e "/etc/init.d/$name" ]; then update-rc.d "$name" disable >&2; fi
	done
}

case ${1-} in
missing) missing ;;
install) install ;;
*)
	sed -n '2,/^set/s/^# \{0,1\}//p' "$0" >&2
	exit 2
	;;
esac
