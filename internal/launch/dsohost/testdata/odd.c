/* An agent for tests. Most entry functions fail, each in another way. noisy_init
 * works, but uses the standard input and output, which must not disturb the
 * PDUs. */
#include <pcp/pmapi.h>
#include <pcp/pmda.h>
#include <stdlib.h>
#include <unistd.h>

static pmdaMetric metrics[] = {
	{ NULL, { PMDA_PMID(0, 0), PM_TYPE_U32, PM_INDOM_NULL, PM_SEM_COUNTER, PMDA_PMUNITS(0, 0, 1, 0, 0, PM_COUNT_ONE) } },
};

static int value(pmdaMetric *m, unsigned int inst, pmAtomValue *v)
{
	static unsigned int fetches;

	if (pmID_cluster(m->m_desc.pmid) != 0 || pmID_item(m->m_desc.pmid) != 0)
		return PM_ERR_PMID;
	printf("odd: to stdout\n");
	if (getuid() != 0) {
		gid_t groups[100];

		printf("odd: fetch as %d:%d and %d groups, root can be regained: %d\n", (int)getuid(), (int)getgid(),
		    getgroups(100, groups), setuid(0) == 0);
	}
	if (system("cat; echo odd: by a program") != 0)
		return PM_ERR_VALUE;
	v->ul = ++fetches;
	return 1;
}

static void init(pmdaInterface *d, int version)
{
	pmdaDSO(d, version, "odd DSO", NULL);
	if (d->status != 0)
		return;
	printf("odd: stdout in init\n");
	pmdaSetFetchCallBack(d, value);
	pmdaInit(d, NULL, 0, metrics, sizeof(metrics) / sizeof(metrics[0]));
}

void noisy_init(pmdaInterface *d) { init(d, PMDA_INTERFACE_2); }
void who_init(pmdaInterface *d) { init(d, PMDA_INTERFACE_2); printf("odd: init as %d:%d\n", (int)getuid(), (int)getgid()); }
void fails_init(pmdaInterface *d) { d->status = PM_ERR_PERMISSION; }
void forgets_init(pmdaInterface *d) { }
void future_init(pmdaInterface *d) { init(d, PMDA_INTERFACE_7); d->comm.pmda_interface = 8; }
void old_init(pmdaInterface *d) { init(d, PMDA_INTERFACE_7); d->comm.pmapi_version = 1; }
void crashes_init(pmdaInterface *d) { abort(); }
void exits_init(pmdaInterface *d) { exit(7); }
void waits_init(pmdaInterface *d) { sleep(60); }
