//go:build cgo

/*
 * The SASL helper, a process that uses libsasl2 for pmcd.
 *
 * A constructor takes over before the Go runtime starts. So the process has one
 * thread and may fork. It loads libsasl2 and its configuration once. For each login
 * it forks a child, which inherits both, has a socket to pmcd of its own, and ends
 * with the login.
 *
 * argv is "pmcd-sasl" MODE SECONDS LIBRARY...; MODE is "serve", or "probe" to find
 * out only whether a library can be loaded. Descriptor 0 is a SOCK_SEQPACKET socket
 * to pmcd. The messages are described in package sasl (message.go).
 */

#define _GNU_SOURCE
#include "helper.h"
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

/* Other C libraries do not pass argc and argv to a constructor. */
#ifdef __GLIBC__

const int pmcd_saslhelper_supported = 1;

char sh_message[1 + MAX_PAYLOAD + 1];

/* Sends a message: a type, 4 bytes if number is not NULL, and text. It reports
 * whether that was possible. flags are those of send(2). */
int sh_send_message(int flags, char type, const int *number, const void *text, size_t length)
{
	unsigned char b[1 + 4 + MAX_PAYLOAD];
	size_t n = 0;

	b[n++] = type;
	if (number != NULL)
		for (int shift = 24; shift >= 0; shift -= 8)
			b[n++] = (uint32_t)*number >> shift;
	if (length > MAX_PAYLOAD)
		length = MAX_PAYLOAD;
	memcpy(b + n, text, length);
	return send(CONTROL, b, n + length, flags | MSG_NOSIGNAL) == (ssize_t)(n + length);
}

/* Sends a line for pmcd's log, which may be lost if pmcd does not read. */
int sh_send_log(int level, const char *text)
{
	sh_send_message(MSG_DONTWAIT, 'T', &level, text, strnlen(text, MAX_LOG));
	return SASL_OK;
}

/* Sends type and text, and ends the process. */
void sh_fail(char type, const char *format, ...)
{
	char text[MAX_LOG];
	va_list args;

	va_start(args, format);
	vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	sh_send_message(0, type, NULL, text, strlen(text));
	_exit(1);
}

static struct login {
	char id[8]; /* given by pmcd */
	pid_t pid;  /* 0 if there is no login */
	int killed;
} logins[MAX_LOGINS];

static struct login *find_login(const char *id, int used)
{
	for (struct login *l = logins; l < logins + MAX_LOGINS; l++)
		if (used ? l->pid != 0 && memcmp(l->id, id, sizeof(l->id)) == 0 : l->pid == 0)
			return l;
	return NULL;
}

/* Starts the child of a login, whose socket is fd. */
static void start_login(const char *id, int fd)
{
	struct login *l = find_login(id, 0);
	pid_t helper = getpid();

	if (l == NULL) {
		sh_send_log(1, "too many logins at once");
		return;
	}
	if ((l->pid = fork()) < 0) {
		l->pid = 0;
		sh_send_log(1, "cannot fork for a login");
		return;
	}
	if (l->pid == 0) {
		sigset_t none;
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		if (getppid() != helper)
			_exit(1);
		signal(SIGCHLD, SIG_DFL);
		signal(SIGALRM, SIG_DFL);
		sigemptyset(&none);
		sigprocmask(SIG_SETMASK, &none, NULL);
		if (dup2(fd, CONTROL) < 0)
			_exit(1);
		close(fd);
		sh_serve_login();
	}
	memcpy(l->id, id, sizeof(l->id));
	l->killed = 0;
}

static void reap(void)
{
	char text[MAX_LOG + 1];
	int status;
	pid_t pid;

	while ((pid = waitpid(-1, &status, WNOHANG)) > 0)
		for (struct login *l = logins; l < logins + MAX_LOGINS; l++) {
			if (l->pid != pid)
				continue;
			l->pid = 0;
			if (WIFSIGNALED(status) && !(l->killed && WTERMSIG(status) == SIGKILL)) {
				snprintf(text, sizeof(text), "the process of a login was ended by signal %d", WTERMSIG(status));
				sh_send_log(1, text);
			}
		}
}

/* Ends the logins and the process. Without the waits the children would be left to
 * init, which is pmcd itself in some containers. */
static void end(void)
{
	for (struct login *l = logins; l < logins + MAX_LOGINS; l++)
		if (l->pid != 0)
			kill(l->pid, SIGKILL);
	while (waitpid(-1, NULL, 0) > 0 || errno == EINTR)
		;
	_exit(0);
}

/* Receives a message from pmcd, with at most one descriptor, and does what it says. */
static void handle_message(void)
{
	union {
		char space[CMSG_SPACE(sizeof(int))];
		struct cmsghdr align;
	} control;
	struct iovec iov = { .iov_base = sh_message, .iov_len = sizeof(sh_message) };
	struct msghdr m = { .msg_iov = &iov, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof(control) };
	struct login *l;
	ssize_t n;
	int fd = -1;

	if ((n = recvmsg(CONTROL, &m, MSG_CMSG_CLOEXEC)) < 0) {
		if (errno == EINTR || errno == EAGAIN)
			return;
		_exit(1);
	}
	struct cmsghdr *c = CMSG_FIRSTHDR(&m);
	if (c != NULL && c->cmsg_level == SOL_SOCKET && c->cmsg_type == SCM_RIGHTS && c->cmsg_len == CMSG_LEN(sizeof(int)))
		memcpy(&fd, CMSG_DATA(c), sizeof(fd));
	if (n == 0)
		end(); /* pmcd has closed the socket or ended */
	if (n == 1 + sizeof(l->id) && sh_message[0] == 'L' && fd >= 0)
		start_login(sh_message + 1, fd);
	else if (n == 1 + sizeof(l->id) && sh_message[0] == 'K' && (l = find_login(sh_message + 1, 1)) != NULL) {
		l->killed = 1;
		kill(l->pid, SIGKILL); /* it was not reaped, so the number is still its own */
	}
	if (fd >= 0)
		close(fd);
}

static void on_child(int sig) { (void)sig; } /* interrupts ppoll */

static void serve(void)
{
	struct pollfd p = { .fd = CONTROL, .events = POLLIN };
	struct sigaction act = { .sa_handler = on_child };
	sigset_t child, before;

	sigemptyset(&child);
	sigaddset(&child, SIGCHLD);
	sigprocmask(SIG_BLOCK, &child, &before);
	sigdelset(&before, SIGCHLD);
	sigaction(SIGCHLD, &act, NULL);
	for (;;) {
		if (ppoll(&p, 1, NULL, &before) > 0)
			handle_message();
		reap();
	}
}

/* Leaves the process with no descriptor but CONTROL, and without what it does not
 * need. */
static int confine(void)
{
	const struct rlimit no_core = { 0, 0 };
	struct rlimit files;
	int null;

	if (dup2(0, CONTROL) < 0 || fcntl(CONTROL, F_SETFD, FD_CLOEXEC) < 0 || (null = open("/dev/null", O_RDWR)) < 0)
		return -1;
	for (int fd = 0; fd <= 2; fd++)
		if (dup2(null, fd) < 0)
			return -1;
#ifdef SYS_close_range
	syscall(SYS_close_range, CONTROL + 1, ~0U, 0); /* they are close-on-exec anyway */
#endif
	if (getrlimit(RLIMIT_NOFILE, &files) == 0 && files.rlim_cur > 256) {
		files.rlim_cur = files.rlim_max = 256;
		setrlimit(RLIMIT_NOFILE, &files);
	}
	setpriority(PRIO_PROCESS, 0, getpriority(PRIO_PROCESS, 0) + NICE);
	prctl(PR_SET_NAME, "pmcd-sasl");
	/* A terminal or a service manager sends these to all processes. They are meant for
	 * pmcd, and this process ends when pmcd does. */
	signal(SIGHUP, SIG_IGN);
	signal(SIGINT, SIG_IGN);
	signal(SIGTERM, SIG_IGN);
	signal(SIGPIPE, SIG_IGN);
	if (setrlimit(RLIMIT_CORE, &no_core) < 0 || prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) < 0)
		return -1;
	return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
}

/* The whole program of the helper. It does not return. */
static void run_helper(const char *mode, const char *seconds, char **libraries)
{
	const char *name;

	if (confine() < 0)
		_exit(1);
	sh_time_limit = atoi(seconds);
	name = sh_load_library(libraries);
	if (strcmp(mode, "probe") != 0)
		sh_init_library();
	sh_send_message(0, 'R', NULL, name, strnlen(name, MAX_LOG));
	if (strcmp(mode, "serve") == 0)
		serve();
	_exit(0);
}

__attribute__((constructor)) static void take_over(int argc, char **argv)
{
	/* Not in a program with more rights than its user has: argv is of the user. */
	if (argc >= 3 && strcmp(argv[0], "pmcd-sasl") == 0 && !getauxval(AT_SECURE))
		run_helper(argv[1], argv[2], argv + 3);
}

#else

const int pmcd_saslhelper_supported = 0;

#endif
