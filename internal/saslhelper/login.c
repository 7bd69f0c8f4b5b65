//go:build cgo

/* A login, in the child that the helper forks for it. */

#define _GNU_SOURCE
#include "helper.h"
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#ifdef __GLIBC__

/* Called by the library with a text for the log. */
static int on_log(void *context, int level, const char *text)
{
	(void)context;
	return level < 1 || level > LOG_LEVEL_WARNING || text == NULL ? SASL_OK : sh_send_log(level, text);
}

/* Initialises the library, which reads its configuration and loads its plugins; or
 * ends the process. */
void sh_init_library(void)
{
	static const struct callback callbacks[] = {
		{ CB_LOG, (int (*)(void))on_log, NULL },
		{ CB_LIST_END, NULL, NULL },
	};
	int result = sh_sasl.server_init(callbacks, "pmcd");

	if (result != SASL_OK)
		sh_fail('F', "%s", sh_sasl.errstring(result, NULL, NULL));
}

unsigned sh_time_limit;

/* Receives a message of this type. It returns the length of the payload, which is
 * followed by a NUL. The process ends when pmcd has closed the socket. */
static size_t receive(char type)
{
	ssize_t n;

	alarm(0);
	do
		n = recv(CONTROL, sh_message, 1 + MAX_PAYLOAD, MSG_TRUNC);
	while (n < 0 && errno == EINTR);
	if (n < 1 || n > 1 + MAX_PAYLOAD || sh_message[0] != type)
		_exit(0);
	sh_message[n] = 0;
	alarm(sh_time_limit); /* its default action is to end the process */
	return n - 1;
}

/* Sends the error code of PCP for a result of libsasl2, and ends the process. */
static void fail_login(int code)
{
	code = code == NO_CHALLENGE ? -EINVAL : -21344 + (code < 0 ? code : SASL_FAIL);
	sh_send_message(0, 'E', &code, "", 0);
	_exit(0);
}

static void check(int code)
{
	if (code != SASL_OK && code != SASL_CONTINUE)
		fail_login(code);
}

/* Serves one login. It does not return. */
void sh_serve_login(void)
{
	struct security_properties properties = { .max_ssf = UINT_MAX, .maxbufsize = 2048 };
	char host[256] = "";
	const char *list, *out;
	const void *name;
	unsigned length, ssf;
	size_t n;
	int count, result;
	void *conn = NULL;

	if (receive('S') != 4)
		_exit(0);
	ssf = 0;
	for (int i = 1; i <= 4; i++)
		ssf = ssf << 8 | (unsigned char)sh_message[i];
	gethostname(host, sizeof(host) - 1);
	check(sh_sasl.server_new("PCP Collector", host, NULL, NULL, NULL, NULL, 0, &conn));
	check(sh_sasl.setprop(conn, PROP_SSF_EXTERNAL, &ssf));
	check(sh_sasl.setprop(conn, PROP_SEC_PROPS, &properties));
	check(sh_sasl.listmech(conn, NULL, NULL, " ", NULL, &list, &length, &count));
	if (list == NULL || length > MAX_PAYLOAD)
		fail_login(SASL_BUFOVER);
	sh_send_message(0, 'M', NULL, list, length);

	/* The mechanism, a NUL, and the initial response; or the mechanism alone. */
	n = receive('D');
	const char *initial = memchr(sh_message + 1, 0, n);
	initial = initial == NULL ? NULL : initial + 1;
	out = NULL;
	length = 0;
	result = sh_sasl.server_start(conn, n == 0 ? NULL : sh_message + 1, initial, initial == NULL ? 0 : sh_message + 1 + n - initial, &out, &length);
	while (result == SASL_CONTINUE) {
		if (out == NULL)
			fail_login(NO_CHALLENGE);
		if (length > MAX_PAYLOAD)
			fail_login(SASL_BUFOVER);
		sh_send_message(0, 'C', NULL, out, length);
		n = receive('D');
		out = NULL;
		length = 0;
		result = sh_sasl.server_step(conn, sh_message + 1, n, &out, &length);
	}
	check(result);
	check(sh_sasl.getprop(conn, PROP_USERNAME, &name));
	if (name == NULL || strlen(name) > MAX_PAYLOAD)
		fail_login(SASL_FAIL);
	sh_send_message(0, 'O', NULL, name, strlen(name));
	_exit(0);
}

#endif
