/* May a job come in at all? */
#include <sys/statvfs.h>

#include "server/jobs_priv.h"

bool mg_jobs_disk_is_full(const mg_jobs *jobs)
{
    struct statvfs disk;
    return statvfs(jobs->data_dir, &disk) == 0 && (uint64_t)disk.f_bavail * disk.f_frsize < jobs->config.min_free_bytes;
}

static const char *refusal(mg_jobs *jobs, const char *owner, const char **detail)
{
    if (jobs->draining || !jobs->opened) {
        *detail = "the daemon is stopping";
        return "draining";
    }
    mg_jobs_watch_store(jobs);
    if (jobs->store_lost) {
        *detail = "store.db in the daemon's directory " MG_STORE_LOST;
        return "store-failed";
    }
    if (mg_jobs_not_started(jobs, NULL) >= jobs->config.max_queued) {
        *detail = "too many jobs are queued";
        return "queue-full";
    }
    if (*owner && mg_jobs_not_started(jobs, owner) >= jobs->config.max_queued_per_owner) {
        *detail = "too many jobs of this token are queued";
        return "queue-full";
    }
    if (mg_jobs_disk_is_full(jobs)) {
        *detail = "the disk of the data directory is nearly full";
        return "no-space";
    }
    return NULL;
}

bool mg_call_refused(struct mg_call *call, const char *owner)
{
    const char *detail = "", *problem = refusal(call->jobs, owner, &detail);
    if (!problem)
        return false;
    mg_reply_fail(&call->reply, problem, "", "%s", detail);
    call->reply.retry_after_s = 10;
    mg_call_defer(call);
    return true;
}
