/*
 * fetch HOST METRIC NUMBER: a client of libpcp that fetches a metric NUMBER times
 * in one request. For each line with a number of requests it prints the time in
 * nanoseconds, its own CPU time, the number of allocations and the sum of the values.
 */
#include <pcp/pmapi.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

static unsigned long allocations;

extern void *__libc_malloc(size_t);
extern void *__libc_calloc(size_t, size_t);
extern void *__libc_realloc(void *, size_t);

/* Those of libpcp are counted, too. */
void *malloc(size_t n) { allocations++; return __libc_malloc(n); }
void *calloc(size_t n, size_t size) { allocations++; return __libc_calloc(n, size); }
void *realloc(void *p, size_t n) { allocations++; return __libc_realloc(p, n); }

static long long now(clockid_t clock)
{
	struct timespec ts;

	clock_gettime(clock, &ts);
	return ts.tv_sec * 1000000000LL + ts.tv_nsec;
}

static void check(const char *what, int sts)
{
	if (sts >= 0)
		return;
	fprintf(stderr, "%s: %s\n", what, pmErrStr(sts));
	exit(1);
}

int main(int argc, char **argv)
{
	int i, j, requests, number = atoi(argv[3]);
	pmID id, *ids = calloc(number, sizeof(pmID));
	pmDesc desc;
	pmResult *r;
	pmAtomValue v;

	check("context", pmNewContext(PM_CONTEXT_HOST, argv[1]));
	check("name", pmLookupName(1, (const char **)&argv[2], &id));
	check("descriptor", pmLookupDesc(id, &desc));
	for (i = 0; i < number; i++)
		ids[i] = id;
	while (scanf("%d", &requests) == 1) {
		double sum = 0;
		unsigned long before = allocations;
		long long began = now(CLOCK_MONOTONIC), cpu = now(CLOCK_PROCESS_CPUTIME_ID);

		for (i = 0; i < requests; i++) {
			check("fetch", pmFetch(number, ids, &r));
			for (j = 0; j < r->numpmid; j++) {
				check("value", r->vset[j]->numval - 1);
				check("value", pmExtractValue(r->vset[j]->valfmt, &r->vset[j]->vlist[0], desc.type, &v, PM_TYPE_DOUBLE));
				sum += v.d;
			}
			pmFreeResult(r);
		}
		printf("%lld %lld %lu %.0f\n", now(CLOCK_MONOTONIC) - began, now(CLOCK_PROCESS_CPUTIME_ID) - cpu, allocations - before, sum);
		fflush(stdout);
	}
	return 0;
}
