/* Which steps count, on a machine whose speed is told step by step. */
#include <math.h>

#include "tests/bench/device/turns.h"

#include <criterion/criterion.h>

enum { SUBJECTS = 2 };

/* A canary takes speed(after so many steps); runs take 1 and 2 s, sums 1.1 and 2.1 s, all as much longer. */
struct machine {
    double (*speed)(uint32_t step);
    uint32_t step, cancel_at;
    double now;
};
static struct machine machine;

static double clock_of_machine(void)
{
    return machine.now;
}

static enum mg_code canary(void *context, double *seconds, struct mg_error *err)
{
    (void)context, (void)err;
    *seconds = machine.speed(machine.step);
    return MG_OK;
}

static enum mg_code work(double seconds, double *out, struct mg_error *err)
{
    *out = seconds * machine.speed(machine.step++);
    machine.now += *out;
    return machine.step == machine.cancel_at ? mg_fail(err, MG_ERR_CANCELLED, "", "late") : MG_OK;
}

static enum mg_code run(void *context, uint32_t subject, double *seconds, struct mg_error *err)
{
    (void)context;
    return work(subject + 1.0, seconds, err);
}

static enum mg_code sum(void *context, double *seconds, struct mg_error *err)
{
    (void)context;
    seconds[1] = 2.1 * machine.speed(machine.step);
    return work(1.1, &seconds[0], err);
}

static enum mg_code take(double (*speed)(uint32_t), uint32_t cancel_at, struct turns *out)
{
    struct turns_work todo = {.subjects = SUBJECTS, .canary = canary, .run = run, .sum = sum, .now = clock_of_machine};
    struct mg_error err = {0};
    machine = (struct machine){.speed = speed, .cancel_at = cancel_at};
    return turns_take(&todo, out, &err);
}

static void expect_medians(const struct turns *taken, double speed)
{
    for (int i = 0; i < SUBJECTS; i++) {
        cr_expect_float_eq(taken->measured[i], (i + 1) * speed, 1e-9);
        cr_expect_float_eq(taken->predicted[i], (i + 1.1) * speed, 1e-9);
    }
}

static double steady(uint32_t step)
{
    return step % 2 ? 1 : 1.02;
}

Test(turns, all_counts_on_a_steady_machine)
{
    struct turns taken;
    cr_assert_eq(take(steady, 0, &taken), MG_OK);
    cr_expect(taken.counts && taken.uncounted == 0);
    cr_expect(taken.steps >= TURNS_RUNS * SUBJECTS + TURNS_SUMS && taken.steps <= TURNS_RUNS * (SUBJECTS + 1),
              "%u steps", taken.steps);
}

/* Every fifth canary says that the machine is slow: what is beside it is done again and leaves no trace. */
static double hiccup(uint32_t step)
{
    return step % 5 == 0 ? 1.5 : 1;
}

Test(turns, what_is_beside_another_canary_is_done_again)
{
    struct turns taken;
    cr_assert_eq(take(hiccup, 0, &taken), MG_OK);
    cr_expect(taken.counts && taken.reference == 1);
    cr_expect(taken.uncounted > 5, "%u", taken.uncounted);
    expect_medians(&taken, 1);
}

/* Slower from some step on: what is more often is the machine. */
static double slower(uint32_t step)
{
    return step < 12 ? 1 : 1.5;
}

Test(turns, a_machine_that_stays_another_is_measured_as_that)
{
    struct turns taken;
    cr_assert_eq(take(slower, 0, &taken), MG_OK);
    cr_expect(taken.counts && taken.reference == 1.5);
    cr_expect(taken.uncounted >= 4, "%u", taken.uncounted);
    expect_medians(&taken, 1.5);
}

static double ever_slower(uint32_t step)
{
    return pow(1.04, step);
}

Test(turns, a_machine_that_is_never_the_same_does_not_count)
{
    struct turns taken;
    cr_assert_eq(take(ever_slower, 0, &taken), MG_OK);
    cr_expect(!taken.counts && taken.uncounted == taken.steps);
    cr_expect(taken.steps <= 3 * (SUBJECTS + 1) * TURNS_RUNS, "it is given up: %u", taken.steps);
}

Test(turns, one_of_each_is_enough_where_the_time_is_up)
{
    struct turns taken;
    cr_expect_eq(take(steady, 4, &taken), MG_ERR_CANCELLED);
    cr_assert_eq(take(steady, 9, &taken), MG_OK);
    cr_expect(taken.counts && taken.steps < 6, "%u steps", taken.steps);
}
