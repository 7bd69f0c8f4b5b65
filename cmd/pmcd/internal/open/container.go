package open

import (
	"context"

	"github.com/gopcp/pmcd/internal/pmdaroot"
)

// ContainerHost returns the host name in a container.
func (o *Opener) ContainerHost(ctx context.Context, container string) (string, error) {
	if o.Helper != nil { // pmdaroot answers only root
		return o.Helper.HostName(ctx, container)
	}
	return HostName(container)
}

// HostName asks pmdaroot for the host name in a container.
func HostName(container string) (string, error) {
	var root pmdaroot.Client
	defer root.Close()
	return root.HostName(container)
}

// ContainerProcess asks pmdaroot for the first process of a container.
func ContainerProcess(container string) (int, error) {
	var root pmdaroot.Client
	defer root.Close()
	return root.ProcessID(container)
}

// containerExists reports whether pmdaroot knows a container that runs.
func (o *Opener) containerExists(ctx context.Context, container string) bool {
	_, err := o.Helper.ContainerProcess(ctx, container)
	return err == nil
}
