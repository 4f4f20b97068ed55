# SPDX-License-Identifier: Apache-2.0
# The first process of a lab host at each of its boots; it gives the host what a machine gets from its firmware, its
# network and whoever installed it, and then becomes systemd. Arguments: host name, address, name server, public key
# of the administrator, and any number of further lines for /etc/hosts.
set -eu
name=$1 address=$2 nameserver=$3 public_key=$4
shift 4

# On a machine with the named systemd hierarchy of cgroup v1 podman binds the machine's own hierarchy over the host's. Under
# it lies the host's private one: without this, all hosts would keep their units in one tree.
if [ "$(grep -c ' /sys/fs/cgroup/systemd ' /proc/self/mounts)" -gt 1 ]; then
    umount /sys/fs/cgroup/systemd/release_agent 2>/dev/null || true
    umount /sys/fs/cgroup/systemd
fi

# systemd makes / shared on machines, but not in containers; mounts that pods propagate need it.
mount --make-rshared /

if [ ! -e /etc/ssh/authorized_keys/bedplate ]; then
    mkdir -p /etc/ssh/authorized_keys
    printf '%s\n' "$public_key" >/etc/ssh/authorized_keys/bedplate
    printf 'nameserver %s\n' "$nameserver" >/etc/resolv.conf
    {
        printf '127.0.0.1 localhost\n::1 localhost ip6-localhost ip6-loopback\n%s %s\n' "$address" "$name"
        [ $# -eq 0 ] || printf '%s\n' "$@"
    } >/etc/hosts
fi

exec /sbin/init
