package cgroups

import (
	"strings"
	"testing"
)

func TestContainer(t *testing.T) {
	id := strings.Repeat("0123456789abcdef", 4)
	pod := "/kubepods.slice/kubepods-besteffort.slice/kubepods-besteffort-pod1b2c_3.slice"
	for _, tt := range []struct{ path, id, engine string }{
		{"/docker/ID", id, Docker},
		{"/system.slice/docker-ID.scope", id, Docker},
		{"/user.slice/user-1000.slice/user@1000.service/user.slice/docker-ID.scope", id, Docker},
		{"/ecs/4d5e/ID", id, Containerd}, // of Docker, with another parent
		{"/machine.slice/libpod-ID.scope", id, Podman},
		{"/user.slice/user-1000.slice/user@1000.service/user.slice/libpod-ID.scope", id, Podman},
		{"/libpod_parent/libpod-ID", id, Podman},
		{"/system.slice/web.service/libpod-payload-ID", id, Podman},
		{"/machine.slice/machine-libpod_pod_ID.slice/libpod-ID.scope", id, Podman},
		{pod + "/crio-ID.scope", id, CRIO},
		{"/kubepods/besteffort/pod1b2c/crio-ID", id, CRIO},
		{pod + "/cri-containerd-ID.scope", id, Containerd},
		{"/kubelet.slice/kubelet-kubepods.slice/kubelet-kubepods-pod1.slice/cri-containerd-ID.scope", id, Containerd},
		{"/system.slice/containerd.service/kubepods-besteffort-pod1.slice:cri-containerd:ID", id, Containerd},
		{"/kubepods/besteffort/pod1b2c/ID", id, Containerd},
		{"/k8s.io/ID", id, Containerd},
		{"/default/ID", id, Containerd},
		{"/system.slice/nerdctl-ID.scope", id, Containerd},
		{"/ID", id, Containerd},
		{"/lxc/box", "box", LXC},
		{"/lxc.payload/box", "box", LXC},
		{"/lxc.payload.box", "box", LXC},
		{"/../../docker/ID", id, Docker}, // pmcd has a name space of its own

		// What is not a container.
		{"/machine.slice/libpod-conmon-ID.scope", "", ""},
		{"/user.slice/user-1000.slice/user@1000.service/user.slice/libpod-conmon-ID.scope", "", ""},
		{"/libpod_parent/conmon", "", ""},
		{"/libpod_parent/ID", "", ""}, // a pod
		{"/machine.slice/machine-libpod_pod_ID.slice", "", ""},
		{"/system.slice/crio-conmon-ID.scope", "", ""},
		{"/kubepods/besteffort/pod1b2c/crio-conmon-ID", "", ""},
		{"/system.slice/ID.service", "", ""}, // the timer of a health check
		{"/system.slice/var-lib-docker-containers-ID-mounts-shm.mount", "", ""},
		{pod, "", ""},
		{"/kubepods/besteffort/pod1b2c", "", ""},
		{"/lxc.monitor.box", "", ""},
		{"/lxc.monitor/box", "", ""},
		{"/lxc.payload.a b", "", ""},
		{"/lxc", "", ""},
		{"/machine.slice/systemd-nspawn@box.service/payload", "", ""},
		{"/machine.slice/machine-qemu\\x2d1\\x2dbox.scope/libvirt/emulator", "", ""},
		{"/system.slice/garden.service/garden/36a5d7c6-2ac5-4b7c-5b2c-58d4", "", ""},
		{"/system.slice/docker.service", "", ""},
		{"/system.slice/docker-containerd.service", "", ""},
		{"/user.slice/user-1000.slice", "", ""},
		{"/init.scope", "", ""},
		{"/x/evil-ID.scope", "", ""},
		{"/x/docker-" + id[1:] + ".scope", "", ""},
		{"/x/docker-0" + id + ".scope", "", ""},
		{"/x/docker-" + strings.ToUpper(id) + ".scope", "", ""},
		{"/x/docker-" + id[1:] + "g.scope", "", ""},
		{"/docker/" + id[1:], "", ""},
		{"/x/.scope", "", ""},
		{"/x/:-", "", ""},
		{"/", "", ""},
		{"", "", ""},
	} {
		t.Run(tt.path, func(t *testing.T) {
			got, engine := ContainerAt(strings.ReplaceAll(tt.path, "ID", id))
			if got != tt.id || engine != tt.engine {
				t.Errorf("got %q, %q, want %q, %q", got, engine, tt.id, tt.engine)
			}
		})
	}
}

func TestIsName(t *testing.T) {
	for name, want := range map[string]bool{
		"a": true, "web_1.x-y": true, "9": true, "": false, "-a": false, ".a": false, "_a": false, "a b": false, "a/b": false,
		"a\n": false, "a\"": false, "\xff": false, strings.Repeat("x", 255): true, strings.Repeat("x", 256): false,
	} {
		if got := IsName(name); got != want {
			t.Errorf("%q: %v", name, got)
		}
	}
}
