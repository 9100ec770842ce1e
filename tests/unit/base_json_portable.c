/* The same texts by the code for processors without SSE2, which no other program here has. */
#ifdef __SSE2__
#undef __SSE2__ /* NOLINT(bugprone-reserved-identifier) */
#endif
#include "base/json.c"      /* NOLINT(bugprone-suspicious-include) */
#include "unit/base_json.c" /* NOLINT(bugprone-suspicious-include) */
