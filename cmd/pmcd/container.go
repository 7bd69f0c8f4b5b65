package main

import (
	"context"

	"github.com/gopcp/pmcd/agents/pmdaroot"
)

// containerHost returns the host name in a container.
func (o opener) containerHost(ctx context.Context, container string) (string, error) {
	if o.root != nil { // pmdaroot answers only root
		return o.root.HostName(ctx, container)
	}
	return askHost(container)
}

// askHost asks pmdaroot for the host name in a container.
func askHost(container string) (string, error) {
	var root pmdaroot.Client
	defer root.Close()
	return root.HostName(container)
}
