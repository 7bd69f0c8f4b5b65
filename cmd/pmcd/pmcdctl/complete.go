package main

import (
	"context"
	"regexp"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/gopcp/pmcd/pdu"
)

// completionTime is how long the completion of a name may take. Tests have more time.
var completionTime = 2 * time.Second

// completeNames returns the function that completes names of metrics, one level at a time: for
// each argument if several, and otherwise for the first one.
func (f *clientFlags) completeNames(several bool) cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, word string) ([]cobra.Completion, cobra.ShellCompDirective) {
		const nothing = cobra.ShellCompDirectiveNoFileComp
		if len(args) > 0 && !several {
			return nil, nothing
		}
		ctx, cancel := context.WithTimeout(context.Background(), completionTime)
		defer cancel()
		c, err := f.dial(ctx, f.completionHost(cmd), false, cmd.ErrOrStderr())
		if err != nil {
			return nil, nothing
		}
		defer c.Close()
		parent, prefix := "", word
		if i := strings.LastIndexByte(word, '.'); i >= 0 {
			parent, prefix = word[:i], word[i+1:]
		}
		children, err := c.Children(ctx, parent)
		if err != nil {
			return nil, nothing
		}
		return completions(children, parent, prefix)
	}
}

// notInNames has what is in no part of a name (PMNS(5)). The completion of bash puts what two names have in
// common on the command line as it is, and evaluates that when the tab key is pressed again.
var notInNames = regexp.MustCompile(`[^A-Za-z0-9_]`)

// completions returns the children that begin with prefix, but for those that a shell could take for
// more than a name.
func completions(children []pdu.Child, parent, prefix string) (names []string, directive cobra.ShellCompDirective) {
	directive = cobra.ShellCompDirectiveNoFileComp
	for _, child := range children {
		if !strings.HasPrefix(child.Name, prefix) || notInNames.MatchString(child.Name) {
			continue
		}
		name := strings.TrimPrefix(parent+"."+child.Name, ".")
		if !child.Leaf {
			name += "."
			directive |= cobra.ShellCompDirectiveNoSpace
		}
		names = append(names, name)
	}
	return names, directive
}

// completionHost returns the value of -h so far.
func (f *clientFlags) completionHost(cmd *cobra.Command) string {
	if hosts, err := cmd.Flags().GetStringArray("host"); err == nil && len(hosts) > 0 { // compare
		return hosts[0]
	}
	return f.host
}

// plainUsage takes the quotes from the usage of options, in which they mark the name of the
// argument. A shell would show them.
func plainUsage(root *cobra.Command) {
	for _, cmd := range root.Commands() {
		cmd.Flags().VisitAll(func(f *pflag.Flag) { f.Usage = strings.ReplaceAll(f.Usage, "`", "") })
	}
}

// completionCommand is pmcdctl completion.
func completionCommand(code *int) *cobra.Command {
	return &cobra.Command{
		Use:   "completion bash|zsh|fish",
		Short: "print the completion for a shell",
		Long: `Print the completion of commands, options and names of metrics for a shell.

The packages and "make install" install it for all three. Where they did not:

  bash: pmcdctl completion bash >/etc/bash_completion.d/pmcdctl (with bash-completion)
  zsh:  pmcdctl completion zsh >/usr/local/share/zsh/site-functions/_pmcdctl
  fish: pmcdctl completion fish >~/.config/fish/completions/pmcdctl.fish`,
		Args:      cobra.MatchAll(cobra.ExactArgs(1), cobra.OnlyValidArgs),
		ValidArgs: []string{"bash", "zsh", "fish"},
		RunE: func(cmd *cobra.Command, args []string) error {
			*code = exitOK
			root, w := cmd.Root(), cmd.OutOrStdout()
			switch args[0] {
			case "bash":
				return root.GenBashCompletionV2(w, true)
			case "zsh":
				return root.GenZshCompletion(w)
			}
			return root.GenFishCompletion(w, true)
		},
	}
}
