/* What the core must not call; the build includes this before every file of core/ (-include).
 *
 * Results are the same on every machine: no libm but sqrt, fabs, floor and ceil (others differ in
 * their last bit from one library to the next), no clock, no environment, no random source but
 * mg_rng. The core does no input or output of its own. Functions that write without a bound are
 * refused everywhere. The reference executor (core/exec) and the measuring back ends (core/measure) may use
 * libm, the latter also a clock and files. */
#ifndef MG_BANNED_H
#define MG_BANNED_H

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define strcpy(...) banned_function_strcpy
#define strcat(...) banned_function_strcat
#define strncpy(...) banned_function_strncpy
#define strncat(...) banned_function_strncat
#define sprintf(...) banned_function_sprintf
#define vsprintf(...) banned_function_vsprintf
#define gets(...) banned_function_gets
#define strtok(...) banned_function_strtok
#define atoi(...) banned_function_atoi
#define atol(...) banned_function_atol
#define atof(...) banned_function_atof
#define scanf(...) banned_function_scanf
#define sscanf(...) banned_function_sscanf
#define fscanf(...) banned_function_fscanf

#define rand(...) banned_function_rand
#define srand(...) banned_function_srand
#define random(...) banned_function_random
#define drand48(...) banned_function_drand48
#define time(...) banned_function_time
#define clock(...) banned_function_clock
#ifndef MG_DEVICES_ALLOWED
#define clock_gettime(...) banned_function_clock_gettime
#define fopen(...) banned_function_fopen
#endif
#define getenv(...) banned_function_getenv
#define setlocale(...) banned_function_setlocale
#define printf(...) banned_function_printf
#define puts(...) banned_function_puts
#define system(...) banned_function_system
#define popen(...) banned_function_popen

#ifndef MG_LIBM_ALLOWED
#define exp(...) banned_function_exp
#define exp2(...) banned_function_exp2
#define expm1(...) banned_function_expm1
#define log(...) banned_function_log
#define log2(...) banned_function_log2
#define log10(...) banned_function_log10
#define log1p(...) banned_function_log1p
#define pow(...) banned_function_pow
#define cbrt(...) banned_function_cbrt
#define hypot(...) banned_function_hypot
#define sin(...) banned_function_sin
#define cos(...) banned_function_cos
#define tan(...) banned_function_tan
#define asin(...) banned_function_asin
#define acos(...) banned_function_acos
#define atan(...) banned_function_atan
#define atan2(...) banned_function_atan2
#define sinh(...) banned_function_sinh
#define cosh(...) banned_function_cosh
#define tanh(...) banned_function_tanh
#define erf(...) banned_function_erf
#define erfc(...) banned_function_erfc
#define lgamma(...) banned_function_lgamma
#define tgamma(...) banned_function_tgamma
#define fmod(...) banned_function_fmod
#define remainder(...) banned_function_remainder
#define ldexp(...) banned_function_ldexp
#define frexp(...) banned_function_frexp
#define round(...) banned_function_round
#define lround(...) banned_function_lround
#define llround(...) banned_function_llround
#define rint(...) banned_function_rint
#define nearbyint(...) banned_function_nearbyint
#define trunc(...) banned_function_trunc
#define expf(...) banned_function_expf
#define logf(...) banned_function_logf
#define powf(...) banned_function_powf
#define tanhf(...) banned_function_tanhf
#endif

#endif
