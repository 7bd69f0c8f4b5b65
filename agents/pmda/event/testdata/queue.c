/* A program for tests: reads operations on one event queue of libpcp_pmda, a line
 * each, and prints a result for each. The operations are those of runScript in
 * script_test.go. */
#include <pcp/pmapi.h>
#include <pcp/pmda.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int queue;

/* An event that starts with '0' has no record, with '2' two, otherwise one. */
static int decode(int key, void *data, size_t size, struct timeval *tv, void *arg)
{
	char *text = data;
	int i, sts, n = 1;
	pmAtomValue v;

	if (size > 0 && (text[0] == '0' || text[0] == '2'))
		n = text[0] - '0';
	for (i = 0; i < n; i++) {
		if ((sts = pmdaEventAddRecord(key, tv, PM_EVENT_FLAG_POINT)) < 0)
			return sts;
		v.cp = strndup(text, size);
		if ((sts = pmdaEventAddParam(key, pmID_build(250, 0, 1), PM_TYPE_STRING, &v)) < 0)
			return sts;
		free(v.cp);
		v.ull = size;
		if ((sts = pmdaEventAddParam(key, pmID_build(250, 0, 2), PM_TYPE_U64, &v)) < 0)
			return sts;
	}
	return n;
}

/* The filter is the minimum size. release frees it. */
static int skip(void *filter, void *data, size_t size) { return size < *(size_t *)filter; }

static void records(int client)
{
	pmAtomValue v;
	int sts = pmdaEventQueueRecords(queue, &v, client, decode, NULL);

	if (sts < 0) {
		printf("error\n");
		return;
	}
	printf("records");
	if (sts != PMDA_FETCH_NOVALUES) {
		pmEventArray *a = (pmEventArray *)v.vbp;
		char *p = (char *)a->ea_record;
		int i, j;

		for (i = 0; i < a->ea_nrecords; i++) {
			pmEventRecord *r = (pmEventRecord *)p;

			if (r->er_flags & PM_EVENT_FLAG_MISSED) {
				printf(" missed:%d", r->er_nparams);
				p += sizeof(*r) - sizeof(r->er_param);
				continue;
			}
			printf(" %d.%06d/%x", (int)r->er_timestamp.tv_sec, (int)r->er_timestamp.tv_usec, r->er_flags);
			p += sizeof(*r) - sizeof(r->er_param);
			for (j = 0; j < r->er_nparams; j++) {
				pmEventParameter *e = (pmEventParameter *)p;
				int n = e->ep_len - PM_VAL_HDR_SIZE;

				printf(",%s:%d:", pmIDStr(e->ep_pmid), e->ep_type);
				if (e->ep_type == PM_TYPE_STRING)
					printf("%.*s", n, p + sizeof(*e));
				else {
					unsigned long long v;

					memcpy(&v, p + sizeof(*e), sizeof(v));
					printf("%llu", v);
				}
				p += sizeof(*e) + ((n + 3) & ~3);
			}
		}
	}
	printf("\n");
}

int main(void)
{
	char word[32], data[512];
	int client;
	long n, usec;

	setvbuf(stdout, NULL, _IOLBF, 0);
	while (scanf("%31s", word) == 1) {
		if (strcmp(word, "queue") == 0 && scanf("%ld", &n) == 1) {
			queue = pmdaEventNewQueue("q", n);
			printf("%s\n", queue < 0 ? "error" : "ok");
		} else if (strcmp(word, "append") == 0 && scanf("%ld %ld %511s", &n, &usec, data) == 3) {
			struct timeval tv = { n, usec };
			printf("%s\n", pmdaEventQueueAppend(queue, data, strlen(data), &tv) < 0 ? "error" : "ok");
		} else if (strcmp(word, "allow") == 0 && scanf("%d %ld", &client, &n) == 2) {
			pmdaEventNewClient(client);
			printf("%s\n", pmdaEventSetAccess(client, queue, n) < 0 ? "error" : "ok");
		} else if (strcmp(word, "filter") == 0 && scanf("%d %ld", &client, &n) == 2) {
			size_t *filter = malloc(sizeof(*filter));

			*filter = n;
			pmdaEventNewClient(client);
			printf("%s\n", pmdaEventSetFilter(client, queue, filter, skip, free) < 0 ? "error" : "ok");
		} else if (strcmp(word, "unfilter") == 0 && scanf("%d", &client) == 1) {
			pmdaEventNewClient(client);
			printf("%s\n", pmdaEventSetFilter(client, queue, NULL, NULL, NULL) < 0 ? "error" : "ok");
		} else if (strcmp(word, "records") == 0 && scanf("%d", &client) == 1) {
			pmdaEventNewClient(client);
			records(client);
		} else if (strcmp(word, "end") == 0 && scanf("%d", &client) == 1) {
			pmdaEventEndClient(client);
			printf("ok\n");
		} else if (strcmp(word, "close") == 0) {
			printf("%s\n", pmdaEventQueueShutdown(queue) < 0 ? "error" : "ok");
		} else if (strcmp(word, "stats") == 0) {
			pmAtomValue count, bytes, clients, memory;

			if (pmdaEventQueueCounter(queue, &count) < 0) {
				printf("error\n");
				continue;
			}
			pmdaEventQueueBytes(queue, &bytes);
			pmdaEventQueueClients(queue, &clients);
			pmdaEventQueueMemory(queue, &memory);
			printf("stats %u %llu %u %llu\n", count.ul, (unsigned long long)bytes.ull,
				clients.ul, (unsigned long long)memory.ull);
		} else {
			fprintf(stderr, "what is %s?\n", word);
			return 1;
		}
	}
	return 0;
}
