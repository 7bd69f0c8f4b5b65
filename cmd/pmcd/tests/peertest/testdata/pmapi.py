"""Use the Python API as a monitoring program would, and print what it says.

usage: pmapi.py HOST

Everything printed is the same for two daemons with the same agents: values are
those of constant metrics, or only their number is shown.
"""

import sys
from ctypes import c_uint, pointer
import cpmapi as c_api
from pcp import pmapi


def say(what, *args):
    print(what + ":", *args)


def attempt(what, fn, *args):
    """Print the result of fn, or how it failed."""
    try:
        say(what, fn(*args))
    except pmapi.pmErr as err:
        # Its message() shows the address of what it was raised for.
        say(what, "error", err.errno(), pmapi.pmContext.pmErrStr(err.errno()))


def values(ctx, result, descs, which):
    """The instances and values of one metric of a result."""
    r = result.contents
    typ = descs[which].contents.type
    return [(r.get_inst(which, i),
             ctx.pmExtractValue(r.get_valfmt(which), r.get_vlist(which, i), typ, typ).dref(typ))
            for i in range(r.get_numval(which))]


def instances(ctx, pmids, descs, which):
    """What the current profile lets through."""
    result = ctx.pmFetch(pmids)
    out = values(ctx, result, descs, which)
    ctx.pmFreeResult(result)
    return out


def highres(ctx, pmids, descs, which):
    """The same by a high resolution fetch."""
    result = ctx.pmHighResFetch(pmids)
    out = values(ctx, result, descs, which)
    ctx.pmFreeHighResResult(result)
    return out


def copy_of(ctx):
    """A context of its own on the same connection, with a copy of the profile."""
    new = pmapi.pmContext.__new__(pmapi.pmContext)
    new._ctx = ctx.pmDupContext()
    return new


def indom(ctx, domain, serial):
    """An instance domain as the functions of the API want it."""
    desc = pmapi.pmDesc()
    desc.indom = ctx.pmInDom_build(domain, serial)
    return pointer(desc)


def profiles(ctx):
    names = ("sample.long.bin", "sample.long.hundred", "sample.bin", "hinv.ncpu", "simple.numfetch")
    pmids = ctx.pmLookupName(names)
    descs = ctx.pmLookupDescs(pmids)
    say("pmids", [ctx.pmIDStr(p) for p in pmids])
    say("indom", ctx.pmInDomStr(descs[0]))
    inst, name = ctx.pmGetInDom(descs[0])
    say("instances", list(zip(inst, name)))

    for fetch in instances, highres:
        say("all", fetch(ctx, pmids, descs, 0))
        ctx.pmDelProfile(descs[0], None)
        say("none", fetch(ctx, pmids, descs, 0), fetch(ctx, pmids, descs, 2), "others", fetch(ctx, pmids, descs, 1))
        ctx.pmAddProfile(descs[0], [200, 700])
        say("two", fetch(ctx, pmids, descs, 0), fetch(ctx, pmids, descs, 2))
        ctx.pmAddProfile(descs[0], [900, 12345])
        say("one more, and one that does not exist", fetch(ctx, pmids, descs, 0))
        ctx.pmDelProfile(descs[0], [700])
        say("without one", fetch(ctx, pmids, descs, 0))
        ctx.pmAddProfile(descs[0], None)
        say("all again", fetch(ctx, pmids, descs, 0))
        ctx.pmDelProfile(descs[0], [100, 300, 500])
        say("all but three", fetch(ctx, pmids, descs, 0))
        copy = copy_of(ctx)
        say("copied context", fetch(copy, pmids, descs, 0))
        copy.pmAddProfile(descs[0], None)
        say("changed in the copy", fetch(copy, pmids, descs, 0))
        say("unchanged in the first", fetch(ctx, pmids, descs, 0))
        ctx.pmAddProfile(descs[0], None)

    need = ctx.pmLookupName(("sample.needprofile",))
    ndesc = ctx.pmLookupDescs(need)
    say("needs a profile", instances(ctx, need, ndesc, 0))
    ctx.pmDelProfile(ndesc[0], None)
    ctx.pmAddProfile(ndesc[0], [0, 4])
    say("has a profile", instances(ctx, need, ndesc, 0))


def names(ctx):
    attempt("leaf", lambda: list(ctx.pmLookupName("sample.long.one")))
    attempt("no such name", lambda: ctx.pmLookupName("no.such.name"))
    attempt("non-leaf", lambda: ctx.pmLookupName("sample.long"))
    attempt("some bad", lambda: ctx.pmLookupName(("sample.long.one", "no.such.name", "sample.bin")))
    attempt("in a dynamic subtree", lambda: list(ctx.pmLookupName("sample.secret.foo.bar.max.redirect")))
    for name in "", "sample", "sample.secret", "sample.secret.foo", "sample.long.one", "kvm", "mmv", "nosuch":
        attempt("children of " + repr(name), lambda n=name: ctx.pmGetChildren(n))
        attempt("children with status of " + repr(name), lambda n=name: ctx.pmGetChildrenStatus(n))
    found = []
    ctx.pmTraversePMNS("sample.secret", found.append)
    say("traverse", found)
    for d, c, i in (29, 0, 10), (29, 0, 6), (29, 0, 1000), (2, 4, 1), (29, 0, 999), (200, 0, 1), (95, 0, 1):
        pmid = ctx.pmID_build(d, c, i)
        attempt("name of %d.%d.%d" % (d, c, i), ctx.pmNameID, pmid)
        attempt("all names of %d.%d.%d" % (d, c, i), ctx.pmNameAll, pmid)


def metadata(ctx):
    def desc(pmid):
        d = ctx.pmLookupDesc(pmid).contents
        return (ctx.pmTypeStr(d.type), hex(d.indom), ctx.pmSemStr(d.sem), ctx.pmUnitsStr(d.units))

    for d, c, i in (29, 0, 10), (29, 0, 6), (60, 0, 32), (29, 0, 999), (200, 0, 1), (95, 0, 1):
        pmid = ctx.pmID_build(d, c, i)
        attempt("desc %d.%d.%d" % (d, c, i), desc, pmid)
        attempt("text %d.%d.%d" % (d, c, i), ctx.pmLookupText, pmid, c_api.PM_TEXT_ONELINE)
    for d, s in (29, 2), (60, 0), (29, 99), (200, 1):
        attempt("indom text %d.%d" % (d, s), ctx.pmLookupInDomText, indom(ctx, d, s))
        attempt("instances of %d.%d" % (d, s), ctx.pmGetInDom, indom(ctx, d, s))
    bins = ctx.pmLookupDesc(ctx.pmLookupName("sample.bin")[0])
    attempt("instance by name", ctx.pmLookupInDom, bins, "bin-300")
    attempt("instance by bad name", ctx.pmLookupInDom, bins, "bin-301")
    attempt("name by instance", ctx.pmNameInDom, bins, 300)
    attempt("name by bad instance", ctx.pmNameInDom, bins, 301)

    attempt("context labels", ctx.pmGetContextLabels)
    for domain in 29, 2, 60, 253, 200, 95:
        attempt("labels of domain %d" % domain, ctx.pmGetDomainLabels, domain)
    for d, s in (29, 2), (29, 99), (2, 3), (253, 1), (200, 1):
        attempt("labels of indom %d.%d" % (d, s), ctx.pmGetInDomLabels, ctx.pmInDom_build(d, s))
        attempt("labels of instances %d.%d" % (d, s), ctx.pmGetInstancesLabels, ctx.pmInDom_build(d, s))
    for d, c, i in (29, 0, 10), (29, 0, 6), (29, 0, 999), (2, 4, 1), (200, 0, 1), (95, 0, 1):
        pmid = ctx.pmID_build(d, c, i)
        attempt("labels of cluster %d.%d" % (d, c), ctx.pmGetClusterLabels, pmid)
        attempt("labels of item %d.%d.%d" % (d, c, i), ctx.pmGetItemLabels, pmid)
        attempt("labels of metric %d.%d.%d" % (d, c, i), ctx.pmLookupLabels, pmid)


def fetches(ctx):
    """Fetches over several agents, with duplicates, and with what fails."""
    d = [(29, 0, 10), (60, 0, 32), (29, 0, 999), (253, 0, 0), (200, 0, 1), (2, 0, 19),
         (29, 0, 10), (95, 0, 1), (60, 99, 1), (29, 0, 6), (29, 0, 138), (29, 0, 154), (29, 0, 6)]
    pmids = (c_uint * len(d))(*[ctx.pmID_build(*x) for x in d])
    for fetch, free in (ctx.pmFetch, ctx.pmFreeResult), (ctx.pmHighResFetch, ctx.pmFreeHighResResult):
        result = fetch(pmids)
        r = result.contents
        say("fetch", r.numpmid, [(ctx.pmIDStr(r.get_pmid(i)), r.get_numval(i)) for i in range(r.numpmid)])
        free(result)
    many = (c_uint * 3000)(*[ctx.pmID_build(29, 0, 10 + i % 4) for i in range(3000)])
    result = ctx.pmFetch(many)
    say("fetch of many", result.contents.numpmid, sum(result.contents.get_numval(i) for i in range(3000)))
    ctx.pmFreeResult(result)


def stores(ctx):
    """Store what was fetched: one metric that allows it and one that does not."""
    for name in "sample.long.write_me", "sample.long.one", "sample.bin":
        pmids = ctx.pmLookupName((name,))
        descs = ctx.pmLookupDescs(pmids)
        result = ctx.pmFetch(pmids)
        attempt("store " + name, lambda r=result: bool(ctx.pmStore(r)))
        ctx.pmFreeResult(result)
        say("after", instances(ctx, pmids, descs, 0))


def main(host):
    ctx = pmapi.pmContext(c_api.PM_CONTEXT_HOST, host)
    say("host name", ctx.pmGetContextHostName())
    profiles(ctx)
    names(ctx)
    metadata(ctx)
    fetches(ctx)
    stores(ctx)
    attempt("reconnect", lambda: ctx.pmReconnectContext() >= 0)
    profiles(ctx)
    # More contexts on the same connection than a client commonly has.
    more = [pmapi.pmContext(c_api.PM_CONTEXT_HOST, host) for _ in range(10)]
    for one in more:
        pmids = one.pmLookupName(("sample.long.ten",))
        say("one of many contexts", instances(one, pmids, one.pmLookupDescs(pmids), 0))


if __name__ == "__main__":
    main(sys.argv[1])
