package systemtest

import (
	"regexp"
	"strings"
	"testing"
)

// httpGet prints the body of a reply, and fails if its status is not 200.
const httpGet = `python3 -c 'import sys, urllib.request; sys.stdout.write(urllib.request.urlopen("http://127.0.0.1:44324" + sys.argv[1], timeout=20).read().decode())' `

// The exporter runs without rights under its unit, and connects again when pmcd is restarted.
func TestExporter(t *testing.T) {
	for name, boot := range map[string]func(*testing.T) *host{"without PCP": without, "with PCP": with} {
		t.Run(name, func(t *testing.T) {
			h := boot(t)
			h.run("systemctl daemon-reload && systemctl enable --now pmcd-prometheus.service")
			if text, code := h.Try(httpGet + "/metrics"); code == 0 {
				t.Errorf("without a pmcd: %s", text)
			}
			h.run("systemctl start pmcd.service")
			h.until(httpGet + "/readyz")
			for range 2 {
				h.check(httpGet+"/metrics", "\nkernel_all_load{", "\nfilesys_capacity{", "\nnetwork_interface_in_bytes{", "\npmcd_agent_status{")
				h.run("systemctl restart pmcd.service")
				h.until(httpGet + "/readyz")
			}
			if user := h.run("ps -o user= -C pmcd-prometheus"); strings.Contains(user, "root") || user == "" {
				t.Errorf("it runs as %q", user)
			}
			status := h.run("cat /proc/$(systemctl show -P MainPID pmcd-prometheus.service)/status")
			if !regexp.MustCompile(`(?m)^CapBnd:\s+0+$`).MatchString(status) || !regexp.MustCompile(`(?m)^NoNewPrivs:\s+1$`).MatchString(status) {
				t.Errorf("its rights:\n%s", status)
			}
			if text := h.journal("pmcd-prometheus.service"); strings.Contains(text, "denied") || strings.Contains(text, "not permitted") {
				t.Errorf("the journal:\n%s", text)
			}
			h.run("systemctl disable --now pmcd-prometheus.service")
		})
	}
}

// exporterLeft prints what is left of the exporter, if anything is.
const exporterLeft = "pgrep -x pmcd-prometheus || find /etc/systemd /usr -name 'pmcd-prometheus*' ! -type d ! -path '/usr/src/*' | grep ."

// The package of the exporter: off until it is enabled, restarted by an upgrade, gone when
// it is removed.
func TestPackagePrometheus(t *testing.T) { eachSystem(t, testPackagePrometheus) }

func testPackagePrometheus(t *testing.T, s system) {
	h := packaged(t, boot(t, s.without))
	h.run(apt + "install" + deb("pmcd", firstVersion) + deb("pmcd-prometheus", firstVersion))
	const unit = "pmcd-prometheus.service"
	h.Write(t, "/etc/sysconfig/pmcd-prometheus", `PMCD_PROMETHEUS_OPTIONS="--timeout 7s"`+"\n")
	h.check("systemctl is-active "+unit+" || :; systemctl is-enabled "+unit+" || :; dpkg -L pmcd-prometheus", "inactive\ndisabled\n", "/man1/pmcd-prometheus.1.gz\n", "/firewalld/services/pmcd-prometheus.xml\n")
	h.run("systemctl enable --now " + unit)
	h.until(httpGet + "/readyz")
	h.check(httpGet+"/metrics", "\nkernel_all_load{")
	h.check("ps -o args= -C pmcd-prometheus", " --timeout 7s\n")
	pid := h.show(unit, "MainPID")
	h.run(apt + "install" + deb("pmcd-prometheus", secondVersion))
	h.until(httpGet + "/readyz")
	if h.show(unit, "MainPID") == pid {
		t.Error("the upgrade has not restarted the exporter")
	}
	h.run(apt + "purge pmcd-prometheus")
	if text, code := h.Try(exporterLeft); code == 0 {
		t.Errorf("left: %s", text)
	}
	h.served()
}

// The scripts of the rpm of the exporter.
func TestPackagePrometheusRPM(t *testing.T) {
	h := packaged(t, boot(t, here.without))
	h.run(apt + "install" + deb("pmcd", firstVersion))
	h.served()
	const unit = "pmcd-prometheus.service"
	h.run(rpmDo + "unpack pmcd-prometheus && script pmcd-prometheus postinstall 1 && systemctl enable --now " + unit)
	h.until(httpGet + "/readyz")
	pid := h.show(unit, "MainPID")
	h.run(rpmDo + "script pmcd-prometheus postinstall 2 && script pmcd-prometheus preuninstall 1 && script pmcd-prometheus postuninstall 1")
	h.until(httpGet + "/readyz")
	if h.show(unit, "MainPID") == pid {
		t.Error("the upgrade with RPM has not restarted the exporter")
	}
	h.run(rpmDo + "script pmcd-prometheus preuninstall 0 && erase pmcd-prometheus && script pmcd-prometheus postuninstall 0")
	if text, code := h.Try(exporterLeft); code == 0 {
		t.Errorf("left with RPM: %s", text)
	}
}
