/* Opens NVIDIA's libraries. */
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

#include "measure/cuda_priv.h"

struct symbol {
    const char *name;
    size_t offset;
};

static const struct symbol driver[] = {
#define MG_DRIVER(name, symbol, parameters) {symbol, offsetof(struct cuda_driver, name)},
#define MG_NVRTC(name, symbol, parameters)
#define MG_BLAS(name, symbol, parameters)
#define MG_DNN(name, symbol, parameters)
#include "measure/cuda_calls.def"
#undef MG_DRIVER
#undef MG_NVRTC
#undef MG_BLAS
#undef MG_DNN
};
static const struct symbol nvrtc[] = {
#define MG_DRIVER(name, symbol, parameters)
#define MG_NVRTC(name, symbol, parameters) {symbol, offsetof(struct cuda_nvrtc, name)},
#define MG_BLAS(name, symbol, parameters)
#define MG_DNN(name, symbol, parameters)
#include "measure/cuda_calls.def"
#undef MG_DRIVER
#undef MG_NVRTC
#undef MG_BLAS
#undef MG_DNN
};
static const struct symbol blas[] = {
#define MG_DRIVER(name, symbol, parameters)
#define MG_NVRTC(name, symbol, parameters)
#define MG_BLAS(name, symbol, parameters) {symbol, offsetof(struct cuda_blas, name)},
#define MG_DNN(name, symbol, parameters)
#include "measure/cuda_calls.def"
#undef MG_DRIVER
#undef MG_NVRTC
#undef MG_BLAS
#undef MG_DNN
};
static const struct symbol dnn[] = {
#define MG_DRIVER(name, symbol, parameters)
#define MG_NVRTC(name, symbol, parameters)
#define MG_BLAS(name, symbol, parameters)
#define MG_DNN(name, symbol, parameters) {symbol, offsetof(struct cuda_dnn, name)},
#include "measure/cuda_calls.def"
#undef MG_DRIVER
#undef MG_NVRTC
#undef MG_BLAS
#undef MG_DNN
};
static const struct symbol nvml[] = {
#define MG_NVML(name, symbol, parameters) {symbol, offsetof(struct nvml, name)},
#include "measure/nvml_calls.def"
#undef MG_NVML
};
#define COUNT(array) (sizeof(array) / sizeof *(array))

/* The newest first; a name without number is there where the toolkit is. */
static const char *const driver_names[] = {"libcuda.so.1", NULL};
static const char *const nvrtc_names[] = {"libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so.11.2", "libnvrtc.so", NULL};
static const char *const blas_names[] = {"libcublasLt.so.13", "libcublasLt.so.12", "libcublasLt.so.11",
                                         "libcublasLt.so", NULL};

static const char *const dnn_names[] = {"libcudnn.so.9", "libcudnn.so.8", "libcudnn.so", NULL};

static const char *const nvml_names[] = {"libnvidia-ml.so.1", NULL};

static enum mg_code load(const char *const *names, const struct symbol *symbols, size_t count, void *calls,
                         void **library, struct mg_error *err)
{
    *library = NULL;
    for (size_t i = 0; names[i] && !*library; i++)
        *library = dlopen(names[i], RTLD_NOW | RTLD_LOCAL);
    if (!*library)
        return mg_fail(err, MG_ERR_UNSUPPORTED, "/device",
                       "%s cannot be opened: is there an NVIDIA driver and toolkit?", names[0]);
    for (size_t i = 0; i < count; i++) {
        bool optional = symbols[i].name[0] == '?';
        void *address = dlsym(*library, symbols[i].name + optional);
        if (!address && !optional)
            return mg_fail(err, MG_ERR_UNSUPPORTED, "/device", "%s has no %s: it is too old", names[0],
                           symbols[i].name);
        memcpy((char *)calls + symbols[i].offset, &address, sizeof address);
    }
    return MG_OK;
}

static void write_version(void *library, const char *symbol, const char *name, char *to, size_t room)
{
    size_t (*version)(void) = NULL;
    void *address = dlsym(library, symbol);
    memcpy(&version, &address, sizeof version);
    if (version)
        snprintf(to, room, "%s %zu", name, version());
}

/* They stay open: contexts and caches of theirs outlive an engine. Without cuDNN convolutions are not measured, without
 * the management library others are seen by the memory that they take. */
enum mg_code mg_cuda_load(struct cuda_calls *calls, struct mg_error *err)
{
    void *library;
    struct mg_error absent;
    enum mg_code code = load(driver_names, driver, COUNT(driver), &calls->driver, &library, err);
    if (code == MG_OK)
        code = load(nvrtc_names, nvrtc, COUNT(nvrtc), &calls->nvrtc, &library, err);
    if (code == MG_OK)
        code = load(blas_names, blas, COUNT(blas), &calls->blas, &library, err);
    if (code != MG_OK)
        return code;
    write_version(library, "cublasLtGetVersion", "cuBLASLt", calls->blas_version, sizeof calls->blas_version);
    if (load(dnn_names, dnn, COUNT(dnn), &calls->dnn, &library, &absent) == MG_OK)
        write_version(library, "cudnnGetVersion", "cuDNN", calls->dnn_version, sizeof calls->dnn_version);
    else
        memset(&calls->dnn, 0, sizeof calls->dnn);
    if (load(nvml_names, nvml, COUNT(nvml), &calls->nvml, &library, &absent) != MG_OK)
        memset(&calls->nvml, 0, sizeof calls->nvml);
    return MG_OK;
}
