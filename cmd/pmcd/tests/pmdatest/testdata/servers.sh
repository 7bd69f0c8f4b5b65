# Starts the servers that agents report about, on a machine of a release with
# servers. They listen on loopback addresses of the machine. What does not start
# is seen by the test: its agent has no values.
exec >/var/log/servers.log 2>&1 </dev/null
set -x
mkdir -p /run/lock /var/www

rm -f /etc/nginx/sites-enabled/*
echo 'server { listen 127.0.0.1:8081; location /nginx_status { stub_status; } }' >/etc/nginx/sites-enabled/status
nginx
sed -i 's,localhost/nginx_status,localhost:8081/nginx_status,' /var/lib/pcp/pmdas/nginx/nginx.conf /var/lib/pcp/pmdas/nginx/pmdanginx.pl
apachectl start

for v in /etc/postgresql/*; do pg_ctlcluster "$(basename "$v")" main start; done

mkdir -p /run/redis /run/mysqld
redis-server --daemonize yes --bind 127.0.0.1 --port 6379
memcached -u nobody -l 127.0.0.1 -d
chown mysql /run/mysqld
mysqld_safe --user=mysql --bind-address=127.0.0.1 &

mkdir -p /run/named /var/named/data
chown bind /run/named /var/named/data
echo 'options { directory "/var/cache/bind"; listen-on { 127.0.0.1; }; statistics-file "/var/named/data/named_stats.txt"; };' >/etc/bind/named.conf.options
named -u bind
useradd -r named # the agent becomes that user

cat >/etc/haproxy/haproxy.cfg <<X
global
	stats socket /var/lib/haproxy/stats mode 660 level admin
defaults
	mode http
	timeout connect 5s
	timeout client 5s
	timeout server 5s
frontend web
	bind 127.0.0.1:8082
	default_backend app
backend app
	server one 127.0.0.1:8081 check
X
haproxy -D -f /etc/haproxy/haproxy.cfg

[ -e /etc/postfix/main.cf ] || cp /usr/share/postfix/main.cf.debian /etc/postfix/main.cf
echo 'inet_interfaces = loopback-only' >>/etc/postfix/main.cf
mkdir -p /var/spool/mqueue
postfix start

mkdir -p /var/log/pcp/rsyslog
mkfifo /var/log/pcp/rsyslog/stats
cat >/etc/rsyslog.conf <<X
module(load="imuxsock")
module(load="impstats" interval="1")
syslog.* action(type="ompipe" pipe="/var/log/pcp/rsyslog/stats" action.resumeInterval="1")
X
rsyslogd

printf 'server:\n interface: 127.0.0.1@5533\nremote-control:\n control-enable: yes\n control-use-cert: no\n' >/etc/unbound/unbound.conf
unbound

echo 'rocommunity public 127.0.0.1' >/var/tmp/snmpd.conf
snmpd -C -c /var/tmp/snmpd.conf -Lf /var/log/snmpd.log udp:127.0.0.1:161

mkdir -p /var/lib/powerdns /run/pdns
sqlite3 /var/lib/powerdns/db </usr/share/pdns-backend-sqlite3/schema/schema.sqlite3.sql || :
pdns_server --daemon=yes --guardian=no --local-port=5300 --local-address=127.0.0.1 --config-dir=/var/tmp \
	--launch=gsqlite3 --gsqlite3-database=/var/lib/powerdns/db --socket-dir=/run/pdns

smbd -D
gpsd -N /dev/null &

mkdir -p /run/munge /var/tmp/slurm /etc/slurm
chown munge /run/munge
su -s /bin/sh munge -c munged
cat >/etc/slurm/slurm.conf <<X
ClusterName=test
SlurmctldHost=localhost
SlurmUser=root
StateSaveLocation=/var/tmp/slurm
SelectType=select/linear
ProctrackType=proctrack/linuxproc
NodeName=localhost CPUs=1 State=UNKNOWN
PartitionName=debug Nodes=ALL Default=YES MaxTime=INFINITE State=UP
X
slurmctld

echo '[rabbitmq_management].' >/etc/rabbitmq/enabled_plugins
rabbitmq-server &

mkdir -p /run/podman /var/tmp/rootfs/bin
cp -L --parents /bin/sleep $(ldd /bin/sleep | grep -o '/lib[^ ]*') /var/tmp/rootfs
tar -C /var/tmp/rootfs -c . | podman --storage-driver vfs import - tiny
podman --storage-driver vfs run -d --name one --network none --cgroups disabled tiny /bin/sleep 9999
podman --storage-driver vfs system service --time=0 unix:///run/podman/podman.sock &

cd /var/www
cat >metrics <<X
# HELP some_requests_total Requests served.
# TYPE some_requests_total counter
some_requests_total{method="get",code="200"} 1027
some_requests_total{method="post",code="200"} 3
# TYPE some_temperature gauge
some_temperature -3.5
# TYPE some_latency histogram
some_latency_bucket{le="0.1"} 3
some_latency_bucket{le="+Inf"} 5
some_latency_sum 1.25
some_latency_count 5
X
python3 -m http.server -b 127.0.0.1 8083 &

until_ok() { for _ in $(seq 120); do if "$@"; then return; fi; sleep 0.5; done; }
until_ok mysqladmin ping
mysql -e "grant all on *.* to dbmonitor@localhost identified by 'dbmonitor'"
until_ok rndc stats
until_ok python3 -c 'import urllib.request as u
a = u.HTTPPasswordMgrWithDefaultRealm()
a.add_password(None, "http://127.0.0.1:15672", "guest", "guest")
r = u.Request("http://127.0.0.1:15672/api/queues/%2f/one", b"{}", {"content-type": "application/json"}, method="PUT")
u.build_opener(u.HTTPBasicAuthHandler(a)).open(r)'
chmod 644 /var/named/data/*
ps -eo args=
