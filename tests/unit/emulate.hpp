/* What a C++ compiler for processors needs to read kernels for devices: blocks of four threads, which are real ones, so
 * that barriers and what a block shares mean what they say. In front of the kernels; emulate() runs one of them. */
#include <cmath>
#include <cstring>
#include <pthread.h>

struct dim { unsigned x; };
static thread_local dim threadIdx, blockIdx;
static dim blockDim, gridDim;
static pthread_barrier_t barrier;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
#define __device__ static
#define __global__
#define __shared__ static
#define __syncthreads() pthread_barrier_wait(&barrier)

static float __int_as_float(int bits)
{
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}
static unsigned __float_as_uint(float x)
{
    unsigned bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}
static float atomicAdd(float *to, float x)
{
    pthread_mutex_lock(&lock);
    float old = *to;
    *to = old + x;
    pthread_mutex_unlock(&lock);
    return old;
}

typedef unsigned long long word;
typedef void kernel(word, word, word, word, word, word, word, word, word, word, word, word, word, word, word, word, word,
                    word, word, word, word, word, word, word);
struct launch {
    kernel *run;
    unsigned grid, thread;
    const word *a;
};

static void *work(void *context)
{
    const launch *l = (const launch *)context;
    const word *a = l->a;
    threadIdx.x = l->thread;
    for (blockIdx.x = 0; blockIdx.x < l->grid; blockIdx.x++) {
        l->run(a[0], a[1], a[2], a[3], a[4], a[5], a[6], a[7], a[8], a[9], a[10], a[11], a[12], a[13], a[14], a[15], a[16],
               a[17], a[18], a[19], a[20], a[21], a[22], a[23]);
        pthread_barrier_wait(&barrier);
    }
    return NULL;
}

/* `arguments`: 24 numbers, of which the kernel takes the first ones. */
extern "C" void emulate(void *run, unsigned grid, const word *arguments)
{
    enum { THREADS = 4 };
    pthread_t thread[THREADS];
    launch launches[THREADS];
    blockDim.x = THREADS;
    gridDim.x = grid;
    pthread_barrier_init(&barrier, NULL, THREADS);
    for (unsigned i = 0; i < THREADS; i++) {
        launches[i] = launch{(kernel *)run, grid, i, arguments};
        pthread_create(&thread[i], NULL, work, &launches[i]);
    }
    for (unsigned i = 0; i < THREADS; i++)
        pthread_join(thread[i], NULL);
    pthread_barrier_destroy(&barrier);
}
