/* The queue in front of a thread of the store. */
#include <string.h>
#include <time.h>

#include "store/store_priv.h"

void mg_queue_init(struct mg_queue *queue)
{
    pthread_condattr_t attributes;
    memset(queue, 0, sizeof *queue);
    pthread_mutex_init(&queue->lock, NULL);
    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    pthread_cond_init(&queue->more, &attributes);
    pthread_condattr_destroy(&attributes);
    queue->last = &queue->first;
}

void mg_queue_release(struct mg_queue *queue)
{
    pthread_mutex_destroy(&queue->lock);
    pthread_cond_destroy(&queue->more);
}

static void append(struct mg_queue *queue, struct mg_op *op)
{
    op->next = NULL;
    *queue->last = op;
    queue->last = &op->next;
    queue->promises += mg_op_is_promise(op);
    pthread_cond_signal(&queue->more);
}

bool mg_queue_push(struct mg_queue *queue, struct mg_op *op)
{
    pthread_mutex_lock(&queue->lock);
    bool open = !queue->closing;
    if (open) {
        append(queue, op);
    }
    pthread_mutex_unlock(&queue->lock);
    return open;
}

void mg_queue_push_again(struct mg_queue *queue, struct mg_op *op)
{
    pthread_mutex_lock(&queue->lock);
    append(queue, op);
    pthread_mutex_unlock(&queue->lock);
}

static struct timespec after_ms(long ms)
{
    struct timespec at;
    clock_gettime(CLOCK_MONOTONIC, &at);
    at.tv_sec += ms / 1000;
    at.tv_nsec += ms % 1000 * 1000000;
    if (at.tv_nsec >= 1000000000) {
        at.tv_sec++;
        at.tv_nsec -= 1000000000;
    }
    return at;
}

static void await(struct mg_queue *queue, long wait_ms)
{
    struct timespec until = after_ms(wait_ms > 0 ? wait_ms : 0);
    int status = wait_ms == 0;
    while (status == 0 && !queue->first && !queue->closing) {
        status = wait_ms < 0 ? pthread_cond_wait(&queue->more, &queue->lock)
                             : pthread_cond_timedwait(&queue->more, &queue->lock, &until);
    }
}

struct mg_op *mg_queue_pop(struct mg_queue *queue, long wait_ms, bool promises)
{
    pthread_mutex_lock(&queue->lock);
    await(queue, wait_ms);
    struct mg_op *op = queue->first;
    bool promise = op && mg_op_is_promise(op);
    if (promise && !promises) {
        op = NULL;
    }
    if (op) {
        queue->first = op->next;
        queue->last = queue->first ? queue->last : &queue->first;
        queue->promises -= promise;
        op->next = NULL;
    }
    pthread_mutex_unlock(&queue->lock);
    return op;
}

bool mg_queue_has_promise(struct mg_queue *queue)
{
    pthread_mutex_lock(&queue->lock);
    bool has = queue->promises > 0;
    pthread_mutex_unlock(&queue->lock);
    return has;
}

bool mg_queue_is_done(struct mg_queue *queue)
{
    pthread_mutex_lock(&queue->lock);
    bool done = queue->closing && !queue->first;
    pthread_mutex_unlock(&queue->lock);
    return done;
}

void mg_queue_close(struct mg_queue *queue)
{
    pthread_mutex_lock(&queue->lock);
    queue->closing = true;
    pthread_cond_broadcast(&queue->more);
    pthread_mutex_unlock(&queue->lock);
}
