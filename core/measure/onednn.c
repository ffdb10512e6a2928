/* Opens oneDNN. */
#include <dlfcn.h>
#include <string.h>

#include "measure/cpu_priv.h"

static const char *const names[] = {
#define MG_CALL(name) "dnnl_" #name,
#include "measure/onednn_calls.def"
#undef MG_CALL
};
static const size_t offsets[] = {
#define MG_CALL(name) offsetof(struct onednn, name),
#include "measure/onednn_calls.def"
#undef MG_CALL
};

/* It stays open: its threads and caches do not survive closing. */
enum mg_code mg_onednn_load(struct onednn *calls, struct mg_error *err)
{
    void *library = dlopen("libdnnl.so.2", RTLD_NOW | RTLD_LOCAL);
    if (!library)
        return mg_fail(err, MG_ERR_UNSUPPORTED, "/device", "oneDNN cannot be opened: %.300s", dlerror());
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        void *address = dlsym(library, names[i]);
        if (!address)
            return mg_fail(err, MG_ERR_UNSUPPORTED, "/device", "this oneDNN has no %s", names[i]);
        memcpy((char *)calls + offsets[i], &address, sizeof address);
    }
    void *set_threads = dlsym(library, "omp_set_num_threads");
    memcpy(&calls->set_threads, &set_threads, sizeof set_threads);
    return MG_OK;
}
