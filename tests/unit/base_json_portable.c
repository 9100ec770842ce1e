/* The same texts by the code for processors without SSE2: no other program that is built for this one has it. */
#ifdef __SSE2__
#undef __SSE2__ /* NOLINT(bugprone-reserved-identifier) */
#endif
#include "base/json.c" /* NOLINT(bugprone-suspicious-include) */
#include "unit/base_json.c" /* NOLINT(bugprone-suspicious-include) */
