/* Calls all functions of libpcp_trace, and prints what they return. The arguments are a
 * prefix for tags, and "async". */
#include <pcp/trace.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static void result(const char *call, int sts)
{
	printf("%s: %d %s\n", call, sts, sts < 0 ? pmtraceerrstr(sts) : "");
}

int main(int argc, char **argv)
{
	char tag[300], tag2[300];
	int i;

	snprintf(tag, sizeof tag, "%s first", argv[1]);
	snprintf(tag2, sizeof tag2, "%s-second", argv[1]);
	if (argc > 2)
		result("state", pmtracestate(PMTRACE_STATE_ASYNC));
	result("end of none", pmtraceend(tag));
	result("begin", pmtracebegin(tag));
	result("begin again", pmtracebegin(tag));
	result("end", pmtraceend(tag));
	result("end again", pmtraceend(tag));
	result("begin", pmtracebegin(tag2));
	result("abort", pmtraceabort(tag2));
	result("end", pmtraceend(tag2));
	for (i = 0; i < 3; i++)
		result("point", pmtracepoint(tag));
	result("observation", pmtraceobs(tag, 3.5));
	result("counter", pmtracecounter(tag, 1e100));
	result("counter", pmtracecounter(tag2, -4));
	memset(tag, 'x', 124);
	tag[124] = 0;
	result("long tag", pmtracepoint(tag));
	memset(tag, 'x', 256);
	tag[256] = 0;
	result("tag that is too long", pmtracepoint(tag));
	result("no tag", pmtracepoint(""));
	return 0;
}
