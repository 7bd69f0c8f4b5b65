//go:build cgo

/*
 * The host of one DSO agent, which runs in a process of its own.
 *
 * A constructor takes over before the Go runtime starts. So the process of the
 * agent is like that of a C program: it has one thread, and no signal handlers
 * but those below. The program is not linked with PCP: the host looks up the
 * functions that it needs in the libraries of the DSO.
 *
 * argv is "pmcd-dso: NAME" DOMAIN ENTRY PATH [USER]. Before the PDUs the host
 * writes one line to its standard output: "interface N"; or "error TEXT", and
 * exits.
 */

#define _GNU_SOURCE
#include <ctype.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <pwd.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

/* Other C libraries do not pass argc and argv to a constructor, and do not allow
 * assignments to stdin. */
#ifdef __GLIBC__

const int pmcd_dsohost_supported = 1;

static const char prefix[] = "pmcd-dso: ";

/* The first fields of pmdaInterface (pmda.h), with its three bit fields as they
 * are in memory, and space for more methods than any version has. */
static struct {
	int32_t domain;
	uint8_t interface, api;
	uint16_t flags;
	int32_t status;
	void *ext;
	void *methods[64];
} agent;

/* Initial values, which the entry function must replace. */
enum { NO_INTERFACE = 0xff, NO_API = 0xfd };

static int replies = -1; /* descriptor for PDUs to pmcd */

/* Sends a line to pmcd, before the PDUs. */
static void send_line(const char *format, ...)
{
	char line[1000];
	va_list args;

	va_start(args, format);
	vsnprintf(line, sizeof(line) - 1, format, args);
	va_end(args);
	for (char *c = line; *c; c++)
		if (iscntrl((unsigned char)*c))
			*c = ' ';
	strcat(line, "\n");
	if (write(replies, line, strlen(line)) < 0)
		fputs(line, stderr);
}

#define DIE(...) do { send_line("error " __VA_ARGS__); exit(1); } while (0)

static pid_t parent; /* the process that started this one */

/* SIGTERM is also the death signal of the parent. When the parent has ended, the
 * host exits even if a function of the DSO does not return. */
static void on_signal(int sig)
{
	if (sig == SIGTERM && getppid() != parent)
		_exit(1);
}

/* The host does not end by other signals, which are meant for pmcd: it ends when
 * its pipe is closed. It has a handler, because programs that the DSO starts would
 * inherit SIG_IGN. SIGPIPE is ignored, as in C pmcd. */
static void set_signal_handlers(void)
{
	static const int handled[] = { SIGHUP, SIGINT, SIGTERM };
	struct sigaction act = { .sa_handler = on_signal, .sa_flags = SA_RESTART };

	parent = getppid(); /* before the handler is set */
	for (size_t i = 0; i < sizeof(handled) / sizeof(handled[0]); i++)
		sigaction(handled[i], &act, NULL);
	signal(SIGPIPE, SIG_IGN);
}

/* Returns the text of an error code, from libpcp if the DSO is linked with it. */
static const char *error_text(void *dso, int code, char *buf, int size)
{
	char *(*text)(int, char *, int) = dlsym(dso, "pmErrStr_r");

	if (text == NULL)
		return strerror(-code);
	return text(code, buf, size);
}

/* Becomes a user for good. C pmcd, too, loads the DSO as root and then becomes the
 * user. */
static void become_user(const char *user)
{
	struct passwd *pw;
	int death = 0;

	prctl(PR_GET_PDEATHSIG, &death);
	errno = 0;
	if ((pw = getpwnam(user)) == NULL)
		DIE("cannot become user %s: %s", user, errno ? strerror(errno) : "there is no such user");
	if (setgid(pw->pw_gid) < 0 || initgroups(user, pw->pw_gid) < 0 || setuid(pw->pw_uid) < 0)
		DIE("cannot become user %s: %s", user, strerror(errno));
	if (pw->pw_uid != 0 && setuid(0) == 0)
		DIE("cannot become user %s for good", user);
	/* The kernel has cancelled the death signal because of the change. */
	if (death != 0 && prctl(PR_SET_PDEATHSIG, death) == 0 && getppid() != parent)
		_exit(1);
}

/* The whole program of a host. It does not return. */
static void run_host(const char *name, const char *domain, const char *entry, const char *path, const char *user)
{
	char buf[200];
	FILE *in, *out, *saved_in = stdin, *saved_out = stdout;
	void *dso;
	void (*init)(void *), (*progname)(const char *), (*pmdaconnect)(void *), (*pmdamain)(void *);

	/* PDUs use descriptors that a printf of the DSO does not write to and that
	 * programs it starts do not inherit. The standard output of the DSO goes
	 * to stderr. */
	int requests = fcntl(0, F_DUPFD_CLOEXEC, 3);
	replies = fcntl(1, F_DUPFD_CLOEXEC, 3);
	int null = open("/dev/null", O_RDONLY | O_CLOEXEC);
	if (requests < 0 || replies < 0 || null < 0 || dup2(null, 0) < 0 || dup2(2, 1) < 0 ||
	    (in = fdopen(requests, "r")) == NULL || (out = fdopen(replies, "w")) == NULL)
		DIE("cannot set up the DSO host: %s", strerror(errno));
	close(null);
	setvbuf(stdout, NULL, _IOLBF, 0);
	prctl(PR_SET_NAME, "pmcd-dso");
	set_signal_handlers();

	/* Not RTLD_NOW: some DSOs have unresolved symbols that are never used. */
	if ((dso = dlopen(path, RTLD_LAZY)) == NULL)
		DIE("cannot load the DSO: %s", dlerror());
	if ((init = dlsym(dso, entry)) == NULL)
		DIE("%s has no function %s", path, entry);
	progname = dlsym(dso, "pmSetProgname");
	pmdaconnect = dlsym(dso, "pmdaConnect");
	pmdamain = dlsym(dso, "pmdaMain");
	if (progname == NULL || pmdaconnect == NULL || pmdamain == NULL)
		DIE("%s is not linked with libpcp_pmda and libpcp", path);

	progname(name);
	agent.domain = atoi(domain);
	agent.interface = NO_INTERFACE;
	agent.api = NO_API;
	init(&agent);
	if (agent.status != 0)
		DIE("%s of %s failed: %s", entry, path, error_text(dso, agent.status, buf, sizeof(buf)));
	if (agent.interface == NO_INTERFACE || agent.ext == NULL)
		DIE("%s of %s has not set up an agent: no call of pmdaDSO", entry, path);
	if (agent.interface < 2 || agent.interface > 7)
		DIE("%s of %s wants PMDA interface %d; 2 to 7 are known", entry, path, agent.interface);
	if (agent.api < 2 || agent.api == NO_API)
		DIE("%s of %s wants PMAPI version %d; 2 is the oldest", entry, path, agent.api);
	if (user != NULL)
		become_user(user);
	send_line("interface %d", agent.interface);

	/* pmdaConnect uses the descriptors of stdin and stdout. */
	stdin = in;
	stdout = out;
	pmdaconnect(&agent);
	stdin = saved_in;
	stdout = saved_out;
	if (agent.status != 0) {
		fprintf(stderr, "%s%s: cannot negotiate with pmcd: %s\n", prefix, name,
		    error_text(dso, agent.status, buf, sizeof(buf)));
		exit(1);
	}
	pmdamain(&agent);
	exit(0); /* pmcd has closed the pipe */
}

__attribute__((constructor)) static void take_over(int argc, char **argv)
{
	size_t n = sizeof(prefix) - 1;

	if ((argc == 4 || argc == 5) && strncmp(argv[0], prefix, n) == 0)
		run_host(argv[0] + n, argv[1], argv[2], argv[3], argv[4]); /* argv[argc] is NULL */
}

#else

const int pmcd_dsohost_supported = 0;

#endif
