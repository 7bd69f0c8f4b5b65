package open

import (
	"testing"

	"github.com/gopcp/pmcd/cmd/pmcd/internal/pmcdtest"
)

func TestMain(m *testing.M) { pmcdtest.Main(m, nil) }
