/* Questions that name a class of devices: the child that reads one says so, the store is asked for the device's name,
 * and the question is asked again with it. Meanwhile it counts as waiting. */
#include <stdio.h>
#include <unistd.h>

#include "server/intake_priv.h"
#include "server/spawn.h"

static void refuse_class(mg_intake *intake, struct mg_ask *ask)
{
    struct mg_reply reply;
    mg_reply_init(&reply);
    mg_reply_fail(&reply, "invalid-request", "/device",
                  "no device class %s is known; GET /devices lists the classes that were measured",
                  ask->question.class_id);
    mg_intake_conclude(intake, ask, &reply);
}

void mg_intake_look_up(mg_intake *intake, struct mg_ask *ask, const char *class_id)
{
    snprintf(ask->question.class_id, sizeof ask->question.class_id, "%s", class_id);
    bool asked_before = ask->question.class_model[0];
    if (!intake->config.find_class || intake->closing || asked_before) {
        refuse_class(intake, ask);
        return;
    }
    mg_intake_append(&intake->looked_up, ask);
    intake->queued++;
    intake->config.find_class(intake->config.class_context, class_id, ask->question.id);
}

void mg_intake_class_found(mg_intake *intake, mg_ticket ticket, const char *model, const char *problem)
{
    struct mg_ask *ask = mg_intake_take(&intake->looked_up, ticket);
    if (!ask)
        return;
    intake->queued--;
    if (problem) {
        mg_intake_conclude_problem(intake, ask, problem, "the store cannot tell whether there is such a device class");
        return;
    }
    if (!model) {
        refuse_class(intake, ask);
        return;
    }
    close(ask->out);
    ask->out = mg_memfd("answer");
    if (ask->out < 0) {
        mg_intake_conclude_problem(intake, ask, "internal", "the question cannot be passed to intake");
        return;
    }
    snprintf(ask->question.class_model, sizeof ask->question.class_model, "%s", model);
    mg_intake_line_up(intake, ask);
    mg_intake_dispatch(intake);
}
