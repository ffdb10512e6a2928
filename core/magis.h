/* libmagis as a program sees it: every public header, in reading order. `make install` installs these and what they
 * include; `pkg-config --cflags --libs magis` says how to compile and link. tests/e2e/library.c is a whole program.
 *
 * A graph is read or built, normalised, and searched; what comes back are plans that the independent checker accepted.
 * All memory is an arena's, which the caller releases; all failures are an enum mg_code and a struct mg_error. */
#ifndef MG_MAGIS_H
#define MG_MAGIS_H

/* how functions fail, where memory comes from, JSON, which name was perhaps meant */
#include "base/arena.h"
#include "base/digest.h"
#include "base/error.h"
#include "base/json.h"
#include "base/suggest.h"
#include "base/utf8.h"

/* networks: built, read, or taken from the zoo; their training steps */
#include "formats/formats.h"
#include "formats/onnx.h"
#include "graph/graph.h"
#include "zoo/zoo.h"

/* what an operator costs, by model and by measurement */
#include "device/device.h"
#include "device/floor.h"
#include "device/pricer.h"
#include "device/signature.h"
#include "device/timings.h"

/* plans: simulated, placed, checked, found, written for others to run */
#include "export/export.h"
#include "plan/plan.h"
#include "search/forecast.h"
#include "search/limits.h"
#include "search/search.h"

/* graphs and plans on numbers, and on devices */
#include "exec/exec.h"
#include "measure/calibrate.h"
#include "measure/measure.h"
#include "measure/program.h"

#endif
