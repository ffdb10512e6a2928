/* Kernels for devices without a device: their text is compiled for this processor and run, with every operator sample
 * in several layouts, against the reference executor (emulate.hpp); and NVRTC compiles it where it is. */
#include <dlfcn.h>
#include <stdio.h>
#include <unistd.h>

#include "backend_util.h"
#include "measure/cuda_priv.h"
#include "temp_util.h"

enum { MOST_SOURCES = 4000, MOST_ARGUMENTS = 24 };
static char *sources[MOST_SOURCES];
static size_t source_count;
static void *library;
static void (*emulate)(void *run, unsigned grid, const uint64_t *arguments);
static char here;

/* ---- a driver of which only memory, modules and launches are real ---- */

typedef int any_fn(void);
static int works(void)
{
    return 0;
}
static int one_device(int *count)
{
    *count = 1;
    return 0;
}
static int make_handle(void **handle)
{
    *handle = &here;
    return 0;
}
static int make_stream(void **handle, unsigned flags)
{
    (void)flags;
    return make_handle(handle);
}
static int retain(void **handle, int device)
{
    (void)device;
    return make_handle(handle);
}
static int name_device(char *name, int size, int device)
{
    snprintf(name, (size_t)size, "emulated %d", device);
    return 0;
}
static int attribute(int *value, int id, int device)
{
    (void)id;
    *value = 9 + device;
    return 0;
}
static int total_memory(size_t *bytes, int device)
{
    *bytes = (size_t)(1 << 30) + (size_t)device;
    return 0;
}
static int allocate(uint64_t *address, size_t bytes)
{
    *address = (uint64_t)(uintptr_t)malloc(bytes);
    return 0;
}
static int release(uint64_t address)
{
    free((void *)(uintptr_t)address);
    return 0;
}
static int host_allocate(void **memory, size_t bytes)
{
    *memory = malloc(bytes);
    return 0;
}
static int host_release(void *memory)
{
    free(memory);
    return 0;
}
static int copy_in(uint64_t to, const void *from, size_t bytes, void *stream)
{
    (void)stream;
    memcpy((void *)(uintptr_t)to, from, bytes);
    return 0;
}
static int copy_out(void *to, uint64_t from, size_t bytes, void *stream)
{
    (void)stream;
    memcpy(to, (void *)(uintptr_t)from, bytes);
    return 0;
}
static int elapsed(float *milliseconds, void *begin, void *end)
{
    (void)begin;
    (void)end;
    *milliseconds = 1;
    return 0;
}
/* A module is the number of its source, as text. */
static int load_module(void **module, const void *image)
{
    *module = &sources[strtoul(image, NULL, 10)];
    return 0;
}
static int find_function(void **function, void *module, const char *name)
{
    char symbol[64];
    *function = &here;
    if (!library)
        return 0;
    snprintf(symbol, sizeof symbol, "s%zu_%s", (size_t)((char **)module - sources), name);
    *function = dlsym(library, symbol);
    return *function == NULL;
}
static int launch(void *function, unsigned x, unsigned y, unsigned z, unsigned bx, unsigned by, unsigned bz,
                  unsigned shared, void *stream, void **parameters, void **extra)
{
    uint64_t arguments[MOST_ARGUMENTS] = {0};
    for (int i = 0; parameters[i] && i < MOST_ARGUMENTS; i++)
        arguments[i] = *(uint64_t *)parameters[i];
    emulate(function, x, arguments);
    return y != 1 || z != 1 || bx > 1024 || by != 1 || bz != 1 || shared || !stream || extra;
}
static int no_text(int status, const char **text)
{
    *text = status ? "an error" : "";
    return 0;
}
static int version(int *major, int *minor)
{
    *major = *minor = 1;
    return 0;
}
static int take_source(void **program, const char *source, const char *name, int headers, const char *const *texts,
                       const char *const *names)
{
    size_t i = 0;
    while (i < source_count && strcmp(sources[i], source) != 0)
        i++;
    if (i == MOST_SOURCES || !name || headers || texts || names)
        return 1;
    if (i == source_count)
        sources[source_count++] = strdup(source);
    *program = &sources[i];
    return 0;
}
static int compile(void *program, int count, const char *const *options)
{
    return !program || !count || !options;
}
static int image_size(void *program, size_t *size)
{
    *size = 24;
    return program == NULL;
}
static int image(void *program, char *text)
{
    snprintf(text, 24, "%zu", (size_t)((char **)program - sources));
    return 0;
}
static int no_product(void *handle, void *desc, void *a, void *b, void *c, void *d, void *preference, int wanted,
                      struct cublaslt_choice *choices, int *found)
{
    *found = 0;
    return !handle || !desc || !a || !b || !c || !d || !preference || !wanted || !choices;
}
static int make_desc(void **desc, int compute, int scale)
{
    return make_handle(desc) + 0 * compute * scale;
}
static int make_layout(void **layout, int type, uint64_t rows, uint64_t cols, int64_t ld)
{
    (void)type;
    return make_handle(layout) + (rows == 0 || cols == 0 || ld == 0);
}

static struct cuda_calls emulator(void)
{
    struct cuda_calls calls;
    any_fn **all = (any_fn **)(void *)&calls; /* what is not set here does nothing and succeeds */
    memset(&calls, 0, sizeof calls);
    for (size_t i = 0; i < offsetof(struct cuda_calls, dnn) / sizeof *all; i++)
        all[i] = works;
    calls.driver.device_count = one_device;
    calls.driver.context_retain = retain;
    calls.driver.device_name = name_device;
    calls.driver.device_attribute = attribute;
    calls.driver.device_memory = total_memory;
    calls.driver.stream_create = make_stream;
    calls.driver.event_create = make_stream;
    calls.driver.event_elapsed = elapsed;
    calls.driver.memory_alloc = allocate;
    calls.driver.memory_free = release;
    calls.driver.host_alloc = host_allocate;
    calls.driver.host_free = host_release;
    calls.driver.copy_to_device = copy_in;
    calls.driver.copy_to_host = copy_out;
    calls.driver.module_load = load_module;
    calls.driver.module_function = find_function;
    calls.driver.launch = launch;
    calls.driver.error_text = no_text;
    calls.nvrtc.version = version;
    calls.nvrtc.create = take_source;
    calls.nvrtc.compile = compile;
    calls.nvrtc.image_size = image_size;
    calls.nvrtc.image = image;
    calls.blas.create = make_handle;
    calls.blas.desc_create = make_desc;
    calls.blas.layout_create = make_layout;
    calls.blas.preference_create = make_handle;
    calls.blas.heuristic = no_product;
    return calls;
}

static struct mg_engine emulated = {.backend = &mg_backend_cuda};

static void open_emulator(void)
{
    struct cuda_calls calls = emulator();
    struct mg_error err;
    cr_assert_eq(mg_cuda_open(&emulated, &calls, 0, &err), MG_OK, "%s", err.message);
    engine = &emulated;
    each_layout = 1;
}

static void close_emulator(void)
{
    mg_backend_cuda.close(&emulated);
}

/* ---- all kernels as one library ---- */

static bool is_recurrent(const char *sample)
{
    static const char *const kinds[] = {"rnn ", "gru ", "lstm "};
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        if (strncmp(sample, kinds[i], strlen(kinds[i])) == 0)
            return true;
    return false;
}

static void every_sample(void)
{
    static const enum mg_dtype dtypes[] = {MG_DTYPE_BF16, MG_DTYPE_F16, MG_DTYPE_F32};
    struct mg_rng rng;
    mg_rng_init(&rng, 1);
    int all = layouts;
    for (size_t d = 0; d < sizeof dtypes / sizeof *dtypes; d++) {
        sample_dtype = dtypes[d];
        bool narrow = dtypes[d] != MG_DTYPE_F32;
        layouts = narrow ? 1 : all;
        lacking[0] = '\0';                   /* what is told is told of f32 */
        for (int i = 0; i < OP_SAMPLES; i++) /* some of the narrow ones, and all whose errors add up */
            if (!narrow || i % 16 == (int)d || is_recurrent(op_samples[i]))
                try_sample(op_samples[i], &rng);
    }
    layouts = all;
}

/* Names that a source defines are its own. */
static void undefine(FILE *file, const char *source)
{
    for (const char *at = source; (at = strstr(at, "#define ")); at++) {
        at += 8;
        fprintf(file, "#undef %.*s\n", (int)strcspn(at, " (\n"), at);
    }
}

static void write_sources(FILE *file)
{
    for (size_t i = 0; i < source_count; i++) {
        for (int k = 0; k < 64; k++)
            fprintf(file, "#define k%d s%zu_k%d\n", k, i, k);
        fprintf(file, "namespace s%zu {\n%s}\n", i, sources[i]);
        undefine(file, sources[i]);
        for (int k = 0; k < 64; k++)
            fprintf(file, "#undef k%d\n", k);
    }
}

static void build_library(const char *folder)
{
    char source[300], object[300], command[800];
    snprintf(source, sizeof source, "%s/kernels.cpp", folder);
    snprintf(object, sizeof object, "%s/kernels.so", folder);
    snprintf(command, sizeof command, "%s -O0 -w -ffp-contract=off -shared -fPIC -pthread -o %s %s",
             getenv("CXX") ? getenv("CXX") : "g++", object, source);
    FILE *file = fopen(source, "w");
    cr_assert(file, "%s", source);
    fprintf(file, "#include \"%s/tests/unit/emulate.hpp\"\n", getcwd((char[1000]){0}, 1000));
    write_sources(file);
    cr_assert_eq(fclose(file), 0);
    cr_assert_eq(system(command), 0, "%s", command);
    library = dlopen(object, RTLD_NOW | RTLD_LOCAL);
    cr_assert(library, "%s", dlerror());
    void *address = dlsym(library, "emulate");
    memcpy(&emulate, &address, sizeof emulate);
    unlink(source);
    unlink(object);
}

/* Is a compiler there? Says so loudly where it is not. */
static bool has_compiler(void)
{
    char command[300];
    snprintf(command, sizeof command, "command -v %s >/dev/null", getenv("CXX") ? getenv("CXX") : "g++");
    if (system(command) == 0)
        return true;
    fprintf(stderr, "SKIPPED: there is no C++ compiler: kernels are not run\n");
    return false;
}

/* What the text of kernels must cover. */
static const char *const covered[] = {
    " add ",
    " softmax ",
    " softmax_grad ",
    " layer_norm ",
    " layer_norm_grad ",
    " rms_norm_grad ",
    " batch_norm ",
    " batch_norm_grad ",
    " bn_apply ",
    " group_norm ",
    " group_norm_grad ",
    " stat_update ",
    " max_pool ",
    " max_pool_grad ",
    " avg_pool ",
    " avg_pool_grad ",
    " global_avg_pool ",
    " resize_grad ",
    " reduce_sum ",
    " reduce_max ",
    " gather ",
    " scatter_add ",
    " cross_entropy ",
    " cross_entropy_grad ",
    " dropout ",
    " random_normal ",
    " cumsum ",
    " arg_max ",
    " top_k ",
    " trilu ",
    " one_hot ",
    " pad ",
    " concat ",
    " bitwise_xor ",
    " roll ",
    " im2col ",
    " col2im ",
    " det ",
    " quantize_linear ",
    " dequantize_linear ",
    " dynamic_quantize_linear ",
    " lrn ",
    " lrn_grad ",
    " mean_variance_norm ",
    " lp_pool_grad ",
    " max_pool_indices ",
    " grid_sample ",
    " roi_align ",
    " scatter_elements ",
    " gather_nd ",
    " scatter_nd ",
    " reverse_sequence ",
    " multinomial ",
    " assign ",
};
/* These run, by kernels that stand in for libraries, and so are not timed. */
static const char *const stand_ins[] = {
    " einsum ",         " attention ",      " attention_grad ", " lstm ",         " gru ",  " rnn ",
    " matmul_integer ", " qlinear_matmul ", " conv_integer ",   " qlinear_conv ", " conv ", " matmul ",
};

Test(cuda_kernels, agree_with_the_reference, .init = open_emulator, .fini = close_emulator)
{
    char folder[200];
    if (!has_compiler())
        return;
    temp_name(folder, sizeof folder, "kernels");
    cr_assert(mkdtemp(folder), "%s", folder);
    collecting = true;
    every_sample();
    build_library(folder);
    rmdir(folder);
    collecting = false;
    lacking[0] = '\0';
    every_sample();
    for (size_t i = 0; i < sizeof covered / sizeof *covered; i++)
        cr_expect_null(strstr(lacking, covered[i]), "%s has no kernel", covered[i]);
    for (size_t i = 0; i < sizeof stand_ins / sizeof *stand_ins; i++) {
        cr_expect(strstr(lacking, stand_ins[i]), "the stand-in for%s was timed", stand_ins[i]);
        cr_expect_null(strstr(refused, stand_ins[i]), "there is no stand-in for%s", stand_ins[i]);
    }
    fprintf(stderr, "%zu sources; without kernel, or not timed:%s\n", source_count, lacking);
    for (size_t i = 0; i < source_count; i++)
        free(sources[i]);
}

/* ---- the compiler of the device, which needs no device ---- */

static void *open_nvrtc(void)
{
    static const char *const folders[] = {"", "/usr/local/cuda/lib64/"};
    static const char *const names[] = {"libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so"};
    char path[600];
    for (int f = -1; f < 2; f++)
        for (size_t n = 0; n < sizeof names / sizeof *names; n++) {
            if (f < 0 && !getenv("CUDA_HOME"))
                continue;
            snprintf(path, sizeof path, "%s%s%s", f < 0 ? getenv("CUDA_HOME") : folders[f], f < 0 ? "/lib64/" : "",
                     names[n]);
            void *found = dlopen(path, RTLD_NOW | RTLD_LOCAL);
            if (found)
                return found;
        }
    return NULL;
}

static struct cuda_nvrtc nvrtc_of(void *opened)
{
    struct cuda_nvrtc nvrtc;
    void *address;
#define MG_DRIVER(name, symbol, parameters)
#define MG_NVRTC(name, symbol, parameters)                                                                             \
    address = dlsym(opened, symbol);                                                                                   \
    cr_assert(address, "%s", symbol);                                                                                  \
    memcpy(&nvrtc.name, &address, sizeof address);
#define MG_BLAS(name, symbol, parameters)
#define MG_DNN(name, symbol, parameters)
#include "measure/cuda_calls.def"
#undef MG_DRIVER
#undef MG_NVRTC
#undef MG_BLAS
#undef MG_DNN
    return nvrtc;
}

Test(cuda_kernels, compile_for_the_device, .init = open_emulator, .fini = close_emulator)
{
    const char *const options[] = {"--gpu-architecture=compute_90", "--std=c++14", "--fmad=true", "-w"};
    void *opened = open_nvrtc(), *program;
    char *text = NULL, *log = NULL;
    size_t size;
    if (!opened) {
        fprintf(stderr, "SKIPPED: there is no NVRTC (CUDA_HOME): kernels are not compiled for a device\n");
        return;
    }
    struct cuda_nvrtc nvrtc = nvrtc_of(opened);
    collecting = true;
    layouts = 1;
    every_sample();
    FILE *file = open_memstream(&text, &size);
    write_sources(file);
    cr_assert_eq(fclose(file), 0);
    cr_assert_eq(nvrtc.create(&program, text, "kernels.cu", 0, NULL, NULL), 0);
    int status = nvrtc.compile(program, 4, options);
    if (nvrtc.log_size(program, &size) == 0 && (log = calloc(1, size + 1)))
        nvrtc.log(program, log);
    cr_expect_eq(status, 0, "%.3000s", log);
    cr_expect(nvrtc.image_size(program, &size) == 0 && size > 100000, "%zu bytes", size);
    fprintf(stderr, "%zu sources compiled by NVRTC\n", source_count);
    nvrtc.destroy(&program);
    free(text);
    free(log);
}
