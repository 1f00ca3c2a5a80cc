// What tests ask the fake libcuda.so.1.
#pragma once

extern "C" {
/// How often a driver function was called; names without the version of the ABI.
int fakeCudaCalls(const char* name);
/// The arguments of the last call, as far as they are recorded. Valid until the thread asks again.
const char* fakeCudaLast(const char* name);
}
