package pmcdconf

import "strings"

// nohost is a name with a part that is too long, so that resolvers reject it. With it
// the real pmcd can read the cases without sending a packet.
var nohost = strings.Repeat("x", 64) + ".invalid"

// A fileCase is a configuration with its expected result. The same table is used by
// the tests of Parse and ParseFile, by the comparison with the real pmcd and as the
// seeds of the fuzz tests.
type fileCase struct {
	name   string
	conf   string
	access string // of the access file; "-" is an empty one, "" none
	ok     bool
	// problems are "file:line:col message as pmcd prints it". The real pmcd must
	// report the same lines, with the same message unless it is an error of the
	// resolver or of a host pattern.
	problems []string
	agents   string // names, domains and parameters
	rules    string // hosts of the access list
	differs  string // why the real pmcd sees it in another way
	varies   bool   // the real pmcd sees it in another way in most runs, but not in all
}

const (
	head  = "a 1 dso f /x\n[access]\n"
	aDSO  = "a 1 dso i:0  lib=/x entry=f"
	tooSl = "access config: Can't continue, giving up"

	leftOut = "': no such host; this rule is left out until a reload finds the host"

	notPrefixAt = "': PCP has no prefix lengths and no masks: a network is the beginning of its addresses, such as 192.168.1.* or fe80:*; this rule is left out"
)

var fileCases = []fileCase{
	// Lexical rules.
	{name: "an empty file has no agents", conf: "", ok: true},
	{name: "comments and blank lines", conf: "# c\n\n \t\n  # d\n", ok: true},
	{name: "one agent", conf: "a 1 dso f /x\n", ok: true, agents: aDSO},
	{name: "no newline at the end", conf: "a 1 dso f /x", ok: true, agents: aDSO},
	{name: "CRLF", conf: "a 1 dso f /x\r\n\r\nb 1\r\nc 2 dso f /x\r\n", ok: true,
		problems: []string{"conf:3:3 pmcd config[line 3]: Error: domain number for \"b\" agent clashes with \"a\" agent"},
		agents:   aDSO + "; c 2 dso i:0  lib=/x entry=f"},
	{name: "a continued line is one line", conf: "a 1 \\\n dso \\\n f /x\nb x\nc 2 dso f /x\n", ok: true,
		problems: []string{"conf:4:3 pmcd config[line 2]: Error: expected domain number for \"b\" agent"},
		agents:   aDSO + "; c 2 dso i:0  lib=/x entry=f"},
	{name: "the place of a mistake in a continued line", conf: "a \\\n  1 \\\n   dos f /x\n",
		problems: []string{"conf:3:4 pmcd config[line 1]: Error: expected `dso', `socket' or `pipe'"}},
	{name: "a continuation separates words", conf: "a 1 dso\\\nf /x\n", ok: true, agents: aDSO},
	{name: "a backslash before a blank continues nothing", conf: "a 1 \\ \n",
		problems: []string{"conf:1:5 pmcd config[line 1]: Error: expected `dso', `socket' or `pipe'"}},
	{name: "a backslash before CRLF continues nothing", conf: "a 1 \\\r\n",
		problems: []string{"conf:1:5 pmcd config[line 1]: Error: expected `dso', `socket' or `pipe'"}},
	{name: "a backslash at the end of the file is a word", conf: "a 1 dso f /x \\",
		problems: []string{"conf:1:14 pmcd config[line 1]: Error: too many parameters for DSO"}},
	{name: "two backslashes continue too", conf: "a 1 pipe binary x\\\\\ny\n", ok: true, agents: `a 1 bin pipe cmd=x\ y`},
	{name: "a comment on a continued line ends with the last part", conf: "a 1 dso f /x # c\\\nx\nb x\n",
		problems: []string{"conf:3:3 pmcd config[line 2]: Error: expected domain number for \"b\" agent"}},
	{name: "a comment starts in a word", conf: "a 1 dso f /x#y z\n", ok: true, agents: aDSO},
	{name: "a comment starts behind a quoted word", conf: "a 1 dso f \"/x\"#y z\n", ok: true, agents: aDSO},
	{name: "no comment in quotes or behind a backslash", conf: "a 1 pipe binary \"x#y\" \\#z w\\#\n", ok: true,
		agents: `a 1 bin pipe cmd=x\#y \#z w\#`},
	{name: "a quoted word", conf: "\"a b\" 1 pipe binary \"x y\"\n", ok: true, agents: `a b 1 bin pipe cmd="x y"`},
	{name: "text behind a quoted word is another word", conf: "\"a\"1 dso f /x\n", ok: true, agents: aDSO},
	{name: "an empty word", conf: "\"\" 1 pipe binary x \"\"\n", ok: true, agents: ` 1 bin pipe cmd=x ""`},
	{name: "a quote in a word is an ordinary character", conf: "a 1 pipe binary mid\"quo te\"\n", ok: true,
		agents: `a 1 bin pipe cmd=mid\"quo te\"`},
	{name: "an escaped quote", conf: "a 1 pipe binary \"x\\\" y\" \\\"z\n", ok: true, agents: `a 1 bin pipe cmd="x\" y" \"z`},
	{name: "other backslashes stay", conf: "a 1 pipe binary x\\y \\\\z 'w v'\n", ok: true, agents: `a 1 bin pipe cmd=x\y \\z 'w v'`},
	{name: "an unterminated quote ends it all", conf: "a 1 dso f /x\nb 2 pipe binary \"y\nc\n",
		problems: []string{
			"conf:2:17 pmcd config[line 2]: Error: unterminated quoted string",
			"conf pmcd config: Can't continue, giving up"}},
	{name: "a continuation in quotes is a blank", conf: "a 1 pipe binary \"x\\\ny\"\n", ok: true, agents: `a 1 bin pipe cmd="x y"`},
	{name: "an unterminated quote for a label", conf: "\"a",
		problems: []string{
			"conf:1:1 pmcd config[line 1]: Error: unterminated quoted string",
			"conf pmcd config: Can't continue, giving up"}},
	{name: "delimiters are ordinary in agent lines", conf: "a,b;c:d 1 pipe binary x[ ]\n", ok: true, agents: "a,b;c:d 1 bin pipe cmd=x[ ]"},
	{name: "vertical tab and form feed are white space", conf: "a\v1\fdso f /x\n", ok: true, agents: aDSO},
	{name: "the longest line", conf: "a 1 dso f /x #" + strings.Repeat("y", maxLine-14) + "\n", ok: true, agents: aDSO},
	{name: "a longer line", conf: "a 1 dso f /x #" + strings.Repeat("y", maxLine-13) + "\n",
		problems: []string{
			"conf:1:1 pmcd config[line 1]: Error: ridiculously long line (2200 characters)",
			"conf pmcd config: Can't continue, giving up"}},
	{name: "many short continuations", conf: "a 1 pipe binary x" + strings.Repeat("\\\n", 100) + "\n", ok: true, agents: "a 1 bin pipe cmd=x",
		differs: "pmcd counts a continued line as 200 bytes at least"},
	{name: "a NUL character", conf: "a 1 dso f /x\nb 2 dso f /x\x00\n",
		problems: []string{
			"conf:2:1 pmcd config[line 2]: Error: NUL character",
			"conf pmcd config: Can't continue, giving up"},
		differs: "pmcd takes NUL for the end of the line and joins the next one to it"},
	{name: "a NUL character at the start", conf: "\x00a 1 dso f /x\n",
		problems: []string{
			"conf:1:1 pmcd config[line 1]: Error: NUL character",
			"conf pmcd config: Can't continue, giving up"},
		differs: "pmcd takes NUL for the end of the file"},

	// The agent grammar.
	{name: "a label alone", conf: "a\n", problems: []string{"conf:1:2 pmcd config[line 1]: Error: expected domain number for \"a\" agent"}},
	{name: "no digits", conf: "a x\n", problems: []string{"conf:1:3 pmcd config[line 1]: Error: expected domain number for \"a\" agent"}},
	{name: "a sign", conf: "a -1 dso f /x\n", problems: []string{"conf:1:3 pmcd config[line 1]: Error: expected domain number for \"a\" agent"}},
	{name: "an empty domain", conf: "a \"\" dso f /x\n", problems: []string{"conf:1:3 pmcd config[line 1]: Error: expected domain number for \"a\" agent"}},
	{name: "hexadecimal", conf: "a 0x1 dso f /x\n", problems: []string{"conf:1:3 pmcd config[line 1]: Error: expected domain number for \"a\" agent"}},
	{name: "the domains at the ends", conf: "a 0 dso f /x\nb 510 dso f /x\n", ok: true,
		agents: "a 0 dso i:0  lib=/x entry=f; b 510 dso i:0  lib=/x entry=f"},
	{name: "domain 511", conf: "a 511 dso f /x\n", problems: []string{"conf:1:3 pmcd config[line 1]: Error: Illegal domain number (511) for \"a\" agent"}},
	{name: "the number wraps", conf: "a 4294967298 dso f /x\n", ok: true, agents: "a 2 dso i:0  lib=/x entry=f"},
	{name: "the number wraps below zero", conf: "a 2147483648 dso f /x\n",
		problems: []string{"conf:1:3 pmcd config[line 1]: Error: Illegal domain number (-2147483648) for \"a\" agent"}},
	{name: "the number wraps often", conf: "a 99999999999999999999 dso f /x\n",
		problems: []string{"conf:1:3 pmcd config[line 1]: Error: Illegal domain number (1661992959) for \"a\" agent"}},
	{name: "the domain is decimal and may be quoted", conf: "a 010 dso f /x\nb \"8\" dso f /x\n", ok: true,
		agents: "a 10 dso i:0  lib=/x entry=f; b 8 dso i:0  lib=/x entry=f"},
	{name: "a domain twice", conf: "a 1 dso f /x\nb 1 dso f /x\n",
		problems: []string{"conf:2:3 pmcd config[line 2]: Error: domain number for \"b\" agent clashes with \"a\" agent"}},
	{name: "a label twice", conf: "a 1 dso f /x\na 2 dso f /x\n", ok: true, agents: aDSO + "; a 2 dso i:0  lib=/x entry=f"},
	{name: "a skipped line takes no domain", conf: "a 1 dso f /x y\nb 1 dso f /x\n", ok: true,
		problems: []string{"conf:1:14 pmcd config[line 1]: Error: too many parameters for DSO"}, agents: "b 1 dso i:0  lib=/x entry=f"},
	{name: "no kind", conf: "a 1\n", problems: []string{"conf:1:4 pmcd config[line 1]: Error: expected `dso', `socket' or `pipe'"}},
	{name: "another kind", conf: "a 1 text x\n", problems: []string{"conf:1:5 pmcd config[line 1]: Error: expected `dso', `socket' or `pipe'"}},
	{name: "keywords in any case, also quoted", conf: "a 1 DSO f /x\nb 2 \"pipe\" \"Binary\" x\nc 3 Socket UNIX /s\n", ok: true,
		agents: aDSO + "; b 2 bin pipe cmd=x; c 3 bin sock dom=unix port=/s"},

	{name: "a dso without entry point", conf: "a 1 dso\n", problems: []string{"conf:1:8 pmcd config[line 1]: Error: expected DSO entry point"}},
	{name: "a dso without path", conf: "a 1 dso f\n", problems: []string{"conf:1:10 pmcd config[line 1]: Error: expected DSO pathname"}},
	{name: "a dso with a word too many", conf: "a 1 dso f /x y\n", problems: []string{"conf:1:14 pmcd config[line 1]: Error: too many parameters for DSO"}},
	{name: "an agent that is built in", conf: "a 1 dso f builtin\nc 2 dso f /x\n", ok: true,
		agents:  "a 1 dso i:0  lib=builtin entry=f; c 2 dso i:0  lib=/x entry=f",
		differs: "pmcd has no such word: the path is not absolute"},
	{name: "a dso named builtin", conf: "a 1 dso f ./builtin\n",
		problems: []string{"conf:1:11 pmcd config[line 1]: Error: path \"./builtin\" to PMDA is not absolute"}},
	{name: "behind a relative path nothing is read", conf: "a 1 dso f x\nb\nc 3 dso f /x\n",
		problems: []string{"conf:1:11 pmcd config[line 1]: Error: path \"x\" to PMDA is not absolute"}},
	{name: "nor if there are words behind it", conf: "a 1 dso f x y\nb\nc 3 dso f /x\n",
		problems: []string{"conf:1:11 pmcd config[line 1]: Error: path \"x\" to PMDA is not absolute"},
		differs:  "pmcd goes on with the next line if the last of the words is at the very end of the line",
		varies:   true}, // in 58 of 60 runs
	{name: "an unterminated quote in what is left of a wrong line", conf: "a 1 foo \"x\nc 3 dso f /x\n",
		problems: []string{
			"conf:1:5 pmcd config[line 1]: Error: expected `dso', `socket' or `pipe'",
			"conf:1:9 pmcd config[line 1]: Error: unterminated quoted string",
			"conf pmcd config: Can't continue, giving up"}},
	{name: "an empty entry point", conf: "a 1 dso \"\" /x\n", ok: true, agents: "a 1 dso i:0  lib=/x entry="},

	{name: "a socket without family", conf: "a 1 socket\n",
		problems: []string{"conf:1:11 pmcd config[line 1]: Error: expected socket address domain (`inet', `ipv6', or `unix')"}},
	{name: "a socket of another family", conf: "a 1 socket tcp 1\n",
		problems: []string{"conf:1:12 pmcd config[line 1]: Error: expected socket address domain (`inet', `ipv6', or `unix')"}},
	{name: "a socket without port", conf: "a 1 socket inet\n", problems: []string{"conf:1:16 pmcd config[line 1]: Error: expected socket port name or number"}},
	{name: "a socket without path", conf: "a 1 socket unix\n", problems: []string{"conf:1:16 pmcd config[line 1]: Error: expected socket port name or number"}},
	{name: "ports", conf: "a 1 socket inet 2078\nb 2 socket ipv6 http x \"y z\"\nc 3 socket inet 99999\n", ok: true,
		agents: "a 1 bin sock dom=inet port=2078; b 2 bin sock dom=ipv6 port=80 cmd=x \"y z\"; c 3 bin sock dom=inet port=99999"},
	{name: "a service of UDP", conf: "a 1 socket inet ntp\n", ok: true, agents: "a 1 bin sock dom=inet port=123"},
	{name: "an unknown service", conf: "a 1 socket inet nosuch x\n",
		problems: []string{"conf:1:17 pmcd config[line 1]: Error: failed to get port number for port name nosuch"}},
	{name: "a signed port is a name", conf: "a 1 socket inet +80\n",
		problems: []string{"conf:1:17 pmcd config[line 1]: Error: failed to get port number for port name +80"}},
	{name: "an empty port", conf: "a 1 socket inet \"\"\n",
		problems: []string{"conf:1:17 pmcd config[line 1]: Error: failed to get port number for port name "}},
	{name: "a Unix domain socket", conf: "a 1 socket unix /run/a b \"\"\n", ok: true, agents: `a 1 bin sock dom=unix port=/run/a cmd=b ""`},

	{name: "a pipe without protocol", conf: "a 1 pipe\n", problems: []string{"conf:1:9 pmcd config[line 1]: Error: pipe PDU type expected (`binary')"}},
	{name: "the text protocol is gone", conf: "a 1 pipe text x\n", problems: []string{"conf:1:10 pmcd config[line 1]: Error: pipe PDU type expected (`binary')"}},
	{name: "a pipe without command", conf: "a 1 pipe binary\n", problems: []string{"conf:1:16 pmcd config[line 1]: Error: command to create pipe agent expected."}},
	{name: "notready is no command", conf: "a 1 pipe binary NotReady \"notready\"\n",
		problems: []string{"conf:1:36 pmcd config[line 1]: Error: command to create pipe agent expected."}},
	{name: "not ready", conf: "a 1 pipe binary notready NOTREADY x notready\n", ok: true, agents: "a 1 notready bin pipe cmd=x notready"},
	{name: "another word than notready is the command", conf: "a 1 pipe binary notredy x\n", ok: true, agents: "a 1 bin pipe cmd=notredy x"},

	// The status.
	{name: "a good line after mistakes", conf: "a\nb 511\nc 1 dso f /x\n# d\n\n", ok: true,
		problems: []string{
			"conf:1:2 pmcd config[line 1]: Error: expected domain number for \"a\" agent",
			"conf:2:3 pmcd config[line 2]: Error: Illegal domain number (511) for \"b\" agent"},
		agents: "c 1 dso i:0  lib=/x entry=f"},
	{name: "a wrong last line rejects all", conf: "a 1 dso f /x\nb\n# c\n\n",
		problems: []string{"conf:2:2 pmcd config[line 2]: Error: expected domain number for \"b\" agent"}},
	{name: "behind a wrong last line the access section is not read", conf: "a 1 dso f /x\nb\n\n[access]\nfoo\n", access: "bar",
		problems: []string{"conf:2:2 pmcd config[line 2]: Error: expected domain number for \"b\" agent"}},

	// The access section as a whole.
	{name: "an access section", conf: "a 1 dso f /x\n[access]\nallow 192.0.2.2 : all;\n", ok: true, agents: aDSO, rules: "yy 192.0.2.2"},
	{name: "no agents but access", conf: "[access] allow 192.0.2.2 : all;\n", ok: true, rules: "yy 192.0.2.2"},
	{name: "the head in pieces", conf: "a 1 dso f /x\n [\n\n ACCESS\n#x\n] allow 192.0.2.2 : all;\n", ok: true, agents: aDSO, rules: "yy 192.0.2.2"},
	{name: "the head with blanks", conf: "[ access ]allow 192.0.2.2 : all;", ok: true, rules: "yy 192.0.2.2"},
	{name: "the head in two", conf: "[access ] allow 192.0.2.2 : all;", ok: true, rules: "yy 192.0.2.2"},
	{name: "a quoted bracket", conf: "\"[\" access ] allow 192.0.2.2 : all;", ok: true, rules: "yy 192.0.2.2"},
	{name: "a bracket further on is nothing", conf: "x[ 1 dso [access] /x\n", ok: true, agents: "x[ 1 dso i:0  lib=/x entry=[access]"},
	{name: "another section", conf: head[:13] + "[foo]\n", problems: []string{"conf:2:1 pmcd config[line 2]: Error: \"access\" keyword expected"}},
	{name: "a bracket alone", conf: "a 1 dso f /x\n[\n", problems: []string{"conf:3:1 pmcd config[line 3]: Error: \"access\" keyword expected"}},
	{name: "no closing bracket", conf: "a 1 dso f /x\n[access\n", problems: []string{"conf:3:1 pmcd config[line 3]: Error: ']' expected"}},
	{name: "no blank behind the bracket", conf: "[access]allow * : all;", problems: []string{"conf:1:1 pmcd config[line 1]: Error: \"access\" keyword expected"}},
	{name: "the section twice", conf: head + "[access]\n", problems: []string{"conf:3:1 pmcd config[line 3]: Error: allow or disallow statement expected"}},
	{name: "an agent behind the section", conf: head + "allow * : all;\nb 2 dso f /x\n",
		problems: []string{"conf:4:1 pmcd config[line 4]: Error: allow or disallow statement expected"}},
	{name: "an empty section", conf: head, problems: []string{"conf:3:1 pmcd config[line 3]: Error: no valid statements in [access] section"}},
	{name: "an empty section without newline", conf: "a 1 dso f /x\n[access] # x",
		problems: []string{"conf:2:13 pmcd config[line 2]: Error: no valid statements in [access] section"}},
	{name: "a broken quote in a statement", conf: head + "allow \"x : all;\n",
		problems: []string{
			"conf:3:7 pmcd config[line 3]: Error: unterminated quoted string",
			"conf pmcd config: Can't continue, giving up"}},
	{name: "a broken quote between statements", conf: head + "allow * : all; \"\ndisallow * : store;\n",
		problems: []string{
			"conf:3:16 pmcd config[line 3]: Error: unterminated quoted string",
			"conf pmcd config: Can't continue, giving up"},
		differs: "pmcd takes what it has got by then for the whole section"},
	{name: "a long line in the section", conf: head + "allow * : all;" + strings.Repeat(" ", maxLine) + "\n",
		problems: []string{
			"conf:3:1 pmcd config[line 3]: Error: ridiculously long line (2200 characters)",
			"conf pmcd config: Can't continue, giving up"},
		differs: "pmcd adds that there are no valid statements, and names another line"},

	// The access file.
	{name: "an access file", conf: "a 1 dso f /x\n", access: "disallow 192.0.2.2 : store;", ok: true, agents: aDSO, rules: " n 192.0.2.2"},
	{name: "an access file for no agents", conf: "", access: "disallow 192.0.2.2 : store;", ok: true, rules: " n 192.0.2.2"},
	{name: "an empty access file", conf: "a 1 dso f /x\n", access: "-",
		problems: []string{"conf.access:1:1 access config[line 1]: Error: no valid statements in [access] section"}},
	{name: "an access file of comments", conf: "a 1 dso f /x\n", access: "# x\n",
		problems: []string{"conf.access:2:1 access config[line 2]: Error: no valid statements in [access] section"}},
	{name: "an access file with a head", conf: "a 1 dso f /x\n", access: "[access]\nallow * : all;\n",
		problems: []string{"conf.access:1:1 access config[line 1]: Error: allow or disallow statement expected"}},
	{name: "an access file is added", conf: head + "allow 192.0.2.2 : fetch;\n", access: "disallow 192.0.2.2 : store;\n", ok: true, agents: aDSO, rules: "yn 192.0.2.2"},
	{name: "an access file clashes", conf: head + "allow 192.0.2.2 : all;\n", access: "\n\ndisallow 192.0.2.2\n : store\n;\n",
		problems: []string{"conf.access:3:10 access config[line 5]: Error: access control error for host '192.0.2.2': permission clash for host 192.0.2.2 with earlier statement for 192.0.2.2 at conf:3:7"}},
	{name: "a section that clashes, and an access file that does", conf: head + "allow 192.0.2.2 : all; disallow 192.0.2.2 : all;\n", access: "disallow 192.0.2.2 : store;\n",
		problems: []string{"conf:3:33 pmcd config[line 3]: Error: access control error for host '192.0.2.2': permission clash for host 192.0.2.2 with earlier statement for 192.0.2.2 at conf:3:7"}},
	{name: "no access file behind a bad section", conf: head + "allow * : foo;\n", access: "allow * : foo;\n",
		problems: []string{"conf:3:11 pmcd config[line 3]: Error: bad access specifier"}},
	{name: "a section of unresolvable names rejects before the access file", conf: head + "allow " + nohost + " : all;\n", access: "allow * : all;\n",
		problems: []string{
			"conf:3:7 pmcd config[line 3]: Warning: access control error for host '" + nohost + leftOut,
			"conf:4:1 pmcd config[line 4]: Error: no valid statements in [access] section"}},
	{name: "a mistake in the access file", conf: "a 1 dso f /x\n", access: "\n\nallow * : foo;\n",
		problems: []string{"conf.access:3:11 access config[line 3]: Error: bad access specifier"}},
	{name: "a broken access file", conf: "a 1 dso f /x\n", access: "\"x\n",
		problems: []string{
			"conf.access:1:1 access config[line 1]: Error: unterminated quoted string",
			"conf.access " + tooSl}},

	// Statements: names.
	{name: "two mistakes, two messages", conf: head + "permit * : all;\nallow * : foo, all;\nallow * : fetch, ;\n",
		problems: []string{
			"conf:3:1 pmcd config[line 3]: Error: allow or disallow statement expected",
			"conf:4:11 pmcd config[line 4]: Error: bad access specifier",
			"conf:5:18 pmcd config[line 5]: Error: misplaced (trailing) ',' in permission list"}},
	{name: "behind a mistake it goes on at the next semicolon", conf: head + "allow * : foo\nallow * : bar;\nbaz\n",
		problems: []string{
			"conf:3:11 pmcd config[line 3]: Error: bad access specifier",
			"conf:5:1 pmcd config[line 5]: Error: allow or disallow statement expected"}},
	{name: "it may be part of a quoted word", conf: head + "foo \";x\"\nbar;\n",
		problems: []string{
			"conf:3:1 pmcd config[line 3]: Error: allow or disallow statement expected",
			"conf:4:1 pmcd config[line 4]: Error: allow or disallow statement expected"}},
	{name: "no hosts", conf: head + "allow : all;\n", problems: []string{"conf:3:7 pmcd config[line 3]: Error: no hosts in allow/disallow statement"}},
	{name: "the keyword is not a host", conf: head + "allow host : all;\n", problems: []string{"conf:3:12 pmcd config[line 3]: Error: no hosts in allow/disallow statement"}},
	{name: "no users", conf: head + "allow users\n: all;\n", problems: []string{"conf:4:1 pmcd config[line 4]: Error: no users in allow/disallow statement"}},
	{name: "no groups", conf: head + "disallow group", problems: []string{"conf:3:15 pmcd config[line 3]: Error: no groups in allow/disallow statement"}},
	{name: "two names without comma", conf: head + "allow x y : all;\n", problems: []string{"conf:3:9 pmcd config[line 3]: Error: ',' or ':' expected after \"x\""}},
	{name: "two commas", conf: head + "allow x,, y : all;\n", problems: []string{"conf:3:11 pmcd config[line 3]: Error: ',' or ':' expected after \",\""}},
	{name: "a comma too many", conf: head + "allow users *, : all;\n", problems: []string{"conf:3:16 pmcd config[line 3]: Error: user expected after ','"}},
	{name: "a name and the end", conf: head + "allow *\n", problems: []string{"conf:4:1 pmcd config[line 4]: Error: ',' or ':' expected after \"*\""}},
	{name: "no colon", conf: head + "allow * all;\n", problems: []string{"conf:3:9 pmcd config[line 3]: Error: ',' or ':' expected after \"*\""}},
	{name: "the colon of an IPv6 address", conf: head + "allow fd00::2 : all;\n", problems: []string{"conf:3:12 pmcd config[line 3]: Error: bad access specifier"}},
	{name: "the colon of unix:", conf: head + "allow unix: : all;\n", problems: []string{"conf:3:13 pmcd config[line 3]: Error: bad access specifier"}},
	{name: "a quoted colon is one", conf: head + "allow 192.0.2.2 \":\" all;\n", ok: true, agents: aDSO, rules: "yy 192.0.2.2"},
	{name: "a quoted word that starts with a colon is none", conf: head + "allow 192.0.2.2 \":*\" all;\n",
		problems: []string{"conf:3:17 pmcd config[line 3]: Error: ',' or ':' expected after \"192.0.2.2\""},
		differs:  "pmcd looks at the first character only, so that a forgotten comma turns a name into a colon"},
	{name: "a list of names", conf: head + "allow 192.0.2.2,192.0.2.3 , 192.0.2.2:fetch;", ok: true, agents: aDSO, rules: "y  192.0.2.2; y  192.0.2.3"},
	{name: "a statement on several lines", conf: head + "allow # x\n192.0.2.2\n:\n\nfetch,\nstore;", ok: true, agents: aDSO, rules: "yy 192.0.2.2"},
	{name: "statements on one line", conf: head + "allow 192.0.2.2:fetch;allow 192.0.2.3:store;", ok: true, agents: aDSO, rules: "y  192.0.2.2;  y 192.0.2.3"},

	// Statements: operations.
	{name: "an unknown operation", conf: head + "allow * : frobnicate;\n", problems: []string{"conf:3:11 pmcd config[line 3]: Error: bad access specifier"}},
	{name: "no operations", conf: head + "allow * : ;\n", problems: []string{"conf:3:11 pmcd config[line 3]: Error: empty or incomplete permissions list"}},
	{name: "no operations and the end", conf: head + "allow * :\n", problems: []string{"conf:4:1 pmcd config[line 4]: Error: empty or incomplete permissions list"},
		differs: "pmcd rejects this without a word"},
	{name: "a comma for an operation", conf: head + "allow * : ,;\n", problems: []string{"conf:3:11 pmcd config[line 3]: Error: bad access specifier"}},
	{name: "two operations without comma", conf: head + "allow * : fetch store;\n", problems: []string{"conf:3:17 pmcd config[line 3]: Error: ',' or ';' expected in permission list"}},
	{name: "no semicolon", conf: head + "allow * : all\n", problems: []string{"conf:4:1 pmcd config[line 4]: Error: ',' or ';' expected in permission list"}},
	{name: "a quoted semicolon is one", conf: head + "allow 192.0.2.2 : all \";\"\n", ok: true, agents: aDSO, rules: "yy 192.0.2.2"},
	{name: "all and store", conf: head + "allow * : all, store;\n", problems: []string{"conf:3:16 pmcd config[line 3]: Error: can't have \"all\" mixed with specific permissions"}},
	{name: "store and all", conf: head + "allow * : store, all;\n", problems: []string{"conf:3:18 pmcd config[line 3]: Error: can't have \"all\" mixed with specific permissions"}},
	{name: "all twice", conf: head + "allow 192.0.2.2 : all, all;\n", ok: true, agents: aDSO, rules: "yy 192.0.2.2"},
	{name: "store twice", conf: head + "allow 192.0.2.2 : store, store;\n", ok: true, agents: aDSO, rules: " y 192.0.2.2"},
	{name: "all except", conf: head + "allow 192.0.2.2 : all except store;\n", ok: true, agents: aDSO, rules: "yn 192.0.2.2"},
	{name: "all except both", conf: head + "allow 192.0.2.2 : all except fetch, store;\n", ok: true, agents: aDSO, rules: "nn 192.0.2.2"},
	{name: "all except nothing", conf: head + "allow * : all except;\n", problems: []string{"conf:3:21 pmcd config[line 3]: Error: empty or incomplete permissions list"}},
	{name: "all except all", conf: head + "allow * : all except all;\n", problems: []string{"conf:3:22 pmcd config[line 3]: Error: can't have \"all\" within an \"all except\""}},
	{name: "all except fetch and all", conf: head + "allow * : all except fetch, all;\n", problems: []string{"conf:3:29 pmcd config[line 3]: Error: can't have \"all\" mixed with specific permissions"}},
	{name: "except alone", conf: head + "allow * : except fetch;\n", problems: []string{"conf:3:11 pmcd config[line 3]: Error: bad access specifier"}},
	{name: "disallow all except", conf: head + "disallow 192.0.2.2 : all except fetch;\n", ok: true, agents: aDSO, rules: "yn 192.0.2.2"},
	{name: "disallow", conf: head + "disallow 192.0.2.2 : fetch; disallow 192.0.2.3 : all;\n", ok: true, agents: aDSO, rules: "n  192.0.2.2; nn 192.0.2.3"},
	{name: "keywords in any case", conf: "a 1 dso f /x\n[ACCESS]ALLOW HOSTS * : ALL EXCEPT STORE ;", problems: []string{"conf:2:1 pmcd config[line 2]: Error: \"access\" keyword expected"}},
	{name: "keywords in any case, with a blank", conf: "a 1 dso f /x\n[ACCESS] ALLOW HOSTS 192.0.2.2 : ALL EXCEPT STORE, Maximum 2 CONNECTIONS ;", ok: true, agents: aDSO, rules: "yn 192.0.2.2 2"},

	// Statements: limits.
	{name: "a limit", conf: head + "allow 192.0.2.2 : all, maximum 03 connections;\n", ok: true, agents: aDSO, rules: "yy 192.0.2.2 3"},
	{name: "a limit alone", conf: head + "allow 192.0.2.2 : maximum 3 connections;\n", ok: true, agents: aDSO, rules: "   192.0.2.2 3"},
	{name: "a limit before operations", conf: head + "allow 192.0.2.2 : maximum 3 connections, all except store;\n", ok: true, agents: aDSO, rules: "yn 192.0.2.2 3"},
	{name: "a limit between operations", conf: head + "allow 192.0.2.2 : all except store, maximum 3 connections, fetch;\n", ok: true, agents: aDSO, rules: "nn 192.0.2.2 3"},
	{name: "a limit directly behind all except", conf: head + "allow * : all except maximum 2 connections;\n",
		problems: []string{"conf:3:22 pmcd config[line 3]: Error: connection limit may not immediately follow \"all except\""}},
	{name: "a limit to disallow", conf: head + "disallow *: store, maximum 3 connections;\n",
		problems: []string{"conf:3:20 pmcd config[line 3]: Error: can't specify connection limit in a disallow statement"}},
	{name: "no connections at all", conf: head + "allow * : maximum 0 connections;\n", problems: []string{"conf:3:19 pmcd config[line 3]: Error: maximum connection limit must be a positive number"}},
	{name: "a signed limit", conf: head + "allow * : maximum +3 connections;\n", problems: []string{"conf:3:19 pmcd config[line 3]: Error: maximum connection limit must be a positive number"}},
	{name: "a limit that wraps below zero", conf: head + "allow * : maximum 2147483648 connections;\n",
		problems: []string{"conf:3:19 pmcd config[line 3]: Error: maximum connection limit must be a positive number"}},
	{name: "a limit that wraps above zero", conf: head + "allow 192.0.2.2 : maximum 4294967297 connections;\n", ok: true, agents: aDSO, rules: "   192.0.2.2 1"},
	{name: "a limit that wraps often", conf: head + "allow 192.0.2.2 : maximum 18446744073709551619 connections;\n", ok: true, agents: aDSO, rules: "   192.0.2.2 3"},
	{name: "no number", conf: head + "allow * : maximum\n", problems: []string{"conf:4:1 pmcd config[line 4]: Error: maximum connection limit must be a positive number"}},
	{name: "no word connections", conf: head + "allow * : maximum 3;\n", problems: []string{"conf:3:20 pmcd config[line 3]: Error: \"connections\" expected"}},
	{name: "unlimited never worked", conf: head + "allow * : fetch, unlimited connections;\n", problems: []string{"conf:3:18 pmcd config[line 3]: Error: \"connections\" expected"}},
	{name: "two limits", conf: head + "allow * : maximum 3 connections, maximum 3 connections;\n", problems: []string{"conf:3:34 pmcd config[line 3]: Error: connection limit already specified"}},

	// Host identifiers.
	{name: "an unresolvable host is ignored", conf: head + "allow " + nohost + " : all; disallow 192.0.2.2 : store;\n", ok: true,
		problems: []string{"conf:3:7 pmcd config[line 3]: Warning: access control error for host '" + nohost + leftOut},
		agents:   aDSO, rules: " n 192.0.2.2"},
	{name: "only unresolvable hosts", conf: head + "allow " + nohost + " \n:all;\n",
		problems: []string{
			"conf:3:7 pmcd config[line 4]: Warning: access control error for host '" + nohost + leftOut,
			"conf:5:1 pmcd config[line 5]: Error: no valid statements in [access] section"}},
	{name: "a network with a prefix length", conf: head + "allow \"192.168.1.0/24\", \"10.0.0.0/8\" : all; allow * : fetch;\n", ok: true,
		problems: []string{
			"conf:3:7 pmcd config[line 3]: Warning: access control error for host '192.168.1.0/24': PCP has no prefix lengths and no masks: write 192.168.1.*; this rule is left out",
			"conf:3:25 pmcd config[line 3]: Warning: access control error for host '10.0.0.0/8': PCP has no prefix lengths and no masks: write 10.*; this rule is left out"},
		agents: aDSO, rules: "y  /; y  0.0.0.0/0.0.0.0; y  ::/::"},
	{name: "networks that have no end at a dot", conf: head + "allow \"10.0.0.0/255.0.0.0\", \"172.16.0.0/12\", \"fe80::/10\" : all; allow * : fetch;\n", ok: true,
		problems: []string{
			"conf:3:7 pmcd config[line 3]: Warning: access control error for host '10.0.0.0/255.0.0.0" + notPrefixAt,
			"conf:3:29 pmcd config[line 3]: Warning: access control error for host '172.16.0.0/12" + notPrefixAt,
			"conf:3:46 pmcd config[line 3]: Warning: access control error for host 'fe80::/10" + notPrefixAt},
		agents: aDSO, rules: "y  /; y  0.0.0.0/0.0.0.0; y  ::/::"},
	{name: "everything", conf: head + "allow * : fetch;", ok: true, agents: aDSO, rules: "y  /; y  0.0.0.0/0.0.0.0; y  ::/::"},
	{name: "IPv4 wildcards", conf: head + "allow .*, 1.*, 1.2.*, 1.2.3.*, 1.2* : store;", ok: true, agents: aDSO,
		rules: " y 1.2.3.0/255.255.255.0;  y 1.2.0.0/255.255.0.0;  y 1.0.0.0/255.0.0.0;  y 0.0.0.0/0.0.0.0"},
	{name: "odd IPv4 wildcards", conf: head + "allow \"+1.*\", \"2..*\", \" 3.*\", \"4. 5.*\", 010.*, \"255...*\" : store;", ok: true, agents: aDSO,
		rules: " y 255.0.0.0/255.255.255.0;  y 2.0.0.0/255.255.0.0;  y 4.5.0.0/255.255.0.0;  y 1.0.0.0/255.0.0.0;  y 3.0.0.0/255.0.0.0;  y 10.0.0.0/255.0.0.0"},
	{name: "IPv6 wildcards", conf: head + "allow \":*\" : store; allow \"::*\", \"fe80:*\", \"fe80::*\", \"fe80::1:*\", \"fe81::1*\", \"1:2:3:4:5:6:7:*\", \"2::3:4:5:6:7:*\", \"0xAB:+1: 2:*\" : store;", ok: true, agents: aDSO,
		rules: " y 1:2:3:4:5:6:7:0/ffff:ffff:ffff:ffff:ffff:ffff:ffff:0;  y 2:0:3:4:5:6:7:0/ffff:0:ffff:ffff:ffff:ffff:ffff:0;" +
			"  y fe80::1:0/ffff::ffff:0;  y fe81::1:0/ffff::ffff:0;  y ab:1:2::/ffff:ffff:ffff::;  y fe80::/ffff::;  y fe80::/ffff::;  y ::/::"},
	{name: "addresses in odd forms", conf: head + "allow 1.2.3, 10, 0x7f.2, 010.1.1.1, \"::ffff:1.2.3.4\", \"fe80::1%lo\" : store;", ok: true, agents: aDSO,
		rules: " y 1.2.0.3;  y 0.0.0.10;  y 127.0.0.2;  y 8.1.1.1;  y ::ffff:1.2.3.4;  y fe80::1"},
	{name: "the Unix domain socket", conf: head + "allow \"unix:\" : fetch; allow \"unix:/*\", \"unix://\", \"unix:*\": fetch; disallow \"unix:\" : store;", ok: true, agents: aDSO, rules: "yn /"},
	{name: "a path is ignored", conf: head + "allow \"unix:/foo\", \"unix:foo*\" : fetch;", ok: true, agents: aDSO, rules: "y  /",
		problems: []string{
			`conf:3:7 Warning: Ignoring the path in host pattern "/foo"`,
			`conf:3:20 Warning: Ignoring the path in host pattern "foo*"`}},
	{name: "local and localhost", conf: head + "allow \"local:*\" : fetch; disallow LocalHost : store;", ok: true, agents: aDSO, rules: "yn 127.0.0.1; y  /"},
	{name: "localhost and its address clash", conf: head + "allow localhost: all; disallow 127.0.0.1: all;\n",
		problems: []string{"conf:3:32 pmcd config[line 3]: Error: access control error for host '127.0.0.1': permission clash for host 127.0.0.1 with earlier statement for localhost at conf:3:7"}},
	{name: "one name clashes for all it means", conf: head + "allow * : all; disallow * : all;\n",
		problems: []string{"conf:3:25 pmcd config[line 3]: Error: access control error for host '*': permission clash for host .* with earlier statement for .* at conf:3:7"}},
	{name: "one name clashes for a part of what it means", conf: head + "allow \"local:*\" : all; disallow * : all;\n", ok: true, agents: aDSO,
		rules:    "yy 127.0.0.1; yy /; nn 0.0.0.0/0.0.0.0; nn ::/::",
		problems: []string{"conf:3:33 Warning: access control error for host '*': permission clash for host unix: with earlier statement for unix: at conf:3:7, which stays in force"}},
	{name: "all clashes and mistakes in order", conf: head + "allow 192.0.2.2 : all; disallow 192.0.2.3,\n192.0.2.2 : store;\ndisallow\n192.0.2.2 : store;\nfoo;\n",
		problems: []string{
			"conf:4:1 pmcd config[line 4]: Error: access control error for host '192.0.2.2': permission clash for host 192.0.2.2 with earlier statement for 192.0.2.2 at conf:3:7",
			"conf:6:1 pmcd config[line 6]: Error: access control error for host '192.0.2.2': permission clash for host 192.0.2.2 with earlier statement for 192.0.2.2 at conf:3:7",
			"conf:7:1 pmcd config[line 7]: Error: allow or disallow statement expected"}},

	// Users and groups.
	{name: "users and groups", conf: head + "allow user root : all, maximum 3 connections; disallow groups root, daemon : store;", ok: true, agents: aDSO},
	{name: "an unknown user", conf: head + "allow user root, nosuchuser\n: all\n;\n",
		problems: []string{"conf:3:18 pmcd config[line 5]: Error: access control error for user 'nosuchuser': unknown user"}},
	{name: "a uid is not a name", conf: head + "allow user 0 : all;\n",
		problems: []string{"conf:3:12 pmcd config[line 3]: Error: access control error for user '0': unknown user"}},
	{name: "an unknown group", conf: head + "disallow groups nosuchgroup : all;\n",
		problems: []string{"conf:3:17 pmcd config[line 3]: Error: access control error for group 'nosuchgroup': unknown group"}},
	{name: "* first, last, in between", conf: head + "allow users root, *, daemon : all; allow groups * : all; disallow groups root : all;", ok: true, agents: aDSO},
	{name: "* twice", conf: head + "allow users * : fetch; disallow users * : store;\n", ok: true, agents: aDSO},
	{name: "* in contradiction", conf: head + "allow users * : all; disallow users * : store;\n",
		problems: []string{"conf:3:37 pmcd config[line 3]: Error: access control error for user '*': permission clash for user * with earlier statement for * at conf:3:13"},
		differs:  "pmcd does not look at earlier statements for *, and with two of them reads memory that is not its own"},
	{name: "a user clashes", conf: head + "allow user root : all; disallow user root : store;\n",
		problems: []string{"conf:3:38 pmcd config[line 3]: Error: access control error for user 'root': permission clash for user root with earlier statement for root at conf:3:12"}},
}

// badHosts are host identifiers that reject a file, and why.
var badHosts = map[string]string{
	"1.2.3.4.*":              "too many dots in host pattern",
	"1.2.3.4*":               "too many dots in host pattern",
	"1.2.3..*":               "too many dots in host pattern",
	"1*":                     "bad IP address wildcard",
	"..*":                    "bad IP address wildcard",
	".1.*":                   "bad IP address wildcard",
	"256.*":                  "bad IP address wildcard",
	"1.256.*":                "bad IP address wildcard",
	"0x1.*":                  "bad IP address wildcard",
	"-1.*":                   "bad IP address wildcard",
	"1 .*":                   "bad IP address wildcard",
	"1. .*":                  "bad IP address wildcard",
	"a.*":                    "bad IP address wildcard",
	"99999999999999999999.*": "bad IP address wildcard",
	"fe80*":                  "bad IP address wildcard",
	"localhost*":             "bad IP address wildcard",
	"1.2.3.*.":               "is not at the end",
	"129.127.*.*":            "is not at the end",
	"129.*.114.9":            "is not at the end",
	"*.melbourne":            "is not at the end",
	"**":                     "is not at the end",
	"unix:**":                "is not at the end",
	"unix:/*foo":             "is not at the end",
	"fe80:*:*":               "is not at the end",
	"fe80::*:1":              "is not at the end",
	":::*":                   "too many empty regions",
	"fe80:::*":               "too many empty regions",
	"fe80::1::*":             "too many empty regions",
	"1:2:3:4:5:6:7:8:*":      "too many colons",
	"1:2:3:4:5:6:7:8*":       "too many colons",
	"1:2:3:4:5:6:7::*":       "too many colons",
	"::1:2:3:4:5:6:7:*":      "too many colons",
	"1::2:3:4:5:6:7:*":       "too many colons",
	"::1:*":                  "bad IPv6 address wildcard",
	":1:*":                   "bad IPv6 address wildcard",
	":1*":                    "bad IPv6 address wildcard",
	"g:*":                    "bad IPv6 address wildcard",
	"12345:*":                "bad IPv6 address wildcard",
	"-1:*":                   "bad IPv6 address wildcard",
	"fe80: :*":               "bad IPv6 address wildcard",
	"::ffff:1.2.3.*":         "bad IPv6 address wildcard",
	"1:2.*":                  "bad IPv6 address wildcard",
	"Unix:*":                 "bad IPv6 address wildcard",
	"LOCAL:*":                "bad IPv6 address wildcard",
}
