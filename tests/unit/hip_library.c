/* As much of libamdhip64 as ais-check looks at: with AIS, without, or one that does not survive being loaded. */
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define EXPORT __attribute__((visibility("default")))

#ifdef CRASHES
__attribute__((constructor)) static void crash(void) { abort(); }
#endif

static int transfer(void) { return 801; }

EXPORT int hipRuntimeGetVersion(int* version) {
  puts("noise that a runtime makes");
  *version = 70200000;
  return 0;
}
EXPORT int hipGetProcAddress(const char* name, void** function, int version, uint64_t flags, void* status) {
  (void)version, (void)flags, (void)status;
  *function = NULL;
#ifdef HAS_AIS
  if (!strcmp(name, "hipAmdFileRead") || !strcmp(name, "hipAmdFileWrite")) *function = (void*)(uintptr_t)transfer;
#else
  (void)name, (void)transfer;
#endif
  return *function ? 0 : 1;
}
