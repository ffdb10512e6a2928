/* Places of frees and loads by policy S8: a stored instance is freed at the first step that starts
 * when its store has ended; a load stands at the last place from which it ends before its first
 * reader starts. Times are those of a run in which computation never waits; the evaluator then says
 * what the list costs exactly. Source: plan/MODEL.md S4, S8. */
#include <string.h>

#include "search/searcher.h"

struct copy {
    uint32_t root;
    uint32_t earliest; /* position of the first word after the last touch before the gap */
    uint32_t reader;   /* position of the first word that reads the loaded instance */
    uint32_t free_at, load_at;
    bool frees, loads, now;
};

/* Positions are "before word j" of the list without frees and loads. */
struct placer {
    const struct mg_evaluator *e;
    const struct mg_scheme *l;
    mg_word *word;
    uint32_t count;
    double *time;    /* per position: when computation gets there */
    uint32_t *level; /* per position */
    double *stored;  /* per root: end of its store */
    struct copy *copy;
    uint32_t copies;
    uint32_t *touched; /* per root: position behind its last touch */
    uint32_t *pending; /* per root: its copy + 1 whose reader is not met yet */
};

static void touch_root(struct placer *s, uint32_t root)
{
    s->touched[root] = s->count + 1;
    if (s->pending[root]) {
        s->copy[s->pending[root] - 1].reader = s->count;
        s->pending[root] = 0;
    }
}

static void touch_word(struct placer *s, mg_word word)
{
    const struct mg_problem *p = s->e->p;
    uint32_t x = mg_word_index(word);
    switch (mg_word_kind(word)) {
    case MG_WORD_COMPUTE:
        for (uint32_t i = p->reads.start[x]; i < p->reads.start[x + 1]; i++)
            touch_root(s, p->reads.item[i]);
        for (uint32_t i = p->defs.start[x]; i < p->defs.start[x + 1]; i++)
            s->touched[p->defs.item[i]] = s->count + 1;
        break;
    case MG_WORD_BEGIN:
    case MG_WORD_END:
        for (uint32_t i = 0; i < s->l->regions[x].input_count; i++)
            touch_root(s, s->l->regions[x].inputs[i]);
        for (uint32_t i = 0; i < s->l->regions[x].output_count; i++)
            s->touched[s->l->regions[x].outputs[i]] = s->count + 1;
        break;
    default:
        touch_root(s, x);
        break;
    }
}

/* Splits the list into words without frees and loads, and the copies that they describe. */
static void strip(struct placer *s, const struct mg_list *list)
{
    uint32_t level = MG_NONE;
    for (uint32_t i = 0; i < list->count; i++) {
        mg_word word = list->word[i];
        enum mg_word_kind kind = mg_word_kind(word);
        uint32_t x = mg_word_index(word);
        if (kind == MG_WORD_FREE || kind == MG_WORD_LOAD) {
            bool joins = kind == MG_WORD_LOAD && s->pending[x] != 0;
            if (!joins)
                s->copy[s->copies++] = (struct copy){.root = x, .earliest = s->touched[x], .reader = MG_NONE};
            struct copy *copy = joins ? &s->copy[s->pending[x] - 1] : &s->copy[s->copies - 1];
            copy->frees |= kind == MG_WORD_FREE;
            copy->loads |= kind == MG_WORD_LOAD;
            copy->now |= (word & MG_WORD_NOW) != 0;
            s->pending[x] = (uint32_t)(copy - s->copy) + 1;
            continue;
        }
        if (kind == MG_WORD_BEGIN) {
            s->level[s->count] = level;
            level = x;
        } else if (kind == MG_WORD_END) {
            s->level[s->count] = x;
            level = s->l->regions[x].parent;
        } else {
            s->level[s->count] = level;
        }
        touch_word(s, word);
        s->word[s->count++] = word;
    }
    s->level[s->count] = MG_NONE;
}

static void compute_times(struct placer *s, uint32_t variant)
{
    const double *seconds = s->l->seconds[variant], *rest = s->l->rest[variant];
    double c = 0, d = 0, nested = 0, others = 0;
    for (uint32_t j = 0; j < s->count; j++) {
        uint32_t x = mg_word_index(s->word[j]);
        s->time[j] = c;
        switch (mg_word_kind(s->word[j])) {
        case MG_WORD_COMPUTE:
            c += seconds[x];
            nested += rest[x];
            others += s->l->others[x];
            break;
        case MG_WORD_STORE:
            d = (d > c ? d : c) + s->l->store_s[variant][x];
            s->stored[x] = d;
            break;
        case MG_WORD_BEGIN:
            nested = 0;
            if (s->l->regions[x].parent == MG_NONE)
                others = 0;
            break;
        default:
            c += s->l->regions[x].parent == MG_NONE ? others : nested;
            nested = 0;
            break;
        }
    }
    s->time[s->count] = c;
}

/* First position in [lo, hi] whose time is at least t; hi if none. */
static uint32_t first_not_before(const struct placer *s, uint32_t lo, uint32_t hi, double t)
{
    while (lo < hi) {
        uint32_t mid = lo + (hi - lo) / 2;
        if (s->time[mid] >= t)
            hi = mid;
        else
            lo = mid + 1;
    }
    return lo;
}

/* Smaller parts (variant 2) keep another time: what stands in a body suits both, the later free and
 * the earlier load. */
static bool concerns(const struct placer *s, const struct copy *copy, uint32_t variant)
{
    return variant == 0 || s->l->home[copy->root] != MG_NONE;
}

static void place_frees(struct placer *s, uint32_t variant)
{
    for (uint32_t i = 0; i < s->copies; i++) {
        struct copy *copy = &s->copy[i];
        if (!concerns(s, copy, variant))
            continue;
        uint32_t latest = copy->reader == MG_NONE ? s->count : copy->reader, home = s->l->home[copy->root];
        uint32_t at = first_not_before(s, copy->earliest, latest, s->stored[copy->root]);
        while (at < latest && s->level[at] != home)
            at++;
        copy->free_at = copy->now ? copy->earliest : at > copy->free_at ? at : copy->free_at;
    }
}

/* Readers from last to first: the one H stream works backwards from each deadline. */
static void place_loads(struct placer *s, const uint32_t *by_reader, uint32_t variant)
{
    double next = s->time[s->count];
    for (uint32_t n = s->copies; n-- > 0;) {
        struct copy *copy = &s->copy[by_reader[n]];
        if (!copy->loads || copy->reader == MG_NONE || !concerns(s, copy, variant))
            continue;
        uint32_t home = s->l->home[copy->root], low = copy->frees ? copy->free_at : copy->earliest;
        double end = s->time[copy->reader] < next ? s->time[copy->reader] : next;
        double start = end - s->l->load_s[variant][copy->root];
        uint32_t at = first_not_before(s, low, copy->reader, start);
        if (at > low && s->time[at] > start)
            at--;
        while (at > low && s->level[at] != home)
            at--;
        if (copy->now)
            copy->load_at = copy->reader;
        else if (variant == 0 || at < copy->load_at)
            copy->load_at = at;
        next = start;
    }
}

/* Copies by their reader, ascending: counting sort. */
static uint32_t *sort_by_reader(struct placer *s, struct mg_arena *scratch)
{
    uint32_t *fill = MG_NEW_ARRAY(scratch, uint32_t, s->count + 3);
    uint32_t *sorted = MG_NEW_ARRAY(scratch, uint32_t, s->copies);
    for (uint32_t i = 0; i < s->copies; i++)
        fill[(s->copy[i].reader == MG_NONE ? s->count : s->copy[i].reader) + 1]++;
    for (uint32_t j = 0; j < s->count + 1; j++)
        fill[j + 1] += fill[j];
    for (uint32_t i = 0; i < s->copies; i++)
        sorted[fill[s->copy[i].reader == MG_NONE ? s->count : s->copy[i].reader]++] = i;
    return sorted;
}

static mg_word flag_of(const struct copy *copy)
{
    return copy->now ? MG_WORD_NOW : 0;
}

static void merge(struct placer *s, const uint32_t *by_reader, struct mg_list *list, struct mg_arena *scratch)
{
    uint32_t *head = MG_NEW_ARRAY(scratch, uint32_t, 2 * (s->count + 1)); /* chains of copies + 1 */
    uint32_t *next = MG_NEW_ARRAY(scratch, uint32_t, 2 * s->copies);
    for (uint32_t n = s->copies; n-- > 0;) {
        uint32_t i = by_reader[n];
        if (s->copy[i].frees) {
            next[2 * i] = head[2 * s->copy[i].free_at];
            head[2 * s->copy[i].free_at] = i + 1;
        }
        if (s->copy[i].loads) {
            next[2 * i + 1] = head[2 * s->copy[i].load_at + 1];
            head[2 * s->copy[i].load_at + 1] = i + 1;
        }
    }
    list->count = 0;
    for (uint32_t j = 0; j <= s->count; j++) {
        for (uint32_t i = head[2 * j]; i; i = next[2 * (i - 1)])
            list->word[list->count++] = MG_WORD(MG_WORD_FREE, s->copy[i - 1].root) | flag_of(&s->copy[i - 1]);
        for (uint32_t i = head[2 * j + 1]; i; i = next[2 * (i - 1) + 1])
            list->word[list->count++] = MG_WORD(MG_WORD_LOAD, s->copy[i - 1].root) | flag_of(&s->copy[i - 1]);
        if (j < s->count)
            list->word[list->count++] = s->word[j];
    }
}

/* Loads that nobody reads, because the root is recomputed first: they go, with their frees and stores. */
static void drop_dead_loads(const struct mg_problem *p, struct mg_list *list, struct mg_arena *scratch)
{
    uint32_t *load = MG_NEW_ARRAY(scratch, uint32_t, p->value_count); /* step + 1 of a load not read yet */
    uint8_t *dead = MG_NEW_ARRAY(scratch, uint8_t, list->count);
    bool any = false;
    for (uint32_t i = 0; i < list->count; i++) {
        uint32_t x = mg_word_index(list->word[i]);
        switch (mg_word_kind(list->word[i])) {
        case MG_WORD_LOAD:
            load[x] = i + 1;
            dead[i] = 1;
            break;
        case MG_WORD_COMPUTE:
            for (uint32_t k = p->reads.start[x]; k < p->reads.start[x + 1]; k++)
                if (load[p->reads.item[k]])
                    dead[load[p->reads.item[k]] - 1] = 0;
            for (uint32_t k = p->defs.start[x]; k < p->defs.start[x + 1]; k++)
                load[p->defs.item[k]] = 0;
            break;
        default:
            break;
        }
    }
    for (uint32_t i = 0; i < list->count; i++)
        any |= dead[i];
    if (!any)
        return;
    struct mg_list clean = mg_list_new(scratch, list->count);
    mg_edit_undo(p, list, dead, scratch, &clean);
    mg_list_copy(list, &clean);
}

static bool has_small_parts(const struct mg_scheme *l)
{
    for (uint32_t r = 0; r < l->region_count; r++)
        if (l->regions[r].parent == MG_NONE && l->regions[r].repeat[2])
            return true;
    return false;
}

void mg_edit_place_copies(const struct mg_evaluator *e, const struct mg_scheme *l, struct mg_list *list,
                          struct mg_arena *scratch)
{
    struct mg_arena_mark mark = mg_arena_mark(scratch);
    uint32_t copies = 0;
    for (uint32_t i = 0; i < list->count; i++)
        copies += mg_word_kind(list->word[i]) == MG_WORD_FREE || mg_word_kind(list->word[i]) == MG_WORD_LOAD;
    if (copies == 0)
        return;
    drop_dead_loads(e->p, list, scratch);
    struct placer s = {.e = e, .l = l};
    s.word = MG_NEW_ARRAY(scratch, mg_word, list->count);
    s.time = MG_NEW_ARRAY(scratch, double, list->count + 1);
    s.level = MG_NEW_ARRAY(scratch, uint32_t, list->count + 1);
    s.stored = MG_NEW_ARRAY(scratch, double, e->p->value_count);
    s.copy = MG_NEW_ARRAY(scratch, struct copy, copies);
    s.touched = MG_NEW_ARRAY(scratch, uint32_t, e->p->value_count);
    s.pending = MG_NEW_ARRAY(scratch, uint32_t, e->p->value_count);
    strip(&s, list);
    uint32_t *by_reader = sort_by_reader(&s, scratch);
    bool uneven = has_small_parts(l);
    for (uint32_t variant = 0; variant < (uneven ? 3 : 1); variant += 2) {
        compute_times(&s, variant);
        place_frees(&s, variant);
    }
    for (uint32_t variant = 0; variant < (uneven ? 3 : 1); variant += 2) {
        compute_times(&s, variant);
        place_loads(&s, by_reader, variant);
    }
    merge(&s, by_reader, list, scratch);
    mg_arena_rewind(scratch, mark);
}
